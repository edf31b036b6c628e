package rebuild

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Pending is the unfinished work at the end of a history. After a restart an
// application resumes or closes it. The zero value means that nothing is unfinished.
type Pending struct {
	// Owed is set if it is the model's turn: the history ends with a user message.
	// System prompts and tools do not count as one. The note on a failed turn leaves
	// Owed as it was; a stop clears it. After a summary alone it is not the model's
	// turn. The fields below have details.
	Owed bool `json:"owed,omitempty"`
	// User is the user text since the last answer or stop.
	User string `json:"user,omitempty"`
	// Calls are the calls of the last answer without a result. Older calls without a
	// result, but with a dispatch or a decision, come first. They occur if the
	// conversation has continued while a call was held or waited for a late result. The
	// history shows an error result for each call until the real one is appended. A stop
	// ends the calls of its turn that were not started, even held and approved ones.
	Calls []PendingCall `json:"calls,omitempty"`
	// Queued are user texts that wait for the end of the turn.
	Queued []Queued `json:"queued,omitempty"`
	// Cut is set if the last answer was aborted, failed or incompletely written, unless
	// a stop follows it.
	Cut bool `json:"cut,omitempty"`
}

// A Wait is the next step of unfinished work. The zero value means that no work is
// unfinished.
type Wait string

// The steps. If several are due, the first of this list counts.
const (
	WaitApproval Wait = "approval" // a call is held for a decision
	WaitTool     Wait = "tool"     // a call lacks its result
	WaitAnswer   Wait = "answer"   // it is the model's turn, its answer was cut, or texts are queued
	WaitAny      Wait = "any"      // any of them; only in filters
)

// Waits returns the next step of the work. A rejected call waits for no tool: its
// rejection is its result.
func (p Pending) Waits() (next Wait) {
	if p.Owed || p.Cut || len(p.Queued) > 0 {
		next = WaitAnswer
	}
	for _, c := range p.Calls {
		switch c.State {
		case Held:
			return WaitApproval
		case NotStarted, Approved, Dispatched:
			next = WaitTool
		case Rejected:
		}
	}
	return next
}

// Pending returns the unfinished work at the end of the history.
func (f *Fold) Pending() Pending {
	a, p := f.live(), Pending{Queued: f.standing.Queued}
	if len(a.items) == 0 {
		return p
	}
	items, halted := a.items[a.last().first:], false
	for n := len(items) - 1; n >= 0 && (items[n].end() != "" || items[n].ofPrompt()); n-- {
		halted = halted || items[n].end() == stopped
		items = items[:n]
	}
	if len(items) == 0 || !items[len(items)-1].concludes() {
		role := a.lastRole()
		if role == "" {
			return p
		}
		p.Owed = !halted && role == transcript.RoleUser && len(items) > 0
	}
	spoken := len(items) // the number of items up to the last answer
	for spoken > 0 && !items[spoken-1].answer {
		spoken--
	}
	var last *item
	if spoken > 0 {
		last = items[spoken-1]
		p.Cut = last.cut && !halted
	}
	p.Calls = a.pendingCalls(last)
	var after []transcript.Block // user blocks since the last answer
	for _, it := range items[spoken:] {
		if it.end() == stopped {
			after = nil
		}
		if it.aside || halted {
			continue
		}
		for _, part := range it.parts {
			after = append(after, part.block)
		}
	}
	p.User = transcript.Message{Content: after}.Text()
	return p
}

// lastRole returns the role of the last message of the history, or "" without messages.
func (a *assembler) lastRole() transcript.Role {
	for _, items := range [][]*item{a.items, a.prelude} {
		for _, it := range slices.Backward(items) {
			var r rendering
			r.item(it)
			if n := len(r.msgs); n > 0 {
				return r.msgs[n-1].Role
			}
		}
	}
	return ""
}

// pendingCalls returns the calls without a result that have a status or belong
// to the last answer, in their order.
func (a *assembler) pendingCalls(last *item) (calls []PendingCall) {
	a.statused = slices.DeleteFunc(a.statused, func(c *call) bool { return c.result != nil || c.late })
	open := slices.DeleteFunc(slices.Clone(a.statused), func(c *call) bool { return c.item == last })
	slices.SortFunc(open, func(c, d *call) int {
		return cmp.Or(c.node.ord-d.node.ord, slices.Index(c.item.calls, c)-slices.Index(d.item.calls, d))
	})
	if last != nil {
		open = append(open, last.calls...)
	}
	for _, c := range open {
		if c.result != nil || c.late || c.over && c.status.state != Dispatched || c.item == last && !c.kept() {
			continue
		}
		calls = append(calls, PendingCall{
			Entry: c.node.id, Call: c.recorded(), State: cmp.Or(c.status.state, NotStarted), By: c.status.by, Reason: c.status.reason,
		})
	}
	return calls
}
