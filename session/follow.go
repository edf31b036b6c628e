package session

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// Follow yields the entries after the entry with the ID after, in the order of
// their lines, and then each new one as anyone appends it, in this process or
// another. It yields an append when all of its entries are there; entries of a
// cut append are left out. Every entry is yielded once, despite concurrent
// changes: compactions, rewinds and [Session.Recover] only add to the session.
//
// An entry ID is the cursor: to continue after a restart, follow from the ID of
// the last entry that was dealt with. An empty after begins with the header, the
// session's own ID after it. An ID that is not there gives an error that matches
// [ErrNoEntry].
//
// The loop waits while there is nothing new. It ends with an error: of ctx;
// [ErrClosed] after [Store.Close]; one that matches fs.ErrNotExist when the
// session is deleted, even if another one has its ID now; or of a failed read,
// after which the loop may be started again. [ErrReplaced] reports that the
// transcript was cut by hand. An append is on stable storage, by the policy of
// [Options].Sync, when it returns, which may be after it was yielded.
//
// Entries are read from the transcript when the loop asks for them, so a slow
// loop costs memory for one append at most, and no writer waits for it. Nothing
// runs in the background for longer than the loop.
func (s *Session) Follow(ctx context.Context, after string) iter.Seq2[transcript.Entry, error] {
	return s.following(ctx, "follow", after, true)
}

func (s *Session) following(ctx context.Context, op, after string, waits bool) iter.Seq2[transcript.Entry, error] {
	return func(yield func(transcript.Entry, error) bool) {
		f := follower{s: s, ctx: ctx, scan: s.store.table.Scan(ctx, s.ref), yield: yield, after: after}
		if err := f.run(waits); err != nil && !f.stopped {
			yield(transcript.Entry{}, s.store.wrap(op, s.ref, err))
		}
	}
}

// A follower is one loop over [Session.Follow].
type follower struct {
	s       *Session
	ctx     context.Context //nolint:containedctx // the loop's
	scan    replay.Scan
	yield   func(transcript.Entry, error) bool
	stopped bool // the loop was left: set by give

	first []byte        // the header, set by begin
	mark  mark          // set by begin, and by read after each append that it gave
	next  driver.Cursor // the line to read on at: set by begin, and by each read
	seen  int64         // the offset of the first record after next that was not given: set by read
	after string        // the entry to begin after, until give has passed it
	at    int64         // its place, set by begin
}

// A mark is a line that was read. It tells two sessions with one ID and header
// apart.
type mark struct {
	at   driver.Cursor
	line []byte
}

var errDeleted = fmt.Errorf("the session was deleted while it was followed: %w", fs.ErrNotExist)

// run yields present entries, and later ones if it waits.
func (f *follower) run(waits bool) error {
	if err := f.s.store.check(f.ctx, f.s.ref); err != nil {
		return err
	}
	var bell *bell
	if waits { // before begin, to miss no entry
		bell = f.s.store.watch(f.s.ref, func(driver.Ref) {})
		defer bell.stop()
	}
	err := f.begin()
	for err == nil {
		before := f.next
		if err = f.readOn(); err != nil || f.stopped || !waits {
			break
		}
		err = bell.wait(f.ctx, f.next > before)
	}
	return err
}

// begin finds the place to begin at.
func (f *follower) begin() (err error) {
	for range replacedTries {
		if f.first, err = f.lineAt(0); err == nil && f.after != "" {
			var p replay.Place
			p, err = replay.Locate(f.scan, f.after)
			f.next, f.at = p.Start, p.At
		}
		if err == nil {
			f.mark.at = f.next
			f.mark.line, err = f.lineAt(f.next)
		}
		if !errors.Is(err, driver.ErrReplaced) || errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// lineAt returns the line at a place, or its damage. It is empty if no line is there
// yet.
func (f *follower) lineAt(at driver.Cursor) ([]byte, error) {
	for rec, err := range f.scan(at, driver.Forward) {
		switch {
		case err != nil:
			return nil, err
		case rec.HasEntry():
			return rec.Entry.Line(), nil
		}
		return []byte(rec.Damage.String()), nil
	}
	return nil, nil
}

func (f *follower) readOn() error {
	for try := 1; ; try++ {
		err := f.read()
		switch {
		case errors.Is(err, driver.ErrReplaced):
			if same := f.same(); same != nil || try < replacedTries {
				err = same
			}
			if err == nil {
				continue
			}
		case errors.Is(err, fs.ErrNotExist):
			err = errDeleted
		}
		return err
	}
}

// same returns nil if the session is the one that the loop began with.
func (f *follower) same() error {
	now, err := f.lineAt(f.mark.at)
	switch {
	case errors.Is(err, fs.ErrNotExist), len(now) > 0 && !bytes.Equal(now, f.mark.line):
		return errDeleted
	case errors.Is(err, driver.ErrReplaced): // or it is a shorter session
		if first, err := f.lineAt(0); err == nil && !bytes.Equal(first, f.first) {
			return errDeleted
		}
		return nil // once more
	}
	return err
}

// read reads the records after next once.
func (f *follower) read() error {
	var batcher transcript.Batcher
	var first, last transcript.Record // of an append, of all
	for rec, err := range f.scan(f.next, driver.Forward) {
		if err != nil {
			return err
		}
		if last.End == 0 { // this scan may read another session with the ID
			if err := f.same(); err != nil {
				return err
			}
		}
		if last = rec; rec.Offset < f.seen {
			continue
		}
		if rec.Entry.Part <= 1 {
			first = rec
		}
		for _, b := range batcher.Take(rec) {
			if err := f.give(b, rec); err != nil || f.stopped {
				return err
			}
			if b.Complete {
				f.mark = mark{driver.Cursor(first.Offset), first.Entry.Line()}
			}
		}
		switch {
		case !batcher.Open():
			f.seen = rec.Offset + 1
		case rec.Entry.Batch > 1:
			f.seen = rec.Offset
		}
	}
	for _, b := range batcher.Break() {
		if err := f.give(b, last); err != nil || f.stopped {
			return err
		}
	}
	if last.End == 0 {
		return f.same()
	}
	f.next = driver.Cursor(last.End)
	return nil
}

// give yields the entries of an append that has ended at a record or before it.
func (f *follower) give(b transcript.Batch, rec transcript.Record) error {
	entries := b.Entries
	if f.after != "" {
		i := slices.IndexFunc(entries, func(e transcript.Entry) bool { return e.ID == f.after })
		switch {
		case i >= 0:
			f.after, entries = "", entries[i+1:]
		case rec.Offset > f.at: // it was part of a write that failed
			return replay.NoEntry(f.after)
		default:
			return nil
		}
	}
	if !b.Complete {
		return nil
	}
	for _, e := range entries {
		if !f.yield(e, nil) {
			f.stopped = true
			return nil
		}
	}
	return nil
}

// If its driver cannot watch, a follower polls, less often the less happens.
const (
	pollSoon = 10 * time.Millisecond
	pollLate = 500 * time.Millisecond
)

// A bell wakes a loop that waits for changes.
type bell struct {
	rang  chan struct{} // capacity 1
	stop  func()
	polls atomic.Bool   // nothing rings: look again after pause; set by watch
	pause time.Duration // set by wait
}

// watch returns a bell that rings after the session has changed, or any if ref
// is zero. Changed is called first and must not wait; it is not called if the
// bell polls.
func (st *Store) watch(ref Ref, changed func(Ref)) *bell {
	b := &bell{rang: make(chan struct{}, 1), stop: func() {}, pause: pollSoon}
	w, ok := st.drv.(driver.Watcher)
	if !ok {
		b.polls.Store(true)
		return b
	}
	stop, err := w.Watch(ref, func(ref Ref, err error) {
		if err == nil {
			changed(ref)
		} else {
			b.polls.Store(true) // and the next look shows whether the store was closed
		}
		select {
		case b.rang <- struct{}{}:
		default:
		}
	})
	if err != nil {
		b.polls.Store(true)
		return b
	}
	b.stop = stop
	return b
}

// wait returns when it is time to look again. busy is set if the last look found
// something.
func (b *bell) wait(ctx context.Context, busy bool) error {
	var tick <-chan time.Time
	if b.polls.Load() {
		if b.pause = min(2*b.pause, pollLate); busy {
			b.pause = pollSoon
		}
		timer := time.NewTimer(b.pause)
		defer timer.Stop()
		tick = timer.C
	}
	select {
	case <-b.rang:
	case <-tick:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
