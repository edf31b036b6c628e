package session

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// state is what this process knows of a session: the fold of its lines up to a
// cursor, and the row made of them. It is made of lines in the order of the
// transcript: those of others are read, those of this process are what it wrote,
// see written.
type state struct {
	store *Store
	ref   Ref

	users int           // guarded by the table
	place *list.Element // in the table's order

	compacting chan struct{} // holds a value while a compaction runs

	putting sync.Mutex // held while the row is put; taken before mu

	mu        sync.Mutex // guards what follows; not held while the driver appends
	appending int        // appends of this process under way
	putNext   bool       // one of them is about to put the row as it then is
	owed      bool       // one that has ended has left the row for the others to put
	*reading
}

// reading is the result of reading lines in order: all of them, or those from
// the row's Base on.
type reading struct {
	opts       *Options
	fold       *rebuild.Fold
	batcher    transcript.Batcher
	next       driver.Cursor // after the last record that was read
	tail       bool          // lines before base were not read
	base       driver.Cursor // where reading began, if it is a tail, and the entry there
	baseID     string
	bare       bool                      // and no index has said what the row should say about them
	known      driver.Cursor             // the row says already what is before
	ahead      map[driver.Cursor]written // appends of this process that begin behind next, by start
	damage     []transcript.Damage
	told       int            // how much of damage the observer knows
	cut        map[string]int // entries of incomplete batches, by idempotency key
	superseded []int          // how many of them a retry has taken the place of, each time; the observer does not know
	moved      driver.Cursor  // after the beginning of the last compaction or rewind
	row        driver.Row
	version    int                   // of the format, as the header says
	err        error                 // why the session cannot be used
	fresh      bool                  // nothing was read yet
	whole      bool                  // all lines are to be read
	one        [1]transcript.Message // see estimate
	recount    bool                  // the estimate is not the sum of the lines: see finish
}

func newState(st *Store, ref Ref) *state {
	s := &state{store: st, ref: ref, compacting: make(chan struct{}, 1)}
	s.reset()
	return s
}

func (s *state) reset() {
	s.reading = newReading(driver.Row{ID: s.ref.ID, Agent: s.ref.Agent}, &s.store.opts)
}

func newReading(row driver.Row, opts *Options) *reading {
	return &reading{
		opts: opts, fold: rebuild.New(&rebuild.Options{Summary: opts.Summary}), row: row, fresh: true,
		ahead: map[driver.Cursor]written{}, cut: map[string]int{},
	}
}

// errWhole says that lines before the row's Base are needed.
var errWhole = errors.New("lines before the last compaction are needed")

// readAll makes sure that all lines were read, not only those that the history
// is made of. The caller holds s.mu.
func (s *state) readAll(ctx context.Context) error {
	if err := s.sync(ctx); err != nil || !s.tail {
		return err
	}
	return s.startOver(ctx)
}

// startOver forgets what was read and reads all lines.
func (s *state) startOver(ctx context.Context) error {
	s.reset()
	s.whole = true
	return s.sync(ctx)
}

// forgetting calls f, which changes what was read. If f panics, as a Counter
// can, all of it is forgotten, so that the next call reads anew.
func (s *state) forgetting(f func() error) error {
	done := false
	defer func() {
		if !done {
			s.reset()
		}
	}()
	err := f()
	done = true
	return err
}

// news returns events of what was found since the last time. The
// caller holds s.mu.
func (s *state) news() (events []Event) {
	for _, d := range s.damage[s.told:] {
		events = append(events, Event{Kind: EventDamage, Damage: d})
	}
	for _, n := range s.superseded {
		events = append(events, Event{Kind: EventRepair, Superseded: n})
	}
	s.told, s.superseded = len(s.damage), nil
	return events
}

// sync reads what was appended since the last time, by anyone. The caller
// holds s.mu.
func (s *state) sync(ctx context.Context) error {
	err := s.forgetting(func() error {
		err := s.read(ctx)
		if errors.Is(err, errWhole) {
			s.reset()
			s.whole = true
			err = s.read(ctx)
		}
		s.finish()
		return err
	})
	if isGone(err) {
		s.reset() // so that the next call reads anew
	}
	return err
}

func (s *state) read(ctx context.Context) error {
	if errors.Is(s.err, ErrNewerFormat) {
		return s.err // no file of this session will ever say less
	}
	if s.err != nil {
		s.reset() // somebody may have put the file right
	}
	var end driver.Cursor
	if s.fresh {
		// The first time, what a dead writer left unfinished is ended, so that
		// it can be told from what a living one is just writing.
		row, err := s.store.drv.Get(ctx, s.ref)
		if err != nil {
			return err
		}
		s.row.Key, s.row.Gen = row.Key, row.Gen
		if end, err = s.settle(ctx); err != nil {
			return err
		}
		if !s.whole && end > searchFrom {
			base, id, err := s.search(ctx)
			if err != nil {
				return err
			}
			if base > 0 && row.Size <= int64(end) {
				if err := s.skip(ctx, row, base, id); err != nil {
					return err
				}
			}
		}
	}
	if err := s.scan(ctx); err != nil {
		return err
	}
	if s.batcher.Open() {
		// Lines of an append that is not finished: if nobody is writing, it
		// never will be.
		if !s.fresh {
			var err error
			if end, err = s.settle(ctx); err != nil {
				return err
			}
			if err := s.scan(ctx); err != nil {
				return err
			}
		}
		if s.batcher.Open() && s.next <= end {
			if err := s.add(s.batcher.Break()); err != nil {
				return err
			}
		}
	}
	if s.fresh {
		s.fresh = false
		if s.version == 0 && s.row.LastID == "" {
			s.err = errNoEntries
			return s.err
		}
	}
	return nil
}

var (
	errNoEntries = errors.New("no entry of a transcript is in it: nothing was changed; inspect it and restore it from a copy, or delete the session")
	errNoHeader  = errors.New("its header is missing, so it can be read and not appended to: nothing was written; restore its first line")
)

// settleWait is how long a reader waits for a writer. An append takes far
// less; one that takes longer is left alone.
const settleWait = 100 * time.Millisecond

// settle ends what a dead writer left and returns the cursor behind it. While
// somebody is writing nothing is known to be final: the cursor is 0 then.
func (s *state) settle(ctx context.Context) (driver.Cursor, error) {
	short, cancel := context.WithTimeout(ctx, settleWait)
	defer cancel()
	end, err := s.store.drv.Settle(short, s.ref)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return 0, nil
	}
	return end, err
}

// head is the head of the session for a condition.
func (r *reading) head() string { return cmp.Or(r.fold.Head(), driver.NoHead) }

func (s *state) scan(ctx context.Context) error {
	for rec, err := range s.store.drv.Scan(ctx, s.ref, s.next, driver.Forward) {
		if err != nil {
			return err
		}
		if err := s.take(rec); err != nil {
			return err
		}
	}
	s.passed()
	return nil
}

// take takes the next record.
func (r *reading) take(rec transcript.Record) error {
	if err := r.pass(rec); err != nil {
		return err
	}
	if rec.Damage != nil {
		return r.add(r.batcher.Break())
	}
	return r.add(r.batcher.Add(rec.Entry))
}

// pass takes the next record but for what the fold says about it.
func (r *reading) pass(rec transcript.Record) error {
	at := driver.Cursor(rec.Offset)
	if r.tail && at <= r.base && r.next == r.base && rec.Entry.ID != r.baseID {
		return errWhole // the file has changed since the search
	}
	r.next = max(r.next, driver.Cursor(rec.End))
	if at >= r.known {
		r.row.Size = int64(r.next)
	}
	if rec.Damage != nil {
		r.damage = append(r.damage, *rec.Damage)
		return nil
	}
	e := rec.Entry
	switch b := e.Body.(type) {
	case transcript.Compaction:
		r.moved, r.recount = at+1, r.recount || at >= r.known
		if r.tail && !r.fold.Has(b.FirstKept) {
			return errWhole
		}
	case transcript.Rewind:
		r.moved, r.recount = at+1, r.recount || at >= r.known
		if r.tail {
			return errWhole // it may undo the compaction that the tail begins with
		}
	case transcript.Clip:
		r.recount = r.recount || at >= r.known
	}
	if at >= r.known {
		if err := r.note(e); err != nil {
			r.err = err
			return err
		}
	}
	return nil
}

func (r *reading) add(batches []transcript.Batch) error {
	for _, b := range batches {
		if err := r.addBatch(b); err != nil {
			return err
		}
	}
	return nil
}

func (r *reading) addBatch(b transcript.Batch) error {
	if len(b.Entries) > 0 && b.Entries[0].Idem != "" {
		key := b.Entries[0].Idem
		if n := r.cut[key]; n > 0 {
			r.superseded = append(r.superseded, n)
			delete(r.cut, key)
		}
		if !b.Complete {
			r.cut[key] = len(b.Entries)
		}
	}
	err := r.fold.Add(b)
	if err != nil {
		r.err = err
	}
	return err
}

// finish brings up to date what of the row costs more than one line.
func (r *reading) finish() {
	r.row.Turns = r.fold.Turns()
	if r.recount {
		h := r.fold.History()
		r.row.TokenEstimate = r.opts.Counter.Count(h.System, nil, h.Messages)
		r.recount = false
	}
}

// note brings the row up to date with one entry.
func (r *reading) note(e transcript.Entry) error {
	switch b := e.Body.(type) {
	case transcript.Header:
		if r.version != 0 {
			return nil // a second header says nothing
		}
		if e.ID != r.row.ID {
			return fmt.Errorf("its header says that it is session %q: the file was renamed or copied; give it back its name", e.ID)
		}
		r.version = b.Version
		r.row.Key, r.row.CreatedAt, r.row.UpdatedAt = b.Key, b.Created, e.Time
		r.row.Gen = max(r.row.Gen, b.Gen)
		applyMeta(&r.row, b.Meta)
		if r.row.Agent == "" {
			if k, err := ParseKey(b.Key); err == nil {
				r.row.Agent = k.Agent
			}
		}
		return nil
	case transcript.Meta:
		applyMeta(&r.row, b)
	case transcript.Current:
		r.row.Gen = max(r.row.Gen, b.Gen)
	case transcript.Fragment:
		if !r.recount {
			r.row.TokenEstimate += r.estimate(b)
		}
		if b.Of == "" && (b.Kind == transcript.TypeUser || b.Kind == transcript.TypeAssistant) {
			r.row.Messages++
		}
		if b.Kind == transcript.TypeUser {
			r.row.LastUserAt = e.Time
			if r.row.Title == "" && !r.row.TitleByHand {
				r.row.Title = titleOf(b.Message().Text())
			}
		}
	}
	if e.ID != "" {
		r.row.LastID = e.ID
	}
	if transcript.IsHead(e.Type()) && e.Time.After(r.row.UpdatedAt) {
		r.row.UpdatedAt = e.Time
	}
	return nil
}

// describe makes the row of a session from its records alone.
func describe(row driver.Row, records iter.Seq2[transcript.Record, error], opts *Options) (driver.Row, error) {
	r := newReading(row, opts)
	for rec, err := range records {
		if err == nil {
			err = r.take(rec)
		}
		if err != nil {
			return row, err
		}
	}
	if err := r.add(r.batcher.Break()); err != nil {
		return row, err
	}
	r.finish()
	r.row.Size = row.Size
	return r.row, nil
}

// estimate is how many tokens one entry adds.
func (r *reading) estimate(b transcript.Fragment) int {
	r.one[0] = b.Message()
	defer clear(r.one[:])
	return r.opts.Counter.Count("", nil, r.one[:])
}

func applyMeta(row *driver.Row, m transcript.Meta) {
	if m.Title != nil {
		row.Title, row.TitleByHand = *m.Title, true
	}
	if m.Owner != nil {
		row.Owner = *m.Owner
	}
	if m.Labels != nil {
		row.Labels = slices.Clone(m.Labels)
	}
	if m.TTL != nil {
		row.TTL = *m.TTL
	}
	if m.Pinned != nil {
		row.Pinned = *m.Pinned
	}
}
