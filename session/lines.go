package session

import (
	"context"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/live"
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
// After is the place up to which the caller has read [Session.Scan]. If anyone has
// appended since, other than to make the session current, the error matches
// [ErrConflict] and nothing was written. The meaning of the entries is not checked:
// IDs must be new, and a cut batch stays cut. An entry with a line that no reader
// would accept is refused. The filters of [Options] get the entries, lines of other
// programs included. Entries that make the session current do so; a gen that another
// session of the key uses gives an error that matches [fs.ErrExist], and nothing was
// written.
//
// A nil error, an error and the context mean the same as for [Session.Append].
// AppendLines does not retain entries.
func (s *Session) AppendLines(ctx context.Context, after int64, entries ...transcript.Entry) (end int64, err error) {
	entries = slices.Clone(entries)
	for i, e := range entries {
		if checksum.Intact(e.Line()) { // else a checksum would hide the damage
			e = s.store.lines.WithChecksum(e)
		}
		entries[i] = e
		if err := checkReadable(e); err != nil {
			return 0, s.store.wrap("append", s.ref, fmt.Errorf("entry %d of %d: %w: nothing was written", i+1, len(entries), err))
		}
	}
	if len(entries) == 0 {
		return after, s.View(ctx, func(v *View) error { return v.t.Writable(ctx) })
	}
	t := s.store.table.Acquire(ctx, s.ref)
	defer s.store.table.Release(t)
	ctx = s.store.begin(ctx, s.ref, Event{Kind: EventAppendStart})
	j := &live.Job{Ctx: ctx, Owner: s.store.owner, At: s.store.opts.Now(), Foreign: true, After: driver.Cursor(max(after, 0))}
	defer s.appended(ctx, j, &err)
	j.Entries, err = s.prepared(ctx, entries)
	if err == nil {
		err = s.adopt(ctx, t, j)
	}
	if err != nil {
		return 0, s.store.wrap("append", s.ref, err)
	}
	err = s.submit("append", t, j)
	return int64(j.Done.End), err
}

func checkReadable(e transcript.Entry) error {
	if n := len(e.Line()); n > transcript.DefaultMaxLine {
		return fmt.Errorf("a line of %d bytes is over the limit of %d", n, transcript.DefaultMaxLine)
	}
	_, err := transcript.ParseEntry(e.Line())
	return err
}

// adopt gives the session the highest gen of entries that make it current, unless others
// have appended since.
func (s *Session) adopt(ctx context.Context, t *live.State, j *live.Job) error {
	gen := int64(0)
	for _, e := range j.Entries {
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
	if err = t.Unchanged(ctx, j.After); err == nil {
		_, err = s.store.drv.SetCurrent(ctx, s.ref, gen, nil)
	}
	return err
}
