package rebuild

import (
	"cmp"
	"slices"

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

func (a *assembler) addStatus(n *node, callID, entry string, said status) {
	c := a.unanswered(callID, entry)
	if c == nil || said.state == "" || !c.status.allows(said.state) {
		return
	}
	c.status = said
	if !a.tooLate(c, n) {
		c.told, c.since = said, n.ord
		a.touched(c.item)
	} else if said.state == Rejected {
		// The model has already seen the call without a result, so the rejection
		// reaches it the way a late result would.
		r := a.resultSlab.one()
		r.callID, r.block, r.from, r.since = callID, transcript.ToolError(callID, said.text()).Content[0], source{n, transcript.WholeEntry}, n.ord
		a.addLate(r, c)
	}
}

func (a *assembler) unanswered(callID, entry string) *call {
	var open []*call
	if same := a.now.calls[callID]; same != nil {
		open = slices.Concat(same.open...)
	}
	for _, c := range append(open, a.waiting[callID]...) {
		if c.node.id == entry && !c.late {
			return c
		}
	}
	return nil
}

// text is what the result made up for a call says.
func (s status) text() string {
	text := cmp.Or(map[CallState]string{Held: waiting, Dispatched: mayHaveRun, Rejected: denied}[s.state], Interrupted)
	if s.state == Rejected && s.reason != "" {
		text += ": " + s.reason
	}
	return text
}

// pendingCalls returns the calls without a result that have a status or belong
// to the last answer, in their order.
func (a *assembler) pendingCalls(last *item) (calls []PendingCall) {
	for _, it := range a.items {
		for _, c := range it.calls {
			if c.result != nil || c.late || it == last && !c.kept() || it != last && c.status.state == "" {
				continue
			}
			calls = append(calls, PendingCall{
				Entry: c.node.id, Call: c.recorded(), State: cmp.Or(c.status.state, NotStarted), By: c.status.by, Reason: c.status.reason,
			})
		}
	}
	return calls
}
