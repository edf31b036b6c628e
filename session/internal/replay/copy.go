package replay

import (
	"iter"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Copy returns the entries that a fork of a session at an entry begins with, and the state
// that its header holds.
func Copy(scan Scan, base driver.Row, entryID string, opts *Options) (lines, standing []transcript.Entry, err error) {
	p, err := Locate(scan, entryID)
	if err != nil {
		return nil, standing, err
	}
	for cut := p.End; ; cut = p.Start {
		until := until(scan, cut)
		r, err := readOf(driver.Row{ID: base.ID, Agent: base.Agent, Key: base.Key}, until, opts)
		if err != nil {
			return nil, standing, err
		}
		open := r.openAnswer()
		if open == "" {
			if lines, err = r.copies(until); err == nil {
				standing, err = r.inherited(until, lines)
			}
			return lines, standing, err
		}
		if p, err = Locate(until, open); err != nil {
			return nil, standing, err
		}
	}
}

// livePins returns the pins of entries that no rewind has taken back up to the end of
// a scan.
func (r *Reader) livePins(scan Scan) ([]transcript.Carried, error) {
	pins := slices.Clone(r.Fold.Standing().Pins)
	where, all := PlacesIn(r.Fold, EntriesOf(pins))
	if !all && r.from > 0 {
		var o Outline
		var err error
		sift := func(driver.Keep) iter.Seq2[transcript.Record, error] { return scan(0, driver.Backward) }
		if where, err = o.Places(sift, EntriesOf(pins)); err != nil {
			return nil, err
		}
	}
	return InForce(pins, where), nil
}

// until returns a scan of the lines that end at a cursor or before it.
func until(all Scan, end driver.Cursor) Scan {
	return func(from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
		return func(yield func(transcript.Record, error) bool) {
			for rec, err := range all(from, dir) {
				behind := err == nil && driver.Cursor(rec.End) > end
				if behind && dir == driver.Backward {
					continue
				}
				if behind || !yield(rec, err) {
					return
				}
			}
		}
	}
}

// openAnswer returns an entry of the last answer if that has a call without a
// result.
func (r *Reader) openAnswer() string {
	open := r.Fold.Pending().Calls
	if len(open) == 0 {
		return ""
	}
	for _, m := range slices.Backward(r.Fold.History().Messages) {
		if m.Role != transcript.RoleAssistant {
			continue
		}
		for _, o := range slices.Backward(m.Origins) {
			if slices.ContainsFunc(open, func(c rebuild.PendingCall) bool { return c.Entry == o.Entry }) {
				return o.Entry
			}
		}
		break
	}
	return ""
}

// inherited returns the state that a fork with copied lines takes over: calibrations,
// pins, values and the idempotency keys of other lines, but no queued texts, drafts and
// commits. The fork lacks earlier rewinds, so it gets no pins of entries that they took
// back, and none of hidden ones.
func (r *Reader) inherited(scan Scan, lines []transcript.Entry) (all []transcript.Entry, err error) {
	s := r.Fold.Standing()
	if s.Pins, err = r.livePins(scan); err != nil {
		return nil, err
	}
	for _, k := range r.keys.kept() {
		if !slices.ContainsFunc(lines, func(e transcript.Entry) bool { return e.ID == k.ID }) {
			k.IdemHash = transcript.ErasedHash // an erase cannot find the words of a hash
			all = append(all, k)
		}
	}
	for _, c := range s.Calibrations {
		all = append(all, transcript.Entry{Body: c})
	}
	return append(all, rebuild.Standing{Values: s.Values, Pins: s.Pins}.Entries()...), nil
}

// copies returns the entries of the batches in force: the lines of the history, and an
// application's own lines among them. A compaction is copied without its state.
func (r *Reader) copies(scan Scan) (lines []transcript.Entry, err error) {
	live := setOf(r.Fold.InForce())
	compacted := r.Fold.History().Compaction != nil
	own := []string{"custom", "tool_status"}
	hidden := func(id string) bool { w, _ := r.Fold.Where(id); return w.Hidden }
	copied := map[string]bool{} // a repeated line is not a copy
	for b, err := range transcript.Batches(scan(r.from, driver.Forward)) {
		if err != nil {
			return nil, err
		}
		if copied[b.Entries[0].ID] {
			continue
		}
		isOwn := b.Complete && !slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return !slices.Contains(own, e.Type()) })
		switch {
		case slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return live[e.ID] }):
		case isOwn && r.Fold.Live(b.Entries[0].ID) && (len(lines) > 0 || !compacted):
		default:
			continue
		}
		for _, e := range b.Entries {
			if hidden(e.ID) {
				e = r.opts.WithChecksum(e.Erase())
			}
			if c, ok := e.Body.(transcript.Compaction); ok && c.Standing != nil {
				c.Standing = nil
				e.Body = c
				e = r.opts.WithChecksum(e.WithLine(nil))
			}
			lines = append(lines, e)
			copied[e.ID] = copied[e.ID] || b.Complete && e.ID != ""
		}
	}
	return lines, nil
}

// setOf returns items as a set.
func setOf[T comparable](items []T) map[T]bool {
	set := make(map[T]bool, len(items))
	for _, item := range items {
		set[item] = true
	}
	return set
}
