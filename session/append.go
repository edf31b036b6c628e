package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

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
// a partial batch remains that readers ignore. The lines of a batch are
// contiguous; a crash in the middle leaves a partial batch.
//
// An answer that says what it was made from, [transcript.Made], is refused with
// [ErrConflict] if a rewind has taken that back: it answers a conversation that
// is no longer there.
//
// The context is honoured until the write begins. To record the end of a
// cancelled turn use [context.WithoutCancel].
func (s *Session) Append(ctx context.Context, items ...transcript.Item) ([]string, error) {
	done, err := s.append(ctx, "append", driver.Cond{}, items...)
	return done.IDs, err
}

// Cond is what must hold for [Session.AppendIf]. The zero value always holds.
type Cond struct {
	// Head is the ID that the last message, compaction or rewind entry must
	// have; [NoHead] says that there must be none. Otherwise the error matches
	// [ErrConflict].
	Head string `json:"head,omitempty"`
	// Idem is an idempotency key: a second call with the same key and the same
	// items writes nothing and returns the IDs of the first one. With other
	// items the error matches [ErrIdemMismatch]. Keys are honoured over the
	// history, back to what its last compaction keeps, and over at least the last
	// 1,024 entries, after restarts and across processes. One that is not valid
	// UTF-8 is refused.
	Idem string `json:"idem,omitempty"`
}

// NoHead is the Head of a session without messages.
const NoHead = driver.NoHead

// Appended is the result of [Session.AppendIf].
type Appended struct {
	IDs []string `json:"ids"` // of the entries, in the order of their lines
	// Repeated reports that nothing was written, because the same items were
	// appended earlier under the same idempotency key.
	Repeated bool `json:"repeated,omitempty"`
	// Rewound reports that the repeated entries are no longer part of the
	// history: a later rewind took them back.
	Rewound bool `json:"rewound,omitempty"`
}

// AppendIf is [Session.Append] under a condition. Check and write are one
// step, also against other processes.
func (s *Session) AppendIf(ctx context.Context, cond Cond, items ...transcript.Item) (Appended, error) {
	return s.append(ctx, "append", driver.Cond{Head: cond.Head, Idem: cond.Idem}, items...)
}

func (s *Session) append(ctx context.Context, op string, cond driver.Cond, items ...transcript.Item) (Appended, error) {
	if len(items) == 0 {
		return Appended{}, s.store.wrap(op, s.ref, errors.New("no items: nothing was written"))
	}
	now, newBatch := s.store.opts.Now(), transcript.NewSealedBatch
	if s.store.opts.NoChecksum {
		newBatch = transcript.NewBatch
	}
	entries, err := newBatch(now, newID, items...)
	if err == nil {
		entries, cond.Check, err = s.prepared(ctx, entries)
	}
	if err == nil && cond.Idem != "" {
		cond.IdemHash = IdemHash(entries)
		entries, err = transcript.WithIdem(entries, cond.Idem, cond.IdemHash)
	}
	if err != nil {
		return Appended{}, s.store.wrap(op, s.ref, err)
	}
	res, err := s.write(ctx, op, now, cond, entries, true)
	if err != nil {
		return Appended{}, err
	}
	if res.Repeated {
		return Appended{IDs: res.IDs, Repeated: true, Rewound: !s.live(ctx, res.IDs)}, nil
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return Appended{IDs: ids}, nil
}

// lastID is when the last ID was made, in 4,096ths of a millisecond.
var lastID struct {
	sync.Mutex
	at uint64
}

// newID returns a UUID of version 7, greater than all that it has returned before.
func newID() string {
	var id uuid.UUID
	_, _ = rand.Read(id[:]) // never fails
	lastID.Lock()
	lastID.at = max(uint64(time.Now().UnixMicro())<<12/1000, lastID.at+1)
	binary.BigEndian.PutUint64(id[:], lastID.at>>12<<16|7<<12|lastID.at&0xfff)
	lastID.Unlock()
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// prepared returns entries as the options and the scope let them be written, and
// the check under which they must be.
func (s *Session) prepared(ctx context.Context, entries []transcript.Entry) ([]transcript.Entry, func(context.Context, driver.Cursor) error, error) {
	st := s.store
	if st.owner == "" && st.opts.Redact == nil && st.opts.Blobs == nil {
		return entries, nil, nil
	}
	if err := st.permits(entries); err != nil {
		return nil, nil, err
	}
	entries, err := st.redacted(ctx, entries)
	if err != nil {
		return nil, nil, err
	}
	return s.keep(ctx, entries)
}

// write appends the lines of entries, which are prepared, and notes what came of
// it. If own is set the entries are one batch that this package has made, which
// the next call that reads need not look for in the transcript; otherwise they are
// not retained.
func (s *Session) write(ctx context.Context, op string, now time.Time, cond driver.Cond, entries []transcript.Entry, own bool) (driver.Result, error) {
	st := s.store
	t := st.table.acquire(s.ref)
	defer st.table.release(t)
	pooled, _ := linePool.Get().(*[]driver.Line)
	lines := (*pooled)[:0]
	for _, e := range entries {
		lines = append(lines, lineOf(e))
	}
	*pooled = lines
	defer linePool.Put(pooled)
	defer clear(lines)
	began := time.Now()
	res, err := t.commit(ctx, lines, cond, entries, own)
	took := time.Since(began)
	put, meta := false, holds(entries, transcript.TypeMeta)
	switch {
	case err != nil:
		if cond.Check != nil {
			t.swept.Store(false) // it may have left blobs
		}
		err = st.wrap(op, s.ref, err)
	case !res.Repeated:
		put = t.appended(res, now, entries, own) || meta
	}
	if st.opts.Observe != nil {
		s.tellAppend(ctx, t, Event{Kind: EventAppend, Took: took, Err: err}, res, lines)
	}
	if put {
		st.putRow(ctx, t, meta)
	}
	return res, err
}

// linePool has lists of lines, which no driver retains.
var linePool = sync.Pool{New: func() any { return new([]driver.Line) }}

// tellAppend tells the observer about an append and what was found meanwhile.
func (s *Session) tellAppend(ctx context.Context, t *state, e Event, res driver.Result, lines []driver.Line) {
	if e.Err == nil && !res.Repeated {
		e.Entries = len(lines)
		for _, l := range lines {
			e.Bytes += len(l.Data) + 1
		}
	}
	news, _ := t.locked(func(*state) error { return nil })
	s.store.tell(ctx, s.ref, append(news, e)...)
}

// Sealed returns an entry whose line has a checksum, unless [Options].NoChecksum
// is set: as the store writes the lines of [Session.Append].
func (st *Store) Sealed(e transcript.Entry) transcript.Entry {
	if st.opts.NoChecksum {
		return e.WithLine(e.Line())
	}
	return e.Sealed()
}

// lineOf returns the line of an entry for the driver.
func lineOf(e transcript.Entry) driver.Line {
	return driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
}

// holds reports whether one of the entries is of one of the types.
func holds(entries []transcript.Entry, types ...string) bool {
	return slices.ContainsFunc(entries, func(e transcript.Entry) bool { return slices.Contains(types, e.Type()) })
}

// commit appends lines under a condition and under what the entries demand. A
// rewind that comes in between is looked at again.
func (s *state) commit(ctx context.Context, lines []driver.Line, cond driver.Cond, entries []transcript.Entry, own bool) (res driver.Result, err error) {
	for range commitTries {
		var bound bool
		if bound, err = s.admit(ctx, &cond, entries, own); err != nil {
			return driver.Result{}, err
		}
		if res, err = s.store.drv.Append(ctx, s.ref, lines, cond); err == nil {
			return res, nil
		}
		s.rowDue.Store(true) // the index may say that this process is about to append
		if !bound || !errors.Is(err, driver.ErrConflict) || cond.Head != "" {
			break
		}
	}
	return res, err
}

// admit reports why entries must not be appended to the session, if there is a
// reason, and else completes the condition. If own is set a rewind must name an
// entry that is there, what an answer was made from must be in force, and the status
// of a call must not go back. Bound says that the condition stands for such entries.
func (s *state) admit(ctx context.Context, cond *driver.Cond, entries []transcript.Entry, own bool) (bound bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.writable(ctx); err != nil {
		return false, err
	}
	cond.Since = s.from
	if cond.Idem != "" && len(cond.Conflicts) == 0 {
		cond.Base = s.next
	}
	if !own {
		return false, nil
	}
	var conflicts []string
	var said map[string]string // by these entries, of calls
	gone := false              // what is to be there is not: only a key can be
	for _, e := range entries {
		switch b := e.Body.(type) {
		case transcript.ToolStatus:
			if said == nil {
				if err := s.sync(ctx); err != nil {
					return false, err
				}
				said, conflicts = map[string]string{}, append(conflicts, transcript.TypeToolStatus)
			}
			was := cmp.Or(said[b.CallID], s.statuses[b.CallID])
			switch {
			case follows(was, b.Status):
				said[b.CallID] = b.Status
			case cond.Idem != "":
				gone = true
			default:
				return false, fmt.Errorf("%w: the call %s is %s, which %s cannot follow: nothing was written", ErrConflict, b.CallID, was, b.Status)
			}
		case transcript.Rewind:
			if err := s.readAll(ctx); err != nil { // the entry may be old
				return false, err
			}
			if !s.fold.Has(b.To) {
				return false, fmt.Errorf("there is no entry %q to rewind to: nothing was written; use an ID that Entries gives", b.To)
			}
		case transcript.Fragment:
			if b.Made.After == "" {
				continue
			}
			if err := s.readTo(ctx, b.Made.After); err != nil {
				return false, err
			}
			conflicts = append(conflicts, transcript.TypeRewind)
			gone = gone || s.fold.Has(b.Made.After) && !s.fold.Live(b.Made.After) // a rewind has taken it back
		}
	}
	if len(conflicts) == 0 {
		return false, nil
	}
	cond.Since, cond.Base, cond.Conflicts = s.from, s.next, conflicts // as read by now
	if gone {
		cond.Base = 0
	}
	return !gone, nil
}

// follows reports whether the status of a call may follow another one, which is
// empty if there was none.
func follows(was, now string) bool {
	rank := map[string]int{"pending": 1, "running": 2, "completed": 3, "error": 3}
	return was == now || rank[was] < rank[now]
}

// writable reports why nothing must be appended to the session, if there is a
// reason. The caller holds s.mu.
func (s *state) writable(ctx context.Context) error {
	if s.fold == nil {
		if err := s.sync(ctx); err != nil {
			return err
		}
	}
	switch {
	case s.version == 0 && s.row.Key == "":
		return errNoHeader
	case s.version > transcript.Version:
		return fmt.Errorf("format version %d, this program knows %d: nothing was written; use a newer program: %w",
			s.version, transcript.Version, ErrNewerFormat)
	}
	return nil
}

// appended notes an append of this process that has ended well. It reports
// whether the index should have a row now.
func (s *state) appended(res driver.Result, now time.Time, entries []transcript.Entry, own bool) (put bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if own {
		for i, e := range entries {
			entries[i] = e.WithLine(nil) // the fold does not need it
		}
		s.fresh = append(s.fresh, fresh{res, entries})
	}
	s.wrote = max(s.wrote, res.End)
	s.wroteAt = now
	if s.rowAt.IsZero() {
		s.rowAt = now
	}
	s.rowDue.Store(true)
	return now.Sub(s.rowAt) >= rowAge
}

// live reports whether entries that were appended earlier are part of the
// history. If that cannot be read they are not.
func (s *Session) live(ctx context.Context, ids []string) (live bool) {
	if len(ids) == 0 {
		return false
	}
	last := ids[len(ids)-1]
	ctx = context.WithoutCancel(ctx)
	_ = s.use(ctx, "read", func(t *state) error {
		err := t.readTo(ctx, last)
		live = err == nil && t.fold.Live(last)
		return err
	})
	return live
}
