// Package recalltool names the tools with which a model reads what its history no
// longer has, see search.RecallTools. Where a model is offered them, clips and
// summaries can say so.
package recalltool

// The names of the tools.
const (
	Search = "recall_search"
	Window = "recall_window"
	Read   = "recall_read"
)
