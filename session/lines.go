package session

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// This file is the API for programs that write entries which are complete
// already: package exchange, and programs that copy sessions between stores.

// AppendLines appends entries as they are: with their own IDs, times, batch
// numbers, idempotency keys and members that only their lines have. A line without a
// checksum gets one, unless [Options].NoChecksum is set; a damaged checksum stays. The
// entries may be several batches; all of them go into one write and one sync.
// AppendLines returns the place after them.
//
// After is the place up to which the caller has read [Session.Scan]. If
// anyone has appended since, other than to make the session current, the error
// matches [ErrConflict] and nothing was written. The meaning of the entries is
// not checked: IDs must be new, and a cut batch stays cut. An entry that no
// reader would take from its line is refused. The filters of [Options] get them, with
// the lines of other programs in them. Entries that make the session current do so; a
// gen that another session of the key uses gives an error that matches [fs.ErrExist],
// and nothing was written.
//
// A nil error, an error and the context mean the same as for [Session.Append].
// AppendLines does not retain entries.
func (s *Session) AppendLines(ctx context.Context, after int64, entries ...transcript.Entry) (end int64, err error) {
	entries = slices.Clone(entries)
	for i, e := range entries {
		if checksum.Intact(e.Line()) { // else a checksum would hide the damage
			e = s.store.withChecksum(e)
		}
		entries[i] = e
		if err := checkReadable(e); err != nil {
			return 0, s.store.wrap("append", s.ref, fmt.Errorf("entry %d of %d: %w: nothing was written", i+1, len(entries), err))
		}
	}
	if len(entries) == 0 {
		return after, s.View(ctx, func(v *View) error { return v.t.writable(ctx) })
	}
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	entries, err = s.prepared(ctx, entries)
	if err == nil {
		err = s.adopt(ctx, entries)
	}
	if err != nil {
		return 0, s.store.wrap("append", s.ref, err)
	}
	j := &job{ctx: ctx, write: write{at: s.store.opts.Now(), entries: entries, foreign: true, after: driver.Cursor(max(after, 0))}}
	done := s.submit("append", t, j)
	return int64(done.End), done.err
}

func checkReadable(e transcript.Entry) error {
	if n := len(e.Line()); n > transcript.DefaultMaxLine {
		return fmt.Errorf("a line of %d bytes is over the limit of %d", n, transcript.DefaultMaxLine)
	}
	_, err := transcript.ParseEntry(e.Line())
	return err
}

// createFrom makes a session of a key with the header of [CreateOptions].
func (st *Store) createFrom(ctx context.Context, agent, key string, opts CreateOptions) (row driver.Row, err error) {
	header := *opts.Header
	h, ok := header.Body.(transcript.Header)
	switch {
	case !ok:
		return row, fmt.Errorf("a line of type %q is not a header: nothing was written", header.Type())
	case h.Gen == 0 && !opts.Aside:
		h.Key = key
		header.Body = h
		return st.createWith(ctx, agent, header, nil, driver.Row{})
	case st.owner != "" && h.Owner != st.owner:
		return row, errOwner
	case h.Key != key:
		return row, fmt.Errorf("the key of the header is %q: nothing was written", h.Key)
	}
	row, _ = st.first(header)(h.Gen)
	row.Rev, row.GivenGen, row.Aside = h.Rev, h.Gen, h.Gen == 0
	ref := Ref{Agent: agent, ID: row.ID}
	if err := driver.CheckRef(ref); err != nil {
		return row, err
	}
	return st.filterNew(ctx, ref, []transcript.Entry{header}, func(entries []transcript.Entry) (driver.Row, error) {
		defer st.table.forget(ref)
		h, _ := entries[0].Body.(transcript.Header)
		applyMeta(&row, h.Meta)
		return st.drv.Create(ctx, driver.KeyRef{Agent: agent, Owner: row.Owner, Key: key}, func(int64) (driver.Row, driver.Line) { return row, lineOf(entries[0]) })
	})
}

// adopt gives the session the highest gen of entries that make it current.
func (s *Session) adopt(ctx context.Context, entries []transcript.Entry) error {
	gen := int64(0)
	for _, e := range entries {
		if c, ok := e.Body.(transcript.Current); ok {
			gen = max(gen, c.Gen)
		}
	}
	if gen == 0 {
		return nil
	}
	row, err := s.store.get(ctx, s.ref)
	if err != nil || row.Gen >= gen {
		return err
	}
	_, err = s.store.drv.SetCurrent(ctx, s.ref, gen, nil)
	return err
}

// createWith makes a session of a header and of lines that follow it. With has the
// BaseRev and the Aside of its row.
func (st *Store) createWith(ctx context.Context, agent string, header transcript.Entry, lines []transcript.Entry, with driver.Row) (row driver.Row, err error) {
	h, _ := header.Body.(transcript.Header)
	h.Owner = cmp.Or(h.Owner, st.owner)
	if st.owner != "" && h.Owner != st.owner {
		return row, errOwner
	}
	if err := driver.CheckRef(Ref{Agent: agent, ID: header.ID}); err != nil {
		return row, err
	}
	bare := transcript.Entry{ID: header.ID, Time: header.Time, Body: h}
	if source, ok := header.Source(); ok {
		bare = bare.WithSource(source)
	}
	return st.filterNew(ctx, Ref{Agent: agent, ID: bare.ID}, append([]transcript.Entry{bare}, lines...), func(entries []transcript.Entry) (row driver.Row, err error) {
		first := st.first(entries[0])
		if _, line := first(math.MaxInt64); len(line.Data) > transcript.DefaultMaxLine {
			return row, fmt.Errorf("the header needs a line of %d bytes, the limit is %d: nothing was written", len(line.Data), transcript.DefaultMaxLine)
		}
		r, err := st.readNew(agent, entries)
		if err != nil {
			return row, err
		}
		full := r.describe()
		full.BaseRev, full.Aside = with.BaseRev, with.Aside
		more := make([]driver.Line, len(lines))
		for i, e := range entries[1:] {
			more[i] = lineOf(e)
		}
		row, err = st.drv.Create(ctx, full.KeyRef(), func(gen int64) (driver.Row, driver.Line) {
			if full.Aside {
				gen = 0
			}
			_, line := first(gen)
			return full, line
		}, more...)
		if err == nil {
			st.table.forget(row.Ref())
		}
		return row, err
	})
}

// readNew reads the header and the lines of a session that is not in the store yet.
func (st *Store) readNew(agent string, entries []transcript.Entry) (*reader, error) {
	r := newReader(&st.opts)
	r.row = driver.Row{ID: entries[0].ID, Agent: agent}
	r.fold = rebuild.New(&rebuild.Options{Summary: st.opts.Summary})
	for i, e := range entries {
		if err := r.take(transcript.Record{Offset: int64(i), End: int64(i) + 1, Entry: e}); err != nil {
			return nil, err
		}
	}
	return &r, r.add(r.batcher.Break())
}
