package compact

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Cut is a plan: where a history is divided, the tokens that saves, and the
// options used. It is plain data, made by [Plan], and survives JSON. [Run] takes
// it together with the planned history.
type Cut struct {
	// Nothing is the reason why there is nothing to do; empty for a cut.
	Nothing Reason `json:"nothing,omitempty"`
	// At is the index of the first message that is kept. Those before it are
	// summarised.
	At int `json:"at,omitempty"`
	// Split is set if the cut is inside a turn.
	Split bool `json:"split,omitempty"`
	// FirstKept and CoversTo are the IDs of the first entry that is kept and
	// of the last one that is summarised.
	FirstKept string `json:"firstKept,omitempty"`
	CoversTo  string `json:"coversTo,omitempty"`
	// Read are the entries after FirstKept that are summarised as well.
	Read []string `json:"read,omitempty"`
	// Before is the size of the history in tokens, Covered and Kept the sizes
	// of its two parts, and After the size of the result at most, if the
	// summarizer obeys MaxSummary.
	Before  int `json:"before"`
	Covered int `json:"covered,omitempty"`
	Kept    int `json:"kept,omitempty"`
	After   int `json:"after,omitempty"`
	// MaxSummary limits the tokens of the summary, and MaxCarried the tokens
	// that code carries in addition.
	MaxSummary int `json:"maxSummary,omitempty"`
	MaxCarried int `json:"maxCarried,omitempty"`
	// Keep and Room come from the options, Limit from their trigger, or is 0.
	// Overhead is the trigger's, plus the prompt at the top of the history.
	Keep     Keep `json:"keep,omitzero"`
	Room     int  `json:"room,omitempty"`
	Limit    int  `json:"limit,omitempty"`
	Overhead int  `json:"overhead,omitempty"`
}

// Reason explains why there is nothing to compact, in a sentence without its
// full stop.
type Reason string

// Reasons that a program may branch on. The others are only sentences.
const (
	// NotDue is for callers that check the trigger. Plan does not.
	NotDue Reason = "the history is not long enough yet"
	// TooShort: the whole history is kept.
	TooShort Reason = "all of the history is to be kept"
)

const (
	// noCut: the history is a single exchange for example, or its messages lack
	// Origins.
	noCut Reason = "there is no place to cut"
	// tooLarge: the part that cannot be summarised is far larger than Room, so a
	// compaction would not help.
	tooLarge Reason = "the last exchange alone is larger than the room there is"
	// noRoom: the Overhead of the trigger leaves less than a tenth of its limit.
	// Every turn would need a compaction, so shorten prompt and tools or use a
	// larger window.
	noRoom Reason = "the system prompt and the tools leave no room for a history"
	// noGain: the history is larger than Room, and would not become smaller by
	// 10 % or 2,000 tokens.
	noGain Reason = "what could be summarised is too little to make a difference"
)

// String describes the plan on one line.
func (c Cut) String() string {
	if c.Nothing != "" {
		why := string(c.Nothing)
		switch {
		case c.Nothing == noRoom && c.Limit > 0:
			why += fmt.Sprintf(": they have ~%d tokens, and a compaction is due at %d; shorten them or use a larger window", c.Overhead, c.Limit)
		case c.Nothing == tooLarge && c.Room > 0:
			why += fmt.Sprintf(": ~%d tokens", c.Room)
		}
		return fmt.Sprintf("nothing to compact in ~%d tokens: %s", c.Before, why)
	}
	split := ""
	if c.Split {
		split = ", inside a turn"
	}
	return fmt.Sprintf("summarise %d messages (~%d tokens), keep ~%d tokens%s: ~%d -> ~%d",
		c.At, c.Covered, c.Kept, split, c.Before, c.After)
}

// Plan chooses where to cut h. It is pure: the same history and options give
// the same cut, and nothing is changed.
//
// A cut is legal where the kept part begins with a user message that answers no
// call, or with an answer, and where everything before it was appended before
// everything after it. So no call is parted from its result, and a later result
// finds its call: calls of the last answer are always kept. A cut at the start
// of a turn is preferred.
//
// Messages must have their Origins, as a fold sets them.
func Plan(h rebuild.History, opts *Options) Cut {
	o := opts.filled()
	p := newPlanner(h, o)
	c := p.none
	if c.Limit > 0 && c.Overhead > c.Limit/10*9 {
		c.Nothing = noRoom
		return c
	}
	for {
		at, reason := p.choose()
		if reason != "" {
			c.Nothing = reason
			return c
		}
		cut := p.cut(at)
		if c.Room > 0 && c.Before > c.Room && cut.Before-(cut.After-cut.MaxCarried+min(cut.MaxCarried, p.expected())) < margin(c.Before) {
			c.Nothing = noGain
			return c
		}
		if o.Check == nil || o.Check(cut) {
			return cut
		}
		p.legal[at] = false
	}
}

// CutAt returns the cut before a message, or after the last one, even if it is
// not legal.
func CutAt(h rebuild.History, at int, opts *Options) Cut {
	return newPlanner(h, opts.filled()).cut(at)
}

func (p *planner) cut(at int) Cut {
	c := p.none
	c.At, c.Split = at, at < len(p.h.Messages) && !p.h.StartsTurn(at)
	c.Covered, c.Kept = p.size(0, at)+p.system, p.size(at, len(p.h.Messages))+p.prompt
	c.MaxSummary = max(1, min(p.o.MaxSummary, c.Covered/2))
	c.MaxCarried = min(max(c.Covered/4, min(c.Covered/2, 256), 2*p.listed), p.o.MaxCarried)
	if c.Room > 0 {
		c.MaxCarried = min(c.MaxCarried, max(c.Room-c.Kept-c.MaxSummary, c.Room/8))
	}
	c.After = c.Kept + c.MaxSummary + c.MaxCarried
	c.FirstKept, c.CoversTo, c.Read = ends(p.h.Messages, at)
	return c
}

// margin returns how many tokens a compaction must save at least: after a smaller
// saving the next one would soon be due.
func margin(before int) int { return min(before/10, 2_000) }

// planner looks for the place to cut one history.
type planner struct {
	h      rebuild.History
	o      Options
	sums   []int // sums[i] is the size of the messages before i
	system int   // size of the system prefix: the summary of the last compaction
	prompt int   // size of the prompt that stays on top
	listed int   // size of what the last compaction carried
	legal  []bool
	none   Cut // the fields common to all cuts
}

func newPlanner(h rebuild.History, o Options) *planner {
	p := &planner{h: h, o: o, sums: make([]int, len(h.Messages)+1), legal: apart(h.Messages, legalCuts(h.Messages))}
	for i := range h.Messages {
		p.sums[i+1] = p.sums[i] + o.Counter.Count("", nil, h.Messages[i:i+1])
	}
	p.system, p.prompt = o.Counter.Count(h.System, nil, nil), o.Counter.Count(h.Prompt, nil, nil)
	if h.Compaction != nil {
		if text := rebuild.CarriedText(*h.Compaction); text != "" {
			p.listed = countText(o.Counter, text)
		}
	}
	if o.yields {
		p.o.Keep.Tokens = max(o.Keep.Tokens-p.expected(), o.least, 1)
	}
	p.none = Cut{Before: p.size(0, len(h.Messages)) + p.system + p.prompt, Keep: p.o.Keep, Room: max(o.Room, 0), Limit: o.Trigger.limit()}
	p.none.Overhead = max(o.Trigger.Overhead, 0) + p.prompt
	return p
}

// expected estimates the size of the carried items: the last ones, and each new
// text of the user, up to the limit of a reduced text.
func (p *planner) expected() int {
	sum := p.listed + p.o.MaxCarried/12
	for i, m := range p.h.Messages {
		if m.Role == transcript.RoleUser && len(userLines(m)) > 0 {
			sum += min(p.size(i, i+1), mostOfText)
		}
	}
	return min(sum, p.o.MaxCarried)
}

func (p *planner) size(i, j int) int { return p.sums[j] - p.sums[i] }

// choose returns the cut of the policy, moved so that the kept part fits into
// the room.
func (p *planner) choose() (at int, reason Reason) {
	n := len(p.h.Messages)
	share := math.MaxInt // the limit of the kept part
	if room := p.o.Room; room > 0 {
		// The rest is for later messages.
		share = max((room-p.prompt)*3/5-p.o.MaxSummary-max(p.expected()-room/8, 0), 1)
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
		return 0, noCut
	case p.o.Room > 0 && kept+p.prompt > p.o.Room+p.o.Room/4: // an estimate may be off by that much
		return 0, tooLarge
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

// byFraction returns how many messages to summarise for a fraction; 0 if there
// are too few. The numbers come from claw0.
func (p *planner) byFraction(f float64) int {
	n := len(p.h.Messages)
	covered := min(max(2, int(float64(n)*(1-f))), n-max(4, n/5))
	if covered < 2 || f >= 1 {
		return 0
	}
	return covered
}

// nearest returns the legal cut nearest to at, the earlier of two, or 0.
func (p *planner) nearest(at int) (best int) {
	for i, legal := range p.legal {
		if legal && i > 0 && (best == 0 || max(i-at, at-i) < max(best-at, at-best)) {
			best = i
		}
	}
	return best
}

// earliest returns the first cut from index from on that keeps no more than share tokens: the start
// of a turn, unless a cut inside a turn keeps more than half as much again. If none keeps so
// little: the last legal cut, or 0.
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
			if p.size(i, n)*3 >= p.size(first, n)*2 {
				return i
			}
			break
		}
	}
	return cmp.Or(first, last)
}

// ends returns the first entry of the kept part, the last one before it, and
// later entries that are shown before the cut.
func ends(msgs []transcript.Message, at int) (firstKept, coversTo string, read []string) {
	first := transcript.Origin{Batch: math.MaxInt} // nothing is kept
	for _, m := range msgs[at:] {
		for _, o := range m.Origins {
			if o.Batch > 0 && o.Batch < first.Batch {
				first = o
			}
		}
	}
	last := transcript.Origin{}
	for _, m := range msgs[:at] {
		for _, o := range m.Origins {
			switch {
			case o.Batch > first.Batch:
				read = append(read, o.Entry)
			case o.Batch > 0 && o.Batch >= last.Batch && o.Batch < first.Batch:
				last = o
			}
		}
	}
	return first.Entry, last.Entry, slices.Compact(read)
}
