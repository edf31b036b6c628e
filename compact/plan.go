package compact

import (
	"fmt"
	"math"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Cut is a plan: where a history is divided, and what that saves. It is plain
// data, made by [Plan].
type Cut struct {
	// Nothing says why there is nothing to do; it is empty if there is.
	Nothing Reason
	// At is the index of the first message that is kept. Those before it are
	// summarised.
	At int
	// Split says that the cut is inside a turn.
	Split bool
	// FirstKept and CoversTo are the IDs of the first entry that is kept and
	// of the last one that is summarised.
	FirstKept, CoversTo string
	// Before is the size of the history in tokens; Covered and Kept are those
	// of its two parts, and After is what is expected of the result.
	Before, Covered, Kept, After int
	// MaxSummary is how many tokens the summary should have at most.
	MaxSummary int
}

// Reason says why there is nothing to compact. Its String is a sentence.
type Reason string

// The reasons.
const (
	// NotDue: the trigger says that it is not time. Plan does not ask it.
	NotDue Reason = "not-due"
	// TooShort: the history has no more than what is kept.
	TooShort Reason = "too-short"
	// NoCut: there is no place to cut, because the history is a single exchange
	// for example, or because its messages have no Origins.
	NoCut Reason = "no-cut"
	// TooLarge: what cannot be summarised, the last exchange, is larger than
	// Room by far, so a compaction would not help.
	TooLarge Reason = "too-large"
	// NoRoom: what the trigger says is sent besides the history, the system
	// prompt and the tools, leaves no room for one.
	NoRoom Reason = "no-room"
)

// String returns a sentence without its full stop.
func (r Reason) String() string {
	switch r {
	case NotDue:
		return "the history is not long enough yet"
	case TooShort:
		return "all of the history is to be kept"
	case NoCut:
		return "there is no place to cut"
	case TooLarge:
		return "the last exchange alone is larger than the room there is"
	case NoRoom:
		return "the system prompt and the tools leave no room for a history"
	}
	return string(r)
}

// String describes the plan on one line.
func (c Cut) String() string {
	if c.Nothing != "" {
		return fmt.Sprintf("nothing to compact in ~%d tokens: %s", c.Before, c.Nothing)
	}
	split := ""
	if c.Split {
		split = ", inside a turn"
	}
	return fmt.Sprintf("summarise %d messages (~%d tokens), keep ~%d tokens%s: ~%d -> ~%d",
		c.At, c.Covered, c.Kept, split, c.Before, c.After)
}

// Plan says where to cut h. It is pure: the same history and options give the
// same cut, and nothing is changed.
//
// A cut is legal where the kept part begins with a user message that answers no
// call, or with an answer, and where everything before it was appended before
// everything after it. So no call is parted from its result, and a result that
// is still to come finds its call: calls of the last answer are always kept. A
// cut at the start of a turn is preferred.
//
// Messages must have their Origins, as those of a fold do.
func Plan(h rebuild.History, opts *Options) Cut {
	o := opts.filled()
	p := newPlanner(h, o)
	c := Cut{Before: p.size(0, len(h.Messages)) + p.system}
	if t := o.Trigger; t.Limit() > 0 && t.Overhead >= t.Limit() {
		c.Nothing = NoRoom
		return c
	}
	for {
		at, reason := p.choose()
		if reason != "" {
			c.Nothing = reason
			return c
		}
		if c := p.cut(c, at); o.Check == nil || o.Check(c) {
			return c
		}
		p.legal[at] = false
	}
}

// cut completes c for a cut at a message.
func (p *planner) cut(c Cut, at int) Cut {
	c.At, c.Split = at, !p.h.StartsTurn(at)
	c.Covered, c.Kept = p.size(0, at)+p.system, p.size(at, len(p.h.Messages))
	c.MaxSummary = max(1, min(p.o.MaxSummary, c.Covered/2))
	if p.o.Room > 0 {
		c.MaxSummary = max(1, min(c.MaxSummary, p.o.Room/5))
	}
	c.After = c.Kept + c.MaxSummary
	c.FirstKept, c.CoversTo = p.ends(at)
	return c
}

// planner looks for the place to cut one history.
type planner struct {
	h      rebuild.History
	o      Options
	sums   []int // sums[i] is the size of the messages before i
	system int   // size of the system prefix: the summary of the last compaction
	legal  []bool
}

func newPlanner(h rebuild.History, o Options) *planner {
	p := &planner{h: h, o: o, sums: make([]int, len(h.Messages)+1), legal: legalCuts(h.Messages)}
	for i := range h.Messages {
		p.sums[i+1] = p.sums[i] + o.Counter.Count("", nil, h.Messages[i:i+1])
	}
	if h.System != "" {
		p.system = o.Counter.Count(h.System, nil, nil)
	}
	return p
}

// size is the number of tokens of the messages from i to j.
func (p *planner) size(i, j int) int { return p.sums[j] - p.sums[i] }

// choose returns the cut that the policy asks for, moved so that what is kept
// fits into the room.
func (p *planner) choose() (at int, reason Reason) {
	n := len(p.h.Messages)
	share := math.MaxInt // what the kept part may have
	if room := p.o.Room; room > 0 {
		share = room * 4 / 5
		if p.o.Keep.Tokens > 0 {
			share = room / 2 // the rest is for what comes next
		}
		share = max(share-min(p.o.MaxSummary, room/5), 1)
	}
	switch k := p.o.Keep; {
	case k.Turns > 0:
		at = p.byTurns(k.Turns)
	case k.Fraction > 0:
		at = p.byFraction(k.Fraction)
	default:
		share = min(share, k.Tokens)
	}
	if at == 0 && p.size(0, n) <= share {
		return 0, TooShort
	}
	if at > 0 {
		if at = p.nearest(at); at > 0 && p.size(at, n) <= share {
			return at, ""
		}
	}
	at = p.earliest(max(at, 1), share)
	switch kept := p.size(at, n); {
	case at == 0:
		return 0, NoCut
	case p.o.Room > 0 && kept > p.o.Room+p.o.Room/4: // an estimate may be off by so much
		return 0, TooLarge
	}
	return at, ""
}

// byTurns returns the start of the k-th turn from the end; 0 if there are no
// more than k.
func (p *planner) byTurns(k int) int {
	for i := len(p.h.Messages) - 1; i > 0; i-- {
		if p.h.StartsTurn(i) {
			if k--; k == 0 {
				return i
			}
		}
	}
	return 0
}

// byFraction returns how many messages a fraction leaves to be summarised; 0
// if there are too few. The numbers are those of claw0.
func (p *planner) byFraction(f float64) int {
	n := len(p.h.Messages)
	covered := min(max(2, int(float64(n)*(1-f))), n-max(4, n/5))
	if covered < 2 || f >= 1 {
		return 0
	}
	return covered
}

// nearest returns the legal cut that is nearest to at, of two the earlier one;
// 0 if there is none.
func (p *planner) nearest(at int) int {
	for d := 0; d < len(p.legal); d++ {
		if i := at - d; i > 0 && p.legal[i] {
			return i
		}
		if i := at + d; i < len(p.legal) && p.legal[i] {
			return i
		}
	}
	return 0
}

// earliest returns the first cut from index from on that keeps no more than
// share tokens: the start of a turn, unless a cut inside one keeps more than
// twice as much. If none keeps so little it is the last legal one, and 0 if
// there is none at all.
func (p *planner) earliest(from, share int) int {
	n := len(p.h.Messages)
	first, last := 0, 0
	for i := from; i < n; i++ {
		if !p.legal[i] {
			continue
		}
		last = i
		if p.size(i, n) > share {
			continue
		}
		if first == 0 {
			first = i
		}
		if p.h.StartsTurn(i) {
			if p.size(i, n)*2 >= p.size(first, n) {
				return i
			}
			break
		}
	}
	if first == 0 {
		return last
	}
	return first
}

// ends returns the first entry of the kept part and the last one before it.
func (p *planner) ends(at int) (firstKept, coversTo string) {
	first := transcript.Origin{}
	for _, m := range p.h.Messages[at:] {
		for _, o := range m.Origins {
			if o.Batch > 0 && (first.Batch == 0 || o.Batch < first.Batch) {
				first = o
			}
		}
	}
	last := transcript.Origin{}
	for _, m := range p.h.Messages[:at] {
		for _, o := range m.Origins {
			if o.Batch >= last.Batch && o.Batch > 0 && o.Batch < first.Batch {
				last = o
			}
		}
	}
	return first.Entry, last.Entry
}

// previous returns the summary of the last compaction, and the messages
// without it.
func previous(h rebuild.History) (summary string, msgs []transcript.Message) {
	heading := rebuild.SummaryHeading + "\n"
	if rest, ok := strings.CutPrefix(h.System, heading); ok {
		summary = rest
	}
	for _, m := range h.Messages {
		own := transcript.Message{Role: m.Role}
		for i, b := range m.Content {
			if i >= len(m.Origins) || !isSummary(m.Origins[i]) {
				own.Content = append(own.Content, b)
				continue
			}
			if t, ok := b.(transcript.TextBlock); ok && m.Role == transcript.RoleUser {
				summary = strings.TrimPrefix(t.Text, heading)
			}
		}
		if len(own.Content) == len(m.Content) {
			own = m
		}
		if len(own.Content) > 0 {
			msgs = append(msgs, own)
		}
	}
	return summary, msgs
}

// isSummary reports whether a block is part of the summary of a compaction.
func isSummary(o transcript.Origin) bool { return o.Entry != "" && o.Batch == 0 }
