package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Fork makes a new session that begins with the conversation as it was right
// after an entry, and the current one of the same key; [Session.MakeCurrent]
// brings the old one back. The session's own ID stands for the beginning. Nil
// options and zero fields are the defaults of [Store.Create], but an empty Owner
// is that of this session.
//
// When the error is nil, the new session has the same history as this one had
// after the entry. Its lines are copies, byte for byte, of those that are in
// force there: what the last compaction keeps, the compaction, and what came
// after it. Rewound lines, and those that a summary stands for, are not copied,
// so a fork costs what its history has, and its history cannot be rewound to
// what was not copied. Metadata is not copied either. It has the pins and values
// that were in force there, and none of the queued texts and drafts.
//
// A fork never begins inside an append or between calls and their results: it
// ends in front of an answer with a call that has no result after the entry.
//
// [Info].Base says where the copies came from. Nothing depends on it: either
// session may be deleted, and a fork can be forked. Copied entries keep their
// IDs and idempotency keys, so an append that was made before the fork is found
// as repeated in both sessions, and one that was made after it in one of them
// alone.
//
// An error means that no session was made, with one exception below; a kill leaves the
// whole fork or none. An ID that is not there gives an error that matches [ErrNoEntry],
// an ID in use one that matches fs.ErrExist. If something of this session is erased
// meanwhile, the error matches [ErrReplaced]: fork it again. If somebody has found the
// fork by its key and used it before that was seen, the fork stays, the lines that it
// was made with are erased, and the error says that. The copied lines are in memory
// meanwhile.
func (s *Session) Fork(ctx context.Context, entryID string, opts *CreateOptions) (*Session, error) {
	const op = "fork"
	o, err := opts.checked()
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	var base driver.Row
	err = s.view(ctx, op, func(v *View) error {
		if _, err := v.Info(); err != nil {
			return err
		}
		base = v.t.row
		return v.t.writable(ctx)
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
	header := s.store.header(s.ref.Agent, base.Key, o)
	h, _ := header.Body.(transcript.Header)
	first, _ := firstEntry(scan) // a header that cannot be read says nothing
	began, _ := first.Body.(transcript.Header)
	h.State = began.State
	h.Base = transcript.Link{Agent: s.ref.Agent, Session: s.ref.ID, Entry: entryID, Lines: len(lines)}
	header.Body = h
	if holds(lines, transcript.TypeMeta) {
		lines = append(lines, s.store.restated(h.Meta))
	}
	more, err := s.store.evened(s.ref.Agent, header, lines, standing)
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	lines = append(lines, more...)
	row, err := s.store.createWith(ctx, s.ref.Agent, header, lines)
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	checked := context.WithoutCancel(ctx) // a fork that is made is checked and returned
	if erased := s.store.standsAs(checked, base); erased != nil {
		stays, err := s.store.unmake(checked, row, append(lines, header))
		if stays && !errors.Is(erased, ErrReplaced) {
			erased = fmt.Errorf("%w: %w", ErrReplaced, erased)
		}
		if stays {
			erased = fmt.Errorf("%w, and the fork %s is in use already: it stays, without the lines that it was made with", erased, row.ID)
		} else {
			erased = fmt.Errorf("%w, and no fork was made: fork it again", erased)
		}
		return nil, s.store.wrap(op, s.ref, errors.Join(erased, err))
	}
	fork, err := s.store.open(checked, op, row)
	if err != nil {
		return nil, err
	}
	if err := fork.sweepBlobs(ctx); err != nil { // those of the base are read meanwhile
		s.store.opts.Logger.Warn("the blobs of a fork were not all copied", "agent", row.Agent, "session", row.ID, "err", err)
	}
	return fork, nil
}

// standsAs returns an error unless a session still has the lines that it had when a
// row was read and no erase is about to delete it. An erase looks for forks when it has
// written its note and replaced the lines, and then deletes sessions and removes the
// note. So either it finds a fork that was made of the old lines, or the fork finds the
// new ones here, the note, or no session.
func (st *Store) standsAs(ctx context.Context, base driver.Row) error {
	due, err := st.erasing(ctx, base.Ref())
	if err != nil {
		return err
	}
	now, err := st.drv.Get(ctx, base.Ref())
	if err == nil && !due && now.Rev == base.Rev && now.CreatedAt.Equal(base.CreatedAt) {
		return nil
	}
	return cmp.Or(err, fmt.Errorf("%w: something of it was erased meanwhile", ErrReplaced))
}

// unmake deletes a session that was made with lines that are erased now. If somebody
// uses it already, it stays, and the lines are erased from it.
func (st *Store) unmake(ctx context.Context, row driver.Row, lines []transcript.Entry) (stays bool, err error) {
	ref := row.Ref()
	unused := func(now driver.Row) error {
		if now.Size != row.Size || now.Rev != row.Rev {
			return errChanged
		}
		return nil
	}
	a, err := able[driver.Archiver](st.drv)
	if err == nil {
		err = a.DeleteIf(ctx, []Ref{ref}, unused)[0]
	}
	if errors.Is(err, errors.ErrUnsupported) {
		var now driver.Row
		if now, err = st.drv.Get(ctx, ref); err == nil {
			err = unused(now)
		}
		if err == nil {
			err = st.drv.Delete(ctx, ref)
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return false, st.moved(ctx, "delete", ref, nil)
	}
	if errors.Is(err, errChanged) || errors.Is(err, ErrBusy) {
		err = nil
	}
	ids := map[string]bool{}
	for _, e := range lines {
		if h, isHeader := e.Body.(transcript.Header); !isHeader || len(h.State) > 0 {
			ids[e.ID] = true
		}
	}
	failed := st.eraseEntries(ctx, st.eraser(ref, ids, new(ErasePlan)), new(EraseReport))
	if errors.Is(failed, fs.ErrNotExist) {
		return false, err
	}
	return true, errors.Join(err, failed)
}

// restated returns an entry that puts the metadata of a header in the place of
// what copied lines say, which came along with messages of the same append.
func (st *Store) restated(m transcript.Meta) transcript.Entry {
	m.Owner = cmp.Or(m.Owner, new(""))
	m.TTL = cmp.Or(m.TTL, new(int64(0)))
	m.Pinned = new(false)
	m.Labels = append([]string{}, m.Labels...)
	return st.Sealed(transcript.Entry{ID: newID(), Time: st.opts.Now(), Body: m})
}

// evened returns entries to append to the copied lines of a fork, so that it has
// the pins and values that its base had, and neither its queued texts nor its
// drafts, which are for the session that has them alone. Copied lines differ from
// that after a rewound compaction, whose repeats are not copied, and where texts
// were queued in the same append as a message.
func (st *Store) evened(agent string, header transcript.Entry, lines []transcript.Entry, want rebuild.Standing) (more []transcript.Entry, err error) {
	r, err := st.readNew(agent, header, lines)
	if err != nil {
		return nil, err
	}
	add := func(b transcript.Body, of string) {
		more = append(more, st.Sealed(transcript.Entry{ID: newID(), Time: st.opts.Now(), Of: of, Body: b}))
	}
	has := r.fold.Standing()
	// Archives and usage are those of the base. A compaction of a fork may have ended
	// what is in force of them, but the lines are there.
	if holds(lines, transcript.TypeCommit, transcript.TypeUsed) {
		add(transcript.Commit{}, "")
	}
	for _, q := range has.Queued {
		add(transcript.Queued{Off: true}, q.Entry)
	}
	for _, d := range has.Drafts {
		add(transcript.Draft{Key: d.Key, Off: true}, d.Entry)
	}
	for _, p := range without(has.Pins, want.Pins, func(a, b transcript.Carried) bool { return a == b }) {
		add(transcript.Pin{Entry: p.Entry, Off: true}, "")
	}
	for _, p := range without(want.Pins, has.Pins, func(a, b transcript.Carried) bool { return a == b }) {
		add(transcript.Pin{Entry: p.Entry, Text: p.Text}, "")
	}
	sameName := func(a, b rebuild.Value) bool { return a.Name == b.Name }
	for _, v := range without(has.State, want.State, sameName) {
		add(transcript.State{Name: v.Name}, "")
	}
	for _, v := range without(want.State, has.State, func(a, b rebuild.Value) bool { return sameName(a, b) && bytes.Equal(a.Value, b.Value) }) {
		add(transcript.State{Name: v.Name, Value: v.Value}, "")
	}
	return more, nil
}

// without returns the items that have none like them among others.
func without[T any](items, others []T, like func(a, b T) bool) []T {
	return slices.DeleteFunc(slices.Clone(items), func(a T) bool {
		return slices.ContainsFunc(others, func(b T) bool { return like(a, b) })
	})
}

// copyOf returns the entries that a fork of a session at an entry begins with,
// and what stands there.
func (st *Store) copyOf(scan scan, base driver.Row, entryID string) (lines []transcript.Entry, standing rebuild.Standing, err error) {
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
			standing = r.fold.Standing()
			if lines, err = r.copies(until); err == nil { // the fork does not have what was rewound, nor the rewind
				standing.Pins, err = r.livePins(until)
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
		sift := func(driver.Keep) records { return scan(0, driver.Backward) }
		if err := o.sync(sift); err != nil {
			return nil, err
		}
		where, _ = placesIn(o.fold, entriesOf(pins))
	}
	return unrewound(pins, where), nil
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

// A copied batch goes along for a reason.
type copied struct {
	entries []transcript.Entry
	why     reason
}

type reason int

const (
	forHistory     reason = iota // the history is made of it
	forModel                     // what a compaction starts over: calibrations, pins and state
	forApplication               // an application's own lines, among those in force
)

// copies returns the entries of the batches that are in force.
func (r *reader) copies(scan scan) (lines []transcript.Entry, err error) {
	live := setOf(r.fold.InForce())
	var all []copied
	compacted := false
	for b, err := range transcript.Batches(scan(r.from, driver.Forward)) {
		if err != nil {
			return nil, err
		}
		why, ok := r.goesAlong(b, live)
		if holds(b.Entries, transcript.TypeCompaction) {
			all = slices.DeleteFunc(all, func(c copied) bool { return c.why == forModel })
		}
		if ok {
			compacted = compacted || why == forHistory && holds(b.Entries, transcript.TypeCompaction)
			all = append(all, copied{b.Entries, why})
		}
	}
	first := slices.IndexFunc(all, func(c copied) bool { return c.why == forHistory })
	for i, c := range all {
		if c.why != forApplication || i > first || !compacted {
			lines = append(lines, c.entries...)
		}
	}
	return lines, nil
}

// goesAlong reports whether a batch is copied, and why. Every type that is not
// named here stays behind.
func (r *reader) goesAlong(b transcript.Batch, live map[string]bool) (why reason, ok bool) {
	all := func(kinds ...string) bool {
		return b.Complete && !slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return !slices.Contains(kinds, e.Type()) })
	}
	switch {
	case slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return live[e.ID] }):
		return forHistory, true
	case all(transcript.TypeCalibration, transcript.TypePin, transcript.TypeState):
		return forModel, true
	case all(transcript.TypeCustom, transcript.TypeToolStatus, transcript.TypeUsed):
		return forApplication, r.fold.Live(b.Entries[0].ID)
	}
	return 0, false
}
