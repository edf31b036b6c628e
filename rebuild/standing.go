package rebuild

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/convolog/convolog/transcript"
)

// Standing is what entries have set and nothing has unset since: a rewind takes
// none of it back, and a compaction repeats it, so that a fold of what it keeps
// has the same. The zero value is empty. It must not be modified.
type Standing struct {
	Queued []Queued
	Drafts []Draft
	Pins   []transcript.Carried // in the order in which they were set
	State  []Value              // ordered by when they were set last

	Commit Commit // the last one
	Used   []Used // since then
	used   map[string]bool

	// Calibrations are one a model, the one that was added last at the end. Items
	// leaves them to the caller, who knows which a compaction refutes.
	Calibrations []transcript.Calibration
	Compacted    int // TokensAfter of the last compaction, 0 if there was none or it does not say
	Cleared      int // as in [History]
}

// Queued is a text of the user that no user line has taken over.
type Queued struct {
	Entry   string             `json:"entry"`
	Time    time.Time          `json:"time"`
	Message transcript.Message `json:"message"`
}

// Draft is what was written of an answer that was streamed and has not come to
// its end.
type Draft struct {
	Entry string // of the first part
	transcript.Draft
}

// Value is a value that a [transcript.State] has set.
type Value struct {
	Entry string          `json:"entry"` // that has set it
	Time  time.Time       `json:"time"`
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

func (s *Standing) add(b transcript.Batch) {
	for i := range b.Entries {
		// A batch that was cut may lack the lines that repeat what was in force.
		if _, ok := b.Entries[i].Body.(transcript.Compaction); ok && b.Complete {
			*s = Standing{}
		}
	}
	if key := b.Entries[0].Idem; key != "" && b.Complete && len(s.Drafts) > 0 {
		s.Drafts = without(s.Drafts, func(d Draft) bool { return d.Key == key })
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		id := cmp.Or(e.Of, e.ID)
		switch body := e.Body.(type) {
		case transcript.Queued:
			s.Queued = without(s.Queued, func(q Queued) bool { return q.Entry == id }) // of a compaction that was cut
			if !body.Off {
				s.Queued = append(s.Queued, Queued{id, e.Time, body.Message()})
			}
		case transcript.Fragment:
			if body.Queued != "" {
				s.Queued = without(s.Queued, func(q Queued) bool { return q.Entry == body.Queued })
			}
			if body.Role == transcript.RoleAssistant && body.Of == "" && (body.Usage.Prompt() > 0 || len(body.Usage.Extra) > 0) {
				s.Cleared = body.Usage.Cleared()
			}
		case transcript.Calibration:
			s.calibrate(body)
		case transcript.Compaction:
			s.Compacted, s.Cleared = body.TokensAfter, 0
		case transcript.Draft:
			if body.Key == "" {
				continue // no answer can end it
			}
			if e.Of != "" || body.Off { // it has all of the text
				s.Drafts = without(s.Drafts, func(d Draft) bool { return d.Key == body.Key })
			}
			if body.Off {
				continue
			}
			s.Drafts = slices.Clone(s.Drafts)
			if i := slices.IndexFunc(s.Drafts, func(d Draft) bool { return d.Key == body.Key }); i >= 0 {
				s.Drafts[i].Text += body.Text
			} else {
				s.Drafts = append(s.Drafts, Draft{id, body})
			}
		case transcript.Pin:
			s.Pins = without(s.Pins, func(p transcript.Carried) bool { return p.Entry == body.Entry })
			if !body.Off {
				s.Pins = append(s.Pins, transcript.Carried{Entry: body.Entry, Text: body.Text})
			}
		case transcript.State:
			s.set(id, e.Time, body)
		default:
			if b.Complete { // a commit that was cut was never acknowledged
				s.account(id, e)
			}
		}
	}
}

// set sets a value or removes it.
func (s *Standing) set(id string, at time.Time, v transcript.State) {
	s.State = without(s.State, func(old Value) bool { return old.Name == v.Name })
	if v.Value != nil {
		s.State = append(s.State, Value{id, at, v.Name, v.Value})
	}
}

// calibrate takes what is said about a model; what that leaves out stays.
func (s *Standing) calibrate(c transcript.Calibration) {
	ofModel := func(k transcript.Calibration) bool { return k.Model == c.Model }
	if i := slices.IndexFunc(s.Calibrations, ofModel); i >= 0 {
		k := s.Calibrations[i]
		c.Window = cmp.Or(c.Window, k.Window)
		if c.Factor == 0 {
			c.Factor, c.Prompt = k.Factor, k.Prompt
		}
		if c.Failures == 0 {
			c.Failures, c.FailedAt = k.Failures, k.FailedAt
		}
	}
	s.Calibrations = append(without(s.Calibrations, ofModel), c)
}

// without returns the items of which drop is false, in an array of their own.
func without[T any](items []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(items), drop)
}

// Items returns the entries that set all of it again, each a repeat.
func (s Standing) Items() (items []transcript.Item) {
	for _, v := range s.State {
		items = append(items, transcript.Repeat(transcript.State{Name: v.Name, Value: v.Value}, v.Entry))
	}
	for _, p := range s.Pins {
		items = append(items, transcript.Repeat(transcript.Pin{Entry: p.Entry, Text: p.Text}, p.Entry))
	}
	for _, q := range s.Queued {
		items = append(items, transcript.Repeat(transcript.Queued{Content: q.Message.Content}, q.Entry))
	}
	for _, d := range s.Drafts {
		items = append(items, transcript.Repeat(d.Draft, d.Entry))
	}
	if c := s.Commit; c.Entry != "" {
		open := slices.Contains(c.Open, c.Entry)
		c.Open = without(c.Open, func(id string) bool { return id == c.Entry })
		items = append(items, transcript.Repeat(c.Commit, c.Entry))
		if !open {
			items = append(items, transcript.Repeat(transcript.Extracted{Commit: c.Entry}, c.Entry))
		}
	}
	for _, u := range s.Used {
		items = append(items, transcript.Repeat(u.Used, u.Entry))
	}
	return items
}

// Standing returns what is in force besides the history.
func (f *Fold) Standing() Standing { return f.standing }
