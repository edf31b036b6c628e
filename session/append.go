package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/transcript"
)

// Append adds items to the session as one batch and returns the IDs of the new
// entries, in the order of their lines. Items are messages, responses and
// entry bodies, see [transcript.NewBatch].
//
// A nil error means that every entry is in the file and as durable as
// [Options].Sync promises: by default it survives a power cut. An error means
// that nothing was written and that the caller may retry, with two exceptions:
// after a [*NotDurableError] the entries may exist, and after [ErrFragment] a
// partial batch remains, which readers ignore. The lines of a batch are
// contiguous; a crash in the middle leaves a partial batch.
//
// An answer can record its origin, [transcript.Made]. If a rewind has taken
// the origin back, Append refuses the answer with [ErrConflict].
//
// The context is honoured until the write begins. To record the end of a
// cancelled turn use [context.WithoutCancel].
func (s *Session) Append(ctx context.Context, items ...transcript.Item) ([]string, error) {
	done, err := s.AppendIf(ctx, Cond{}, items...)
	return done.IDs, err
}

// Cond is the condition of a [Session.AppendIf]. The zero value always holds.
type Cond struct {
	// Head is the ID that the last message, compaction or rewind entry must
	// have. Otherwise the error matches [ErrConflict].
	Head string `json:"head,omitempty"`
	// Empty requires a session without messages, compactions and rewinds.
	// Otherwise the error matches [ErrConflict].
	Empty bool `json:"empty,omitempty"`
	// Idem is an idempotency key: a second call with the same key and the same items
	// writes nothing and returns the IDs of the first one. With other items the error
	// matches [ErrIdemMismatch]. All keys since the first entry that the last
	// compaction keeps are honoured, and the 64 keys before it, after restarts and
	// across processes. Invalid UTF-8 is refused.
	Idem string `json:"idem,omitempty"`
}

// Appended is the result of [Session.AppendIf].
type Appended struct {
	IDs []string `json:"ids"` // of the entries, in the order of their lines
	// Repeated reports that nothing was written, because the same items were
	// appended earlier under the same idempotency key. Their answer follows the last
	// of IDs, see [Session.Follow]. If the session lacks their lines, as a fork that
	// begins after them does, IDs holds only the first.
	Repeated bool `json:"repeated,omitempty"`
	// Rewound reports that a later rewind took the repeated entries back.
	Rewound bool `json:"rewound,omitempty"`
}

// AppendIf is [Session.Append] under a condition. Check and write are one step,
// even against other processes.
func (s *Session) AppendIf(ctx context.Context, cond Cond, items ...transcript.Item) (_ Appended, err error) {
	const op = "append"
	t := s.store.table.Acquire(ctx, s.ref)
	defer s.store.table.Release(t)
	if len(items) == 0 {
		return Appended{}, s.store.wrap(op, s.ref, errors.New("no items: nothing was written"))
	}
	ctx = s.store.begin(ctx, s.ref, Event{Kind: EventAppendStart})
	j, _ := jobPool.Get().(*live.Job)
	*j = live.Job{Ctx: ctx, Owner: s.store.owner, At: s.store.opts.Now(), Idem: cond.Idem, Rev: live.AnyRev}
	defer jobPool.Put(j)
	defer s.appended(ctx, j, &err)
	entries, err := s.build(ctx, j.At, newID, items)
	if err == nil && j.Idem != "" {
		entries, err = transcript.WithIdem(entries, j.Idem)
	}
	if err != nil {
		return Appended{}, s.store.wrap(op, s.ref, err)
	}
	if j.Entries = entries; cond.Head != "" || cond.Empty || slices.ContainsFunc(entries, depends) {
		j.Decide = func(ctx context.Context) error { return (&View{s: s, t: t, ctx: ctx}).admit(cond, entries) }
	}
	for tries := 1; ; tries++ {
		err := s.submit(op, t, j)
		switch {
		case err != nil:
			return Appended{}, err
		case !j.Done.Hit:
			return Appended{IDs: idsOf(j.Entries)}, nil
		}
		ids, err := s.repeated(ctx, t, entries[0])
		switch {
		case err == nil:
			return Appended{IDs: ids, Repeated: true, Rewound: !s.live(ctx, ids)}, nil
		case !errors.Is(err, errNotThere) || tries == replacedTries:
			return Appended{}, s.store.wrap(op, s.ref, err)
		}
		t.Forget()
	}
}

var jobPool = sync.Pool{New: func() any { return new(live.Job) }}

// errNotThere reports that a batch is not where its idempotency key was read.
var errNotThere = errors.New("the batch of the idempotency key is no longer there")

// repeated returns the IDs of the entries that were appended under the key of retry, and
// [ErrIdemMismatch] if their content differs. If the store syncs, these are on stable
// storage. repeated reads them, as a place in memory does not prove that the lines
// survived a failed sync.
func (s *Session) repeated(ctx context.Context, t *live.State, retry transcript.Entry) (ids []string, err error) {
	if s.store.opts.Sync != SyncNever {
		if err := s.store.drv.Flush(ctx, s.ref, false); err != nil {
			return nil, err
		}
	}
	at, held := t.PlaceOf(retry.Idem)
	for b, err := range transcript.Batches(t.Scan(ctx)(at, driver.Forward)) {
		if err != nil {
			return nil, err
		}
		if first := b.Entries[0]; first.Idem != retry.Idem || held != nil && first.ID != held.ID || !b.Complete {
			continue
		}
		return idsOf(b.Entries), fits(b.Entries[0], retry)
	}
	if held != nil { // a fork holds the key without the lines, or they are damaged
		return []string{held.ID}, fits(*held, retry)
	}
	return nil, errNotThere
}

// fits returns [ErrIdemMismatch] unless the batch that begins with first equals its retry,
// apart from erased words.
func fits(first, retry transcript.Entry) error {
	if first.IdemHash != retry.IdemHash && first.IdemHash != transcript.ErasedHash {
		return ErrIdemMismatch
	}
	return nil
}

// depends reports whether appending an entry depends on an earlier one: the target
// of a rewind, the request of an answer, the earlier status of a call.
func depends(e transcript.Entry) bool {
	switch b := e.Body.(type) {
	case transcript.Rewind, transcript.ToolStatus:
		return true
	case transcript.MessageLine:
		return b.Made.After != ""
	}
	return false
}

// admit returns an error if entries must not be appended to the session as it
// stands: the condition fails, the target of a rewind does not exist, the
// request of an answer was rewound, or the status of a call would go back.
func (v *View) admit(cond Cond, entries []transcript.Entry) error {
	switch head := v.Fold().Head(); {
	case cond.Empty && head != "":
		return fmt.Errorf("the session has messages, and its head is %q: %w", head, ErrConflict)
	case cond.Head != "" && head != cond.Head:
		return fmt.Errorf("head is %q, not %q: %w", head, cond.Head, ErrConflict)
	}
	said := map[string]string{} // by call, in these entries
	for _, e := range entries {
		switch b := e.Body.(type) {
		case transcript.ToolStatus:
			was := cmp.Or(said[b.CallID], v.t.Status(b.CallID))
			if !follows(was, b.Status) {
				return fmt.Errorf("%w: the call %s is %s, which %s cannot follow: nothing was written", ErrConflict, b.CallID, was, b.Status)
			}
			said[b.CallID] = b.Status
		case transcript.Rewind:
			if err := v.t.ReadAll(v.ctx); err != nil { // the entry may be old
				return err
			}
			if !v.Fold().Has(b.To) {
				return fmt.Errorf("%w: it has no %q to rewind to", ErrNoEntry, b.To)
			}
		case transcript.MessageLine:
			if b.Made.After == "" {
				continue
			}
			if err := v.readTo(b.Made.After); err != nil {
				return err
			}
			if v.Fold().Has(b.Made.After) && !v.Fold().Live(b.Made.After) {
				return fmt.Errorf("a rewind has taken back entry %s: %w", b.Made.After, ErrConflict)
			}
		}
	}
	return nil
}

// follows reports whether a call may change its status from was to now. The first
// status follows "".
func follows(was, now string) bool {
	rank := map[string]int{"pending": 1, "running": 2, "completed": 3, "error": 3}
	return was == now || rank[was] < rank[now]
}

// live reports whether the last of the entries is in the history or unknown to it. It
// returns false if the session cannot be read.
func (s *Session) live(ctx context.Context, ids []string) (live bool) {
	if len(ids) == 0 {
		return false
	}
	last := ids[len(ids)-1]
	_ = s.view(context.WithoutCancel(ctx), "read", func(v *View) error {
		err := v.readTo(last)
		live = err == nil && (v.Fold().Live(last) || !v.Fold().Has(last)) // a fork may lack it
		return err
	})
	return live
}

// submit writes a job in its turn. It reports the damage and the repairs that were found
// to the observer, and names the session in the error.
func (s *Session) submit(op string, t *live.State, j *live.Job) error {
	tried := t.Submit(j)
	if !tried || j.Done.Err == nil && s.store.opts.Observe == nil {
		return s.store.wrap(op, s.ref, j.Done.Err)
	}
	return s.store.done(j.Ctx, op, s.ref, j.Done.Err, newsOf(t.TakeNews())...)
}

// appended reports the end of an append to the observer: of a job, unless it was never
// submitted.
func (s *Session) appended(ctx context.Context, j *live.Job, err *error) {
	if s.store.observe == nil {
		return
	}
	e := Event{Kind: EventAppend, Took: j.Done.Took, Bytes: j.Done.Bytes, Err: *err}
	if *err == nil && !j.Done.Hit {
		e.Entries = len(j.Entries)
	}
	s.store.tell(ctx, s.ref, e)
}

// build makes the entries of items and passes them to the filters. No lock is held: filters
// may take their time.
func (s *Session) build(ctx context.Context, at time.Time, newID func() string, items []transcript.Item) ([]transcript.Entry, error) {
	for _, item := range items {
		if m, ok := item.(transcript.Meta); ok {
			if err := checkMeta(m); err != nil {
				return nil, err
			}
		}
	}
	entries, err := s.store.entries(at, newID, items)
	if err != nil {
		return nil, err
	}
	return s.prepared(ctx, entries)
}

// entries makes the entries of items.
func (st *Store) entries(at time.Time, newID func() string, items []transcript.Item) ([]transcript.Entry, error) {
	switch {
	case len(items) == 0:
		return nil, nil
	case st.opts.NoChecksum:
		return transcript.NewBatch(at, newID, items...)
	}
	return transcript.NewBatchWithChecksums(at, newID, items...)
}

// prepared returns entries as the filters return them.
func (s *Session) prepared(ctx context.Context, entries []transcript.Entry) ([]transcript.Entry, error) {
	st := s.store
	if st.owner == "" && len(st.opts.Filters) == 0 {
		return entries, nil
	}
	isHeader := func(e transcript.Entry) bool { return e.Type() == "session" }
	if slices.ContainsFunc(entries, isHeader) { // filters would mistake it for the header of a new session
		return nil, errors.New("a header begins a session and is not appended: nothing was written")
	}
	return st.filterWrite(ctx, s.ref, entries)
}

// idsOf returns the IDs of entries.
func idsOf(entries []transcript.Entry) []string {
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}
