package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Fork makes a new session that begins with the conversation as it was right
// after an entry, and the current one of the same key; [Session.MakeCurrent]
// brings the old one back. The session's own ID means the beginning. Nil
// options and zero fields are the defaults of [Store.Create], but an empty Owner
// means the owner of this session. A fork for another owner is set Aside.
//
// When the error is nil, the history of the new session equals this one's after
// the entry. Its lines are copies, byte for byte, of the lines in force there:
// the part that the last compaction keeps, the compaction, and later lines. Only hidden
// lines are copied without their words.
// Rewound and summarised lines are not copied, so the cost of a fork depends on
// its history, and a rewind cannot reach them. Metadata is not copied either.
// Pins and values in force there are taken over, queued texts and drafts are
// not.
//
// A fork never begins inside an append or between calls and their results: it
// ends before an answer with a call that has no result after the entry.
//
// [Info].Descent names the origins of the copies. Either session may be deleted, and a fork
// can be forked. Copied entries keep their IDs and idempotency keys, so an append that was
// made before the fork is found as repeated in both sessions, and a later one in its own.
//
// An error means that no session was made; a kill leaves the whole fork or none. An ID
// that is not there gives an error that matches [ErrNoEntry], an ID in use one that
// matches fs.ErrExist. If something of this session is erased before the fork is made,
// the error matches [ErrReplaced]: fork it again. The copied lines are in memory until
// then.
func (s *Session) Fork(ctx context.Context, entryID string, opts *CreateOptions) (*Session, error) {
	const op = "fork"
	o, err := opts.checked()
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	var base driver.Row
	err = s.view(ctx, op, func(v *View) (err error) {
		if base, err = v.row(); err == nil {
			err = v.t.writable(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	scan := s.store.scan(ctx, s.ref)
	lines, standing, err := s.store.copyOf(scan, base, entryID)
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	o.Owner = cmp.Or(o.Owner, base.Owner)
	o.Aside = o.Aside || o.Owner != base.Owner
	header := s.store.header(s.ref.Agent, base.Key, o)
	h, _ := header.Body.(transcript.Header)
	h.Base, h.Standing = transcript.Link{Agent: s.ref.Agent, Session: s.ref.ID, Entry: entryID}, standing
	h.Descent = append(slices.Clone(base.Descent), h.Base)
	h.Base.Lines = len(lines)
	header.Body = h
	row, err := s.store.createWith(ctx, s.ref.Agent, header, lines, driver.Row{BaseRev: &base.Rev, Aside: o.Aside})
	if errors.Is(err, ErrReplaced) {
		_, gone := s.store.open(ctx, op, base) // else the next call says once more that it was replaced
		err = cmp.Or(gone, fmt.Errorf("%w, and no fork was made", err))
	}
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	return s.store.handle(row), nil
}

// copyOf returns the entries that a fork of a session at an entry begins with,
// and the state that its header holds.
func (st *Store) copyOf(scan scan, base driver.Row, entryID string) (lines, standing []transcript.Entry, err error) {
	p, err := locate(scan, entryID)
	if err != nil {
		return nil, standing, err
	}
	for cut := p.end; ; cut = p.start {
		until := until(scan, cut)
		r, err := readOf(driver.Row{ID: base.ID, Agent: base.Agent, Key: base.Key}, until, &st.opts)
		if err != nil {
			return nil, standing, err
		}
		open := r.openAnswer()
		if open == "" {
			if lines, err = st.copies(r, until); err == nil {
				standing, err = r.inherited(until, lines)
			}
			return lines, standing, err
		}
		if p, err = locate(until, open); err != nil {
			return nil, standing, err
		}
	}
}

// livePins returns the pins of entries that no rewind has taken back up to the end of
// a scan.
func (r *reader) livePins(scan scan) ([]transcript.Carried, error) {
	pins := slices.Clone(r.fold.Standing().Pins)
	where, all := placesIn(r.fold, entriesOf(pins))
	if !all && r.from > 0 {
		var o outline
		sift := func(driver.Keep) iter.Seq2[transcript.Record, error] { return scan(0, driver.Backward) }
		if err := o.sync(sift); err != nil {
			return nil, err
		}
		where, _ = placesIn(o.fold, entriesOf(pins))
	}
	return inForce(pins, where), nil
}

// until returns a scan of the lines that end at a cursor or before it.
func until(all scan, end driver.Cursor) scan {
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
func (r *reader) openAnswer() string {
	open := r.fold.Pending().Calls
	if len(open) == 0 {
		return ""
	}
	for _, m := range slices.Backward(r.fold.History().Messages) {
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

// inherited returns the state that a fork with copied lines takes over: calibrations, pins,
// values and the idempotency keys of other lines, but no queued texts, drafts and commits.
// The fork lacks earlier rewinds, so pins of entries that they took back are left out, and
// pins of hidden entries.
func (r *reader) inherited(scan scan, lines []transcript.Entry) (all []transcript.Entry, err error) {
	s := r.fold.Standing()
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

// copies returns the entries of the batches that are in force: those that the history
// is made of, and an application's own lines among them. A compaction is copied without
// its state.
func (st *Store) copies(r *reader, scan scan) (lines []transcript.Entry, err error) {
	live := setOf(r.fold.InForce())
	compacted := r.fold.History().Compaction != nil
	own := []string{"custom", "tool_status"}
	hidden := func(id string) bool { w, _ := r.fold.Where(id); return w.Hidden }
	for b, err := range transcript.Batches(scan(r.from, driver.Forward)) {
		if err != nil {
			return nil, err
		}
		isOwn := b.Complete && !slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return !slices.Contains(own, e.Type()) })
		switch {
		case slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return live[e.ID] }):
		case isOwn && r.fold.Live(b.Entries[0].ID) && (len(lines) > 0 || !compacted):
		default:
			continue
		}
		for _, e := range b.Entries {
			if hidden(e.ID) {
				e = st.withChecksum(e.Erase())
			}
			if c, ok := e.Body.(transcript.Compaction); ok && c.Standing != nil {
				c.Standing = nil
				e.Body = c
				e = st.withChecksum(e.WithLine(nil))
			}
			lines = append(lines, e)
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
