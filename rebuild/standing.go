package rebuild

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/convolog/convolog/transcript"
)

// Standing is the state that entries have set and that no later entry has unset. A
// rewind takes none of it back. A compaction and the header of a fork hold all of it,
// so a fold of the kept lines has the same state. The zero value is empty. A Standing
// must not be modified.
type Standing struct {
	Queued []Queued
	Draft  Draft                // zero if no answer is being streamed
	Pins   []transcript.Carried // in the order in which they were set
	Values []Value              // in the order in which they were last set

	// Calibrations holds one calibration for each model and endpoint, ordered by their
	// last change. Entries leaves them to the caller, because a compaction may refute
	// some.
	Calibrations []transcript.Calibration
	Compacted    int // the TokensAfter of the last compaction, or 0
	Cleared      int // as in [History]

	copied int // number of lines to come that a fork has copied: its header holds their state
}

// Queued is a user text that is still queued.
type Queued struct {
	Entry   string             `json:"entry"`
	Time    time.Time          `json:"time"`
	Message transcript.Message `json:"message"`
}

// Draft is the text so far of a streamed answer that has not ended.
type Draft struct {
	Entry string // the entry of the first part
	transcript.Draft
}

// Value is a value that a [transcript.Value] has set.
type Value struct {
	Entry string          `json:"entry"` // the entry that set it
	Time  time.Time       `json:"time"`
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`

	Listed bool `json:"listed,omitempty"` // as in [transcript.Value]
}

func (s *Standing) add(b transcript.Batch) {
	if s.copied > 0 {
		s.addCopied(b)
		return
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		switch body := e.Body.(type) {
		case transcript.Header:
			s.restore(body.Standing)
			s.copied = body.Base.Lines
		case transcript.Queued:
			s.Queued = append(without(s.Queued, func(q Queued) bool { return q.Entry == e.ID }), Queued{e.ID, e.Time, body.Message()})
		case transcript.MessageLine:
			if body.Queued != "" {
				s.Queued = without(s.Queued, func(q Queued) bool { return q.Entry == body.Queued })
			}
			if body.Role == transcript.RoleAssistant && b.Complete {
				s.Draft = Draft{}
			}
			if body.Role == transcript.RoleAssistant && body.Of == "" && (body.Usage.Prompt() > 0 || len(body.Usage.Extra) > 0) {
				s.Cleared = body.Usage.Cleared()
			}
		case transcript.Calibration:
			s.calibrate(body)
		case transcript.Compaction:
			*s = Standing{Compacted: body.TokensAfter}
			s.restore(body.Standing)
		case transcript.Draft:
			switch open := s.Draft.Key == body.Key; {
			case body.Key == "", body.At > 0 && !open: // a part of a draft that has ended
			case body.Off:
				s.Draft = Draft{}
			case open:
				s.Draft.Text = s.Draft.Text[:min(body.At, len(s.Draft.Text))] + body.Text
			default:
				s.Draft = Draft{e.ID, body}
			}
		case transcript.Pin:
			s.Pins = without(s.Pins, func(p transcript.Carried) bool { return p.Entry == body.Entry })
			if !body.Off {
				s.Pins = append(s.Pins, transcript.Carried{Entry: body.Entry, Text: body.Text})
			}
		case transcript.Value:
			s.set(e.ID, e.Time, body)
		}
	}
}

// addCopied takes a batch that a fork has copied. Only the size after a compaction
// counts, because the header of the fork holds the other state.
func (s *Standing) addCopied(b transcript.Batch) {
	for _, e := range b.Entries {
		if c, ok := e.Body.(transcript.Compaction); ok {
			s.Compacted, s.Cleared = c.TokensAfter, 0
		}
	}
	s.copied = max(s.copied-len(b.Entries), 0)
}

// restore adds the state that a compaction or a header holds.
func (s *Standing) restore(standing []transcript.Entry) {
	for i := range standing {
		switch standing[i].Body.(type) {
		case transcript.Compaction, transcript.Header:
		default:
			s.add(transcript.Batch{Entries: standing[i : i+1], Complete: true})
		}
	}
}

func (s *Standing) set(id string, at time.Time, v transcript.Value) {
	s.Values = without(s.Values, func(old Value) bool { return old.Name == v.Name })
	if v.Value != nil {
		s.Values = append(s.Values, Value{id, at, v.Name, v.Value, v.Listed})
	}
}

// calibrate merges a calibration of a model and an endpoint.
func (s *Standing) calibrate(c transcript.Calibration) {
	same := func(k transcript.Calibration) bool { return k.Model == c.Model && k.Endpoint == c.Endpoint }
	if i := slices.IndexFunc(s.Calibrations, same); i >= 0 {
		c = s.Calibrations[i].Merge(c)
	}
	s.Calibrations = append(without(s.Calibrations, same), c)
}

// without returns the items for which drop is false, in a new array.
func without[T any](items []T, drop func(T) bool) []T {
	return slices.DeleteFunc(slices.Clone(items), drop)
}

// Entries returns the entries that a compaction holds for the state, without
// calibrations.
func (s Standing) Entries() (all []transcript.Entry) {
	for _, v := range s.Values {
		all = append(all, transcript.Entry{ID: v.Entry, Time: v.Time, Body: transcript.Value{Name: v.Name, Value: v.Value, Listed: v.Listed}})
	}
	for _, p := range s.Pins {
		all = append(all, transcript.Entry{ID: p.Entry, Body: transcript.Pin{Entry: p.Entry, Text: p.Text}})
	}
	for _, q := range s.Queued {
		all = append(all, transcript.Entry{ID: q.Entry, Time: q.Time, Body: transcript.Queued{Content: q.Message.Content}})
	}
	if d := s.Draft; d.Key != "" {
		all = append(all, transcript.Entry{ID: d.Entry, Body: d.Draft})
	}
	return all
}
