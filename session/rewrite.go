package session

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Rewrite replaces the lines of the session by the entries that change writes. Change
// gets the records of the transcript, which it may range over several times, and must
// call no method of the store. An entry that it writes unchanged keeps its line; others
// get a new line, with a checksum unless [Options].NoChecksum is set. The first one is
// the header, and Rewrite raises its Rev. If change writes nothing or fails, the lines
// stay as they are. An error of change is returned.
//
// When the error is nil, the new lines are on stable storage, and the store holds no word
// of the old lines that the new lines lack. The filters have removed the data that lines
// no longer need, see [Filter].Sweep. If that fails or a process dies half way, call
// Rewrite again, with a change that writes nothing. Until Rewrite returns, no process can
// append. All other users of the session get [ErrReplaced] once. In files Rewrite waits ten
// seconds for the append lock. If another process keeps it, the error matches [ErrBusy].
//
// An archived session gives [ErrArchived]. The owner in the header stays as it is. A
// driver that is not a [driver.Rewriter] gives an error that matches
// [errors.ErrUnsupported].
func (s *Session) Rewrite(ctx context.Context, change func(records iter.Seq2[transcript.Record, error], write func(transcript.Entry) error) error) error {
	const op = "rewrite"
	var events []Event
	err := s.store.table.Alone(ctx, []Ref{s.ref}, func() error {
		err := outside(ctx)
		if err == nil {
			err = s.rewrite(ctx, change)
		}
		kept := errors.Is(err, errKept)
		if err != nil && !kept {
			return err
		}
		t := s.store.table.Acquire(ctx, s.ref)
		defer s.store.table.Release(t)
		reread := func() error { return t.Reread(ctx) }
		if err = t.Do(reread); errors.Is(err, ErrReplaced) { // here, so that no call that waits gets it
			err = t.Do(reread)
		}
		events = newsOf(t.TakeNews())
		if err == nil && !kept {
			t.RowDue()
			t.PutRow(ctx, true)
		}
		return err
	})
	if err == nil {
		err = s.sweepErased(ctx)
	}
	return s.store.done(ctx, op, s.ref, err, events...)
}

// errKept means that change has written nothing.
var errKept = errors.New("the lines stay as they are")

// rewrite is Rewrite without the filters and the row.
func (s *Session) rewrite(ctx context.Context, change func(iter.Seq2[transcript.Record, error], func(transcript.Entry) error) error) error {
	rewriter, err := able[driver.Rewriter](s.store.drv)
	if err != nil {
		return err
	}
	row, err := s.store.get(ctx, s.ref)
	if err != nil {
		return err
	}
	return rewriter.Rewrite(ctx, s.ref, func(recs iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		var got []byte // the last line that change got
		wrote := false
		records := func(yield func(transcript.Record, error) bool) {
			for rec, err := range recs {
				if got = nil; rec.HasEntry() {
					got = rec.Entry.Line()
				}
				if !yield(rec, err) {
					return
				}
			}
		}
		err := change(records, func(e transcript.Entry) error {
			if h, ok := e.Body.(transcript.Header); ok && !wrote {
				if h.Owner != row.Owner {
					return errOwner
				}
				h.Rev++
				e.Body = h
				e = e.WithLine(nil)
			}
			wrote = true
			if !bytes.Equal(e.Line(), got) {
				e = s.store.lines.WithChecksum(e)
			}
			return write(e.Line())
		})
		if err == nil && !wrote {
			err = errKept
		}
		return err
	})
}

// sweepErased has the filters remove data that no line of the session still needs, while
// no other call can append to it.
func (s *Session) sweepErased(ctx context.Context) error {
	if !sweeping(s.store.opts.Filters) {
		return nil
	}
	_, err := s.store.drv.Append(ctx, s.ref, nil, driver.Anywhere, func(ctx context.Context, _ driver.Cursor) ([]driver.Line, error) {
		return nil, sweep(ctx, s.store.opts.Filters, s.ref, func(yield func(transcript.Entry, error) bool) {
			for rec, err := range s.store.drv.Scan(ctx, s.ref, 0, driver.Forward, nil) {
				if (err != nil || rec.HasEntry()) && !yield(rec.Entry, err) {
					return
				}
			}
		})
	})
	return err
}
