package rebuild

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/transcript"
)

// node is one line of a type that histories are made from: a message line, a system
// prompt, tools, a dispatch, a decision, the end of a turn, a compaction, a clip or a
// hide.
type node struct {
	id       string // of its entry
	body     transcript.Body
	ord      int // its index among all nodes
	parent   int // the live node before it, or -1
	chain    int // the first node of the unbroken run up to it, in which each node is the parent of the next
	batch    int // the ordinal of its batch
	complete bool
	dead     int // the first ord of the retry that superseded it, or 0
	edited   int // the dead of a superseded node right before it, or the ord of the hide entry that shows it again
	hidden   int // the ord of the hide in force, or 0; path sets hidden and edited
	after    int // the tip after the line named by coversTo, or after the last line of its request; noAfter if none
}

// noAfter differs from every index of a node and from -1, the tip before all nodes.
const noAfter = -2

func (n *node) source(f *transcript.MessageLine, i int) source {
	if f.Kind == transcript.TypeToolUse || f.Kind == transcript.TypeToolResult {
		i = transcript.WholeEntry
	}
	return source{n, i}
}

// turn is a user text and all lines up to the next user text that starts a turn.
type turn struct {
	first   int       // index of its first item
	spares  []*result // results that have no call so far
	repairs Report    // repairs of single lines
}

// item is a user text without its tool results, or one answer of a model.
type item struct {
	entry  string // ID of its first line
	parts  []part
	answer bool
	plain  bool // it is a single line whose content is a string
	aside  bool // it shows a system prompt, tools, the end of a turn or a late result
	ord    int  // of its first line
	// since is the ord of the last line that changed this place, and before the
	// ord of the last line that changed an earlier place.
	since, before int

	// The fields below are for answers.
	made       *transcript.Answer // nil if its request was not recorded
	after      int                // the after of its node
	cut        bool               // incomplete, aborted or failed
	flat       bool               // its lines do not name their answer
	bare       bool               // a line of it is hidden: it loses its reasoning, and is shown as an answer of another model
	closed     bool               // a result came after one of its calls: a flat answer is over
	api, model string
	calls      []*call // one for each tool call in parts
}

// part is one block of an item.
type part struct {
	block transcript.Block
	from  source
}

// source is a block of a message line.
type source struct {
	node  *node
	block int // index in the content, or [transcript.WholeEntry]
}

func (s source) origin() transcript.Origin {
	return transcript.Origin{Entry: s.node.id, Batch: s.node.batch, Block: s.block}
}

type call struct {
	id     string
	node   *node            // its line
	block  transcript.Block // as it is recorded
	shown  transcript.Block // as shown, nil until first used
	item   *item
	result *result
	late   bool // its result is shown later, as a text
	over   bool // a stop has ended its turn

	status status // the actual one
	told   status // the one that is shown
	since  int    // the ord of the line that set told
}

func (c *call) recorded() transcript.ToolCallBlock {
	b, _ := c.block.(transcript.ToolCallBlock)
	return b
}

type result struct {
	callID string
	block  transcript.Block
	from   source
	after  int  // the number of items when it came
	since  int  // like the since of an item
	moved  bool // its line is not where providers want it

	carried bool  // it comes from the previous turn
	used    bool  // it was a spare and has found its call
	text    *item // the item that shows it as a text, or nil
}

// end returns the item's text if it is a note on the end of a turn, or "".
func (it *item) end() string {
	if len(it.parts) > 0 {
		if end, ok := it.parts[0].from.node.body.(transcript.Interrupt); ok {
			return endText(end)
		}
	}
	return ""
}

// ofPrompt reports whether the item shows a system prompt or tools.
func (it *item) ofPrompt() bool {
	return len(it.parts) > 0 && promptText(it.parts[0].from.node.body) != ""
}

// concludes reports whether the item is an answer that shows no call.
func (it *item) concludes() bool {
	return it.answer && it.shows() && !slices.ContainsFunc(it.calls, (*call).kept)
}

// kept reports whether the call is shown, given the results so far.
func (c *call) kept() bool {
	return !c.item.cut || (c.result != nil || c.told.state == Dispatched) && isObject(c.recorded().Input)
}

// shows reports whether any part of an answer is shown.
func (it *item) shows() bool {
	return len(it.parts) > len(it.calls) || slices.ContainsFunc(it.calls, (*call).kept)
}

// CallState is the progress of a call without a result.
type CallState string

// The states of a call.
const (
	NotStarted CallState = "not_started" // without a dispatch or a decision
	Held       CallState = "held"        // it waits for a decision of a person
	Approved   CallState = "approved"    // it may be started, but was not
	Rejected   CallState = "rejected"    // it must not be started
	Dispatched CallState = "dispatched"  // it was started: it is running or may have run
)

// PendingCall is a call that has no result.
type PendingCall struct {
	Entry string                   `json:"entry"` // the ID of its entry
	Call  transcript.ToolCallBlock `json:"call"`
	State CallState                `json:"state"`
	// By and Reason come from the decision on it.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// status combines the dispatches and decisions on a call.
type status struct {
	state      CallState // empty without a dispatch or a decision
	by, reason string
}

// allows reports whether the next statement counts. A dispatch always counts and is
// final, because the tool may have run. Of the decisions, the first approval or
// rejection counts.
func (s status) allows(next CallState) bool {
	if s.state == "" || s.state == Held {
		return next != s.state
	}
	return next == Dispatched && s.state != Dispatched
}

// decided maps the verdicts of decisions to states.
var decided = map[transcript.Verdict]CallState{
	transcript.Hold: Held, transcript.Approve: Approved, transcript.Reject: Rejected,
}

// text returns the text of the made-up result of a call.
func (s status) text() string {
	text := cmp.Or(map[CallState]string{Held: waiting, Dispatched: mayHaveRun, Rejected: denied}[s.state], neutral.Interrupted)
	if s.state == Rejected && s.reason != "" {
		text += ": " + s.reason
	}
	return text
}

// slab hands out zeroed slices of large arrays. It is for many small values that live
// equally long.
type slab[T any] struct {
	free []T
	size int // of the last array
}

// take returns n values. Appending to them copies them elsewhere.
func (s *slab[T]) take(n int) []T {
	if n > len(s.free) {
		s.size = min(max(2*s.size, 4), 256)
		s.free = make([]T, max(n, s.size))
	}
	taken := s.free[:n:n]
	s.free = s.free[n:]
	return taken
}

func (s *slab[T]) one() *T { return &s.take(1)[0] }
