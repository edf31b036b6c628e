package session

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Appends of one session in one process take turns: those that depend on nothing
// may be on their way together, so that one sync serves many of them, and an Update
// is alone. The queue is in order of arrival. So only another process can append
// between the View of an Update and its lines.
const (
	anyTurn   = 1
	wholeTurn = math.MaxInt32
)

// anyRev is the rev of an operation that begins with its first View.
const anyRev = -1

// freeTries is how often an Update is tried while other processes may append. After
// that it locks the log.
const freeTries = 3

// Update appends the items that f returns, if the session is still as f has seen it.
// If another process has appended meanwhile, f is called again, with a new View; after
// three such conflicts with the log locked, so that it succeeds however busy others
// are. Update returns the IDs of the entries. If f returns no items nothing is appended.
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
	_, err = s.decide(ctx, op, t, rev, func(v *View) (*write, error) {
		made = 0
		items, err := f(v)
		if err == nil {
			items, c, err = v.complete(items)
		}
		if err != nil || len(items) == 0 {
			return nil, err
		}
		return &write{at: now, items: items, newID: newIDs}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return ids[:made], c, nil
}

// decide appends the write that f returns, if no line was added since the View that f
// has decided on; nil writes nothing. If f returns a write with a conflict, the write
// may still be a repeat under its idempotency key.
func (s *Session) decide(ctx context.Context, op string, t *state, rev int, f func(v *View) (*write, error)) (driver.Result, error) {
	if err := t.turns.Acquire(ctx, wholeTurn); err != nil {
		return driver.Result{}, s.store.wrap(op, s.ref, err)
	}
	var done appendResult
	func() {
		defer t.turns.Release(wholeTurn)
		d := decision{s: s, t: t, rev: rev, f: f}
		done = d.run(ctx)
	}()
	return done.Result, s.told(ctx, op, t, done)
}

// A decision is a write that depends on what a session holds.
type decision struct {
	s       *Session
	t       *state
	rev     int
	f       func(v *View) (*write, error)
	write   write
	cond    driver.Cond // that the session is still as f has seen it
	refused error       // the conflict, unless the append is a repeat
}

// run decides and appends.
func (d *decision) run(ctx context.Context) (done appendResult) {
	for range freeTries {
		switch err := d.decide(ctx, false); {
		case err != nil:
			return refused(err)
		case len(d.write.entries) == 0:
			return appendResult{}
		}
		done = d.s.append(ctx, d.t, &d.write, d.cond)
		switch {
		case !errors.Is(done.err, ErrConflict):
			return done
		case d.refused != nil:
			done.err = d.refused
			return done
		}
	}
	cond := d.cond
	cond.Conflicts = nil
	cond.Decide = func(ctx context.Context, _ driver.Cursor) ([]driver.Line, error) {
		err := cmp.Or(d.decide(ctx, true), d.refused)
		return d.write.lines(nil), err
	}
	d.write = write{}
	return d.s.append(ctx, d.t, &d.write, cond)
}

// decide looks at the session as it stands and builds the write. If held is set,
// the driver holds the log meanwhile.
func (d *decision) decide(ctx context.Context, held bool) error {
	d.write, d.refused = write{}, nil
	err := d.t.locked(func() error {
		if err := d.t.sync(ctx); err != nil {
			return err
		}
		return d.look(ctx, &View{s: d.s, t: d.t, ctx: ctx, held: held})
	})
	if err != nil || len(d.write.items)+len(d.write.entries) == 0 {
		return err
	}
	return d.s.build(ctx, &d.write)
}

// look decides on a View.
func (d *decision) look(ctx context.Context, v *View) error {
	if err := d.s.store.own(v.t.row, nil); err != nil {
		return err
	}
	switch {
	case d.rev == anyRev:
		d.rev = v.t.row.Rev
	case d.rev != v.t.row.Rev:
		return fmt.Errorf("%w: something was erased from it meanwhile, and nothing was written", ErrReplaced)
	}
	if err := v.t.writable(ctx); err != nil {
		return err
	}
	w, err := d.f(v)
	if w == nil {
		return err
	}
	d.write, d.cond = *w, v.t.cond(w)
	d.cond.Base, d.cond.Conflicts = v.t.next, linesConflict
	if errors.Is(err, ErrConflict) && w.idem != "" {
		d.refused, err = err, nil
		d.cond.Base = 0 // any line conflicts, but a repeat
	}
	return err
}

// Rewrite replaces the lines of the session by the entries that change writes. Change gets
// the records of the transcript, which it may range over several times, and calls no
// method of the store. An entry that it writes as it has got it keeps its line; others get
// a line of their own, with a checksum unless [Options].NoChecksum is set. The first one
// is the header, and Rewrite raises its Rev. If change writes nothing, the lines stay as
// they are. An error of change is returned, and nothing has changed.
//
// When the error is nil, the new lines are on stable storage, no word of the old ones is
// in the store but those that are in the new ones, too, and the filters have removed what
// no line needs any more, see [Filter].Sweep. If that or a process fails half way, Rewrite
// can be called again, with a change that writes nothing. Nobody can append until Rewrite
// returns. All other users of the session get [ErrReplaced] once.
//
// An archived session gives [ErrArchived]. The owner in the header stays as it is. A driver that is no [driver.Rewriter] gives an error that matches
// [errors.ErrUnsupported].
func (s *Session) Rewrite(ctx context.Context, change func(records iter.Seq2[transcript.Record, error], write func(transcript.Entry) error) error) error {
	const op = "rewrite"
	err := s.rewrite(ctx, change)
	s.store.table.forget(s.ref)
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

// errKept says that change has written nothing.
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
				e = s.store.sealed(e)
			}
			return write(e.Line())
		})
		if err == nil && !wrote {
			err = errKept
		}
		return err
	})
}
