package transcript

// The names of the tools with which a model reads what its history no longer
// has, see search.RecallTools. Where a model is offered them, clips and summaries
// can say so.
const (
	RecallSearch = "recall_search"
	RecallWindow = "recall_window"
	RecallRead   = "recall_read"
)
