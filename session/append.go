package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Append adds items to the session as one batch and returns the IDs of the new
// entries, in the order of their lines. Items are messages, responses and
// entry bodies, see [transcript.NewBatch].
//
// A nil error means that every entry is in the file and survives what
// [Options].Sync says: by default a power cut. An error means that nothing was
// written and that the same call may be tried again, with two exceptions:
// after a [*NotDurableError] the entries may exist, and [ErrFragment] says that
// a part was left that counts as never acknowledged. The lines of a batch are
// contiguous; a crash in the middle leaves a batch that counts as never
// acknowledged.
//
// The context is honoured until the write begins. To record the end of a
// cancelled turn use [context.WithoutCancel].
func (s *Session) Append(ctx context.Context, items ...transcript.Item) ([]string, error) {
	done, err := s.AppendIf(ctx, Cond{}, items...)
	return done.IDs, err
}

// SaveTurn is Append of a whole turn: the user's message, the answers and the
// tool results, in order.
func (s *Session) SaveTurn(ctx context.Context, items ...transcript.Item) ([]string, error) {
	return s.Append(ctx, items...)
}

// Cond is what must hold for [Session.AppendIf]. The zero value always holds.
type Cond struct {
	// Head is the ID that the last message, compaction or rewind entry must
	// have; [NoHead] says that there must be none. Otherwise the error matches
	// [ErrConflict].
	Head string
	// Idem is an idempotency key: a second call with the same key and the same
	// items writes nothing and returns the IDs of the first one. With other
	// items the error matches [ErrIdemMismatch]. Keys are honoured over at
	// least the last 1,024 entries, after restarts and across processes. One
	// that is not valid UTF-8 is refused.
	Idem string
}

// NoHead is the Head of a session without messages.
const NoHead = driver.NoHead

// Appended is what [Session.AppendIf] did.
type Appended struct {
	IDs []string // of the entries, in the order of their lines
	// Repeated says that nothing was written, because the same items were
	// appended earlier under the same idempotency key.
	Repeated bool
	// Rewound says of repeated entries that the history was rewound to before
	// them since.
	Rewound bool
}

// AppendIf is [Session.Append] under a condition. Check and write are one
// step, whoever else is writing.
func (s *Session) AppendIf(ctx context.Context, cond Cond, items ...transcript.Item) (Appended, error) {
	return s.append(ctx, "append", driver.Cond{Head: cond.Head, Idem: cond.Idem}, items...)
}

func (s *Session) append(ctx context.Context, op string, cond driver.Cond, items ...transcript.Item) (Appended, error) {
	if len(items) == 0 {
		return Appended{}, s.store.wrap(op, s.ref, errors.New("no items"))
	}
	entries, err := transcript.NewBatch(s.store.opts.Now(), s.store.ids.next, items...)
	if err != nil {
		return Appended{}, s.store.wrap(op, s.ref, err)
	}
	if cond.Idem != "" {
		cond.IdemHash = hashBatch(entries)
		if entries, err = transcript.WithIdem(entries, cond.Idem, cond.IdemHash); err != nil {
			return Appended{}, s.store.wrap(op, s.ref, err)
		}
	}
	done := Appended{IDs: make([]string, len(entries))}
	lines := make([]driver.Line, len(entries))
	size := 0
	for i, e := range entries {
		done.IDs[i] = e.ID
		lines[i] = driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
		size += len(lines[i].Data) + 1
	}

	t := s.store.table.acquire(s.ref)
	defer s.store.table.release(t)
	if err := s.writable(ctx, t, entries); err != nil {
		return Appended{}, s.store.wrap(op, s.ref, err)
	}
	began := time.Now()
	res, took, live := driver.Result{}, time.Duration(0), false
	err = errPanicked
	func() {
		defer func() { // whatever the driver and what it calls do
			took = time.Since(began)
			live = s.after(ctx, t, res, err, entries)
		}()
		res, err = s.store.drv.Append(ctx, s.ref, lines, cond)
	}()
	if err != nil {
		err = s.store.wrap(op, s.ref, err)
		s.store.tell(ctx, s.ref, Event{Kind: EventAppend, Took: took, Err: err})
		return Appended{}, err
	}
	if res.Repeated {
		done.IDs, done.Repeated, done.Rewound = res.IDs, true, !live
		s.store.tell(ctx, s.ref, Event{Kind: EventAppend, Took: took})
	} else {
		s.store.tell(ctx, s.ref, Event{Kind: EventAppend, Took: took, Entries: len(lines), Bytes: size})
	}
	return done, nil
}

// errPanicked is how an append ended that did not return.
var errPanicked = errors.New("the driver panicked")

// writable says whether the entries may be appended to the session. If so an
// append is under way, until after is called.
func (s *Session) writable(ctx context.Context, t *state, entries []transcript.Entry) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	rewinds := slices.ContainsFunc(entries, func(e transcript.Entry) bool { return e.Type() == transcript.TypeRewind })
	if rewinds {
		if err := t.readAll(ctx); err != nil {
			return err
		}
	} else if t.fresh {
		if err := t.sync(ctx); err != nil {
			return err
		}
	}
	if t.err != nil {
		return t.err
	}
	if t.version == 0 && t.row.Key == "" {
		return errNoHeader
	}
	if t.version > transcript.Version {
		return fmt.Errorf("format version %d, this program knows %d: nothing was written; use a newer program: %w",
			t.version, transcript.Version, ErrNewerFormat)
	}
	for _, e := range entries {
		if r, ok := e.Body.(transcript.Rewind); ok && !t.fold.Has(r.To) {
			return fmt.Errorf("there is no entry %q to rewind to: nothing was written; use an ID that Entries gives", r.To)
		}
	}
	t.appending++
	return nil
}

// after takes note of what became of an append, and puts the row. What fails
// here changes nothing about the append: the next call reads the session anew.
// It reports whether the entries, those of a repeated append, are live. It does
// not end with ctx.
func (s *Session) after(ctx context.Context, t *state, res driver.Result, failed error, entries []transcript.Entry) (live bool) {
	put, live, news, err := t.ended(ctx, res, failed, entries)
	if put {
		err = s.put(ctx, t)
	}
	if err != nil {
		s.store.opts.Logger.Warn("the index was not brought up to date", "agent", s.ref.Agent, "session", s.ref.ID, "err", err)
	}
	s.store.tell(ctx, s.ref, news...)
	return live
}

// ended does so but for the row, and says whether that is for this append to
// put. It does not end with ctx.
func (s *state) ended(ctx context.Context, res driver.Result, failed error, entries []transcript.Entry) (put, live bool, news []Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appending--
	due := s.owed || failed == nil && !res.Repeated
	switch {
	case isGone(failed):
		s.reset()
		due = false
	case failed != nil:
		// Others may have left it to this one to read what they wrote.
		if due && s.appending == 0 {
			err = s.sync(context.WithoutCancel(ctx))
		}
	default:
		err = s.appended(ctx, res, entries)
	}
	if err != nil && s.err == nil {
		s.reset()
	}
	if err == nil && res.Repeated && len(res.IDs) > 0 {
		last := res.IDs[len(res.IDs)-1]
		if !s.fold.Has(last) {
			err = s.readAll(context.WithoutCancel(ctx))
		}
		live = err == nil && s.fold.Live(last)
	}
	// If these entries wait for others, the row is for those to put; if another
	// append is about to put it, that puts what this one has added.
	s.owed = due && (err != nil || len(s.ahead) > 0)
	put = due && !s.owed && !s.putNext
	s.putNext = s.putNext || put
	return put, live, s.news(), err
}

// put brings the index up to date with what is known when its turn comes. One
// append at a time does that, and one at most waits for its turn: when all
// appends have returned the index has the last row. A process that ends before
// leaves an older row, which its Size tells from the file's. It does not end
// with ctx.
func (s *Session) put(ctx context.Context, t *state) error {
	t.putting.Lock()
	defer t.putting.Unlock()
	row, ok, err := t.toPut(ctx)
	if err != nil || !ok {
		return err
	}
	// The entries are in the transcript; its row can wait. A process that was
	// stopped while it holds the index must not stop this one.
	wait := &patience{Context: ctx, limit: rowWait}
	defer wait.stop()
	return s.store.drv.Put(wait, row)
}

// toPut returns the row to put next. There is none while the index has none
// either and the lines that it lacks were not read: whoever looks for sessions
// without a row reads them.
func (s *state) toPut(ctx context.Context) (row driver.Row, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putNext = false
	if s.fresh {
		if err := s.sync(context.WithoutCancel(ctx)); err != nil { // somebody has forgotten what was read
			return row, false, err
		}
	}
	if s.bare {
		ctx := context.WithoutCancel(ctx)
		if row, err := s.store.drv.Get(ctx, s.ref); err != nil || row.Size == 0 {
			return row, false, err
		}
		if err := s.readAll(ctx); err != nil {
			return row, false, err
		}
	}
	row = s.row
	row.Labels = slices.Clone(row.Labels)
	return row, true, nil
}

// rowWait is how long an append waits to bring the index up to date, and as
// long again for another append that is just doing so. A row that was left
// behind is made again when the store is opened.
const rowWait = 500 * time.Millisecond

// hashBatch is the hash of what a batch says: its lines without what differs
// from one try to the next.
func hashBatch(entries []transcript.Entry) string {
	h := sha256.New()
	for _, e := range entries {
		if f, ok := e.Body.(transcript.Fragment); ok {
			f.Of = ""
			e.Body = f
		}
		bare := transcript.Entry{Body: e.Body}
		h.Write(bare.Line())
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
