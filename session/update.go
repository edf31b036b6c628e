package session

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// anyRev is the rev of an operation that begins with its first View.
const anyRev = -1

// Update appends the items that f returns, if the session is still as f has seen it.
// If another process has appended since, Update locks the log and calls f again, with a
// new View, so that it succeeds however busy others are.
// Update returns the IDs of the entries. If f returns no items nothing is appended.
//
// f runs as in [Session.View]. As it may run several times, it should only decide. An
// error of f is returned and nothing is written; so is every error of the append but
// [ErrConflict]. If something is erased from the session between the first View and
// the append, the error matches [ErrReplaced].
//
// A compaction among the items is completed: Update puts the system prompt and the tools
// before it, and fills in its token and turn counts and the state that it holds. If f puts a
// [transcript.Calibration] with Failures into its Standing, that many summaries have
// failed in a row; otherwise the summarizer works. The error matches ErrConflict unless
// the compaction keeps the end of the history exactly as it is, from its FirstKept on, and
// has read everything that it replaces, as CoversTo and Read say.
func (s *Session) Update(ctx context.Context, op string, f func(v *View) ([]transcript.Item, error)) (ids []string, err error) {
	began := time.Now()
	ids, c, err := s.update(ctx, op, anyRev, f)
	if err == nil && c != nil {
		s.store.tell(ctx, s.ref, Event{Kind: EventCompactionDone, Took: time.Since(began), Compaction: *c})
	}
	return ids, err
}

// update is Update for an operation that began with a View of a rev. It also returns the
// compaction among the items, as it was stored.
func (s *Session) update(
	ctx context.Context, op string, rev int, f func(v *View) ([]transcript.Item, error),
) (ids []string, c *transcript.Compaction, err error) {
	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	now, made := s.store.opts.Now(), 0
	newIDs := func() string { // the same in every try
		if made == len(ids) {
			ids = append(ids, newID())
		}
		made++
		return ids[made-1]
	}
	j := &job{ctx: ctx, rev: rev}
	j.decide = func(v *View) error {
		made = 0
		items, err := f(v)
		if err == nil {
			items, c, err = v.complete(items)
		}
		j.write = write{at: now, items: items, newID: newIDs}
		return err
	}
	if done := s.submit(op, t, j); done.err != nil {
		return nil, nil, done.err
	}
	return ids[:made], c, nil
}

// Rewrite replaces the lines of the session by the entries that change writes. Change gets
// the records of the transcript, which it may range over several times, and calls no
// method of the store. An entry that it writes as it has got it keeps its line; others get
// a line of their own, with a checksum unless [Options].NoChecksum is set. The first one
// is the header, and Rewrite raises its Rev. If change writes nothing, the lines stay as
// they are. An error of change is returned, and nothing has changed.
//
// When the error is nil, the new lines are on stable storage, and the store holds no word
// of the old lines that the new lines lack. The filters have removed the data that lines
// no longer need, see [Filter].Sweep. If that or a process fails half way, Rewrite can be
// called again, with a change that writes nothing. Until Rewrite returns, no process can append.
// All other users of the session get [ErrReplaced] once.
//
// An archived session gives [ErrArchived]. The owner in the header stays as it is. Other
// drivers than a [driver.Rewriter] give an error that matches [errors.ErrUnsupported].
func (s *Session) Rewrite(ctx context.Context, change func(records iter.Seq2[transcript.Record, error], write func(transcript.Entry) error) error) error {
	const op = "rewrite"
	err := s.store.table.alone(ctx, []Ref{s.ref}, func() error { return s.rewrite(ctx, change) })
	kept := errors.Is(err, errKept)
	if err != nil && !kept {
		return s.store.done(ctx, op, s.ref, err)
	}
	if _, err := s.store.open(ctx, op, driver.Row{Agent: s.ref.Agent, ID: s.ref.ID}); err != nil {
		return err
	}
	err = s.sweepErased(ctx)
	if !kept {
		t := s.store.table.acquire(s.ref)
		defer s.store.table.release(t)
		t.rowDue.Store(true)
		s.store.putRow(ctx, t, true)
	}
	return s.store.done(ctx, op, s.ref, err)
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
		var got []byte // the line that change has got last
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
				e = s.store.withChecksum(e)
			}
			return write(e.Line())
		})
		if err == nil && !wrote {
			err = errKept
		}
		return err
	})
}
