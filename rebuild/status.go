package rebuild

import (
	"cmp"

	"github.com/convolog/convolog/transcript"
)

// CallState is the progress of a call without a result.
type CallState string

// The states of a call.
const (
	NotStarted CallState = "not_started" // without a dispatch or a decision
	Held       CallState = "held"        // a person is to decide
	Approved   CallState = "approved"    // it may be started and was not
	Rejected   CallState = "rejected"    // it must not be started
	Dispatched CallState = "dispatched"  // it was started: it is running, or may have run
)

// PendingCall is a call that has no result.
type PendingCall struct {
	Entry string                   `json:"entry"` // ID of its entry
	Call  transcript.ToolCallBlock `json:"call"`
	State CallState                `json:"state"`
	// By and Reason come from the decision on it.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// status combines the dispatches and decisions on a call.
type status struct {
	state      CallState // empty if nothing was said
	by, reason string
}

// allows reports whether the next statement counts. A dispatch always does, since
// the tool may have run, and is the last word; of decisions the first approval or
// rejection counts.
func (s status) allows(next CallState) bool {
	if s.state == "" || s.state == Held {
		return next != s.state
	}
	return next == Dispatched && s.state != Dispatched
}

// decided has the states that decisions bring about.
var decided = map[transcript.Verdict]CallState{
	transcript.Hold: Held, transcript.Approve: Approved, transcript.Reject: Rejected,
}

// text is what the result made up for a call says.
func (s status) text() string {
	text := cmp.Or(map[CallState]string{Held: waiting, Dispatched: mayHaveRun, Rejected: denied}[s.state], Interrupted)
	if s.state == Rejected && s.reason != "" {
		text += ": " + s.reason
	}
	return text
}
