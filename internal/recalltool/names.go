// Package recalltool names the tools with which a model reads entries no longer
// in its history, see search.RecallTools. Clips and summaries can then mention
// them.
package recalltool

// The names of the tools.
const (
	Search = "recall_search"
	Window = "recall_window"
	Read   = "recall_read"
)
