package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A write is one append: the items that it is made of, and its entries once it was
// built.
type write struct {
	at    time.Time // of the entries
	items []transcript.Item
	newID func() string

	entries []transcript.Entry
	// Idempotency key, and the hash of the entries; empty for an append without a key.
	idem, hash string
	// foreign marks entries that were made elsewhere. They may be several batches or a
	// part of one, so the next read takes them from the transcript. They are written
	// if all lines after the cursor after only make the session current.
	foreign bool
	after   driver.Cursor
}

// build makes the entries of the items and passes them to the filters, unless the
// write has entries. No lock is held: filters may take their time.
func (s *Session) build(ctx context.Context, w *write) error {
	if len(w.entries) > 0 || len(w.items) == 0 {
		return nil
	}
	newBatch := transcript.NewBatchWithChecksums
	if s.store.opts.NoChecksum {
		newBatch = transcript.NewBatch
	}
	entries, err := newBatch(w.at, w.newID, w.items...)
	if err == nil {
		entries, err = s.prepared(ctx, entries)
	}
	if err == nil && w.idem != "" {
		w.hash = IdemHash(entries)
		entries, err = transcript.WithIdem(entries, w.idem, w.hash)
	}
	w.entries = entries
	return err
}

// ids returns the IDs of the entries.
func (w *write) ids() []string {
	ids := make([]string, len(w.entries))
	for i, e := range w.entries {
		ids[i] = e.ID
	}
	return ids
}

// A job is one append on its way, and its place in a queue.
type job struct {
	ctx   context.Context //nolint:containedctx // of the call, which waits for the job
	alone bool            // no other job is written with it
	leads chan bool       // ends the wait of the job: it must be written, or was written with another one

	write
	// decide, if not nil, validates or makes the write over the session as it stands.
	decide func(v *View) error
	rev    int    // that decide began with
	store  *Store // of the call

	done result
	self [1]*job // room for the group of a job that is written alone
}

var jobPool = sync.Pool{New: func() any { return new(job) }}

// The most that is written together, and the size of a job over which it is written alone,
// so that the others do not wait for a long write.
const (
	maxJobs     = 128
	maxJobBytes = 64 << 10
)

// joins reports whether a job can be written with those before it: none depends on more
// than its idempotency key, and no key occurs twice.
func (j *job) joins(group []*job) bool {
	sameKey := func(other *job) bool { return j.idem != "" && other.idem == j.idem }
	return len(group) < maxJobs && group[0].isSimple() && j.isSimple() && !slices.ContainsFunc(group, sameKey)
}

func (j *job) isSimple() bool {
	return j.decide == nil && !j.foreign && !j.alone && j.size() <= maxJobBytes
}

// A result is the outcome of a job.
type result struct {
	driver.Result
	err error
	hit bool // the idempotency key is known: nothing was written
	// The observer gets event once other appends can continue. Its Kind is empty if
	// nothing was appended.
	event Event
}

// submit writes a job in its turn.
func (s *Session) submit(op string, t *state, j *job) result {
	j.store = s.store
	leads, err := t.queue.join(j)
	switch {
	case err != nil:
		return result{err: s.store.wrap(op, s.ref, err)}
	case leads:
		s.lead(t, j)
	}
	j.done.err = s.told(j.ctx, op, t, j.done)
	return j.done
}

// lead writes a job and those that wait and can be written with it.
func (s *Session) lead(t *state, j *job) {
	group := t.queue.take(append(j.self[:0], j))
	defer t.queue.leave(group[1:])
	for _, other := range group[1:] {
		other.done.err = errors.New("an append that was written with this one panicked: this one may exist; read the session again")
	}
	ctx, cancel := togetherContext(group)
	defer cancel()
	began := time.Now()
	res, err := s.append(ctx, t, group)
	if err == nil || len(group) == 1 || mayBeWritten(err) {
		s.finish(t, group, res, err, time.Since(began))
		return
	}
	for i, j := range group { // the error may be about one of them
		began, alone := time.Now(), group[i:i+1]
		res, err := s.append(j.ctx, t, alone)
		s.finish(t, alone, res, err, time.Since(began))
	}
}

// togetherContext returns the context of jobs that are written together: it ends when
// the context of any job ends.
func togetherContext(group []*job) (context.Context, func()) {
	if len(group) == 1 {
		return group[0].ctx, func() {}
	}
	ctx, cancel := context.WithCancel(group[0].ctx)
	stops := make([]func() bool, 0, len(group))
	for _, other := range group[1:] {
		if other.ctx.Done() != nil {
			stops = append(stops, context.AfterFunc(other.ctx, cancel))
		}
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// mayBeWritten reports whether, after an error of an append, its lines or a part of them
// may be in the transcript.
func mayBeWritten(err error) bool {
	failed, ok := errors.AsType[*NotDurableError](err)
	return ok && !failed.Refused || errors.Is(err, ErrFragment)
}

// append stores the lines of jobs, the first of which leads.
func (s *Session) append(ctx context.Context, t *state, group []*job) (res driver.Result, err error) {
	pooled, _ := linePool.Get().(*[]driver.Line)
	lines := (*pooled)[:0]
	defer func() {
		*pooled = lines
		clear(lines)
		linePool.Put(pooled)
		if isGone(err) && !errors.Is(err, errNotFound) { // before the next job is decided
			t.stale.Store(true)
		}
	}()
	at, err := s.prepare(ctx, t, group, false)
	if lines = linesOf(lines[:0], group); err != nil || len(lines) == 0 {
		return res, err
	}
	if at == driver.Anywhere {
		return t.store.drv.Append(ctx, s.ref, lines, at, nil)
	}
	// If other processes have appended, they wait now, so that every writer succeeds.
	return t.store.drv.Append(ctx, s.ref, lines, at, func(ctx context.Context, _ driver.Cursor) ([]driver.Line, error) {
		_, err := s.prepare(ctx, t, group, true)
		return linesOf(nil, group), err
	})
}

// prepare reads the session, makes the entries of the jobs, and returns the cursor at
// which their lines must begin. If held is set, the driver holds the log.
func (s *Session) prepare(ctx context.Context, t *state, group []*job, held bool) (at driver.Cursor, err error) {
	if at, err = s.decide(ctx, t, group, held); err != nil {
		return at, err
	}
	for _, j := range group {
		if err := s.build(ctx, &j.write); err != nil {
			return at, err
		}
	}
	return at, nil
}

// decide is prepare without the building of entries. If held is set, the driver holds the
// log. Only a job that decides, and a conflict, make it read.
func (s *Session) decide(ctx context.Context, t *state, group []*job, held bool) (driver.Cursor, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if group[0].decide != nil || held || t.stale.Load() {
		if err := t.sync(ctx); err != nil {
			return 0, err
		}
	}
	if err := t.writable(ctx); err != nil {
		return 0, err
	}
	at := driver.Anywhere
	for _, j := range group {
		if err := j.store.own(t.row, nil); err != nil {
			return 0, err
		}
		if j.foreign {
			if held {
				return 0, s.unchanged(ctx, j.after)
			}
			return j.after, nil
		}
		if j.idem != "" || j.decide != nil {
			at = t.known
		}
		if j.done.hit = j.idem != "" && t.keys.has(j.idem); j.done.hit || j.decide == nil {
			continue
		}
		switch {
		case j.rev == anyRev:
			j.rev = t.row.Rev
		case j.rev != t.row.Rev:
			return 0, fmt.Errorf("%w: something was erased from it during the call, and nothing was written", ErrReplaced)
		}
		if err := j.decide(&View{s: s, t: t, ctx: ctx}); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// unchanged returns [ErrConflict] unless all entries after a place only make the session
// current.
func (s *Session) unchanged(ctx context.Context, after driver.Cursor) error {
	for rec, err := range s.store.drv.Scan(ctx, s.ref, after, driver.Forward, nil) {
		if err != nil {
			return err
		}
		switch rec.Entry.Body.(type) {
		case nil, transcript.Header, transcript.Current:
		default:
			return ErrConflict
		}
	}
	return nil
}

// finish records what became of jobs that were written together.
func (s *Session) finish(t *state, group []*job, res driver.Result, err error, took time.Duration) {
	meta := false
	for _, j := range group {
		j.done.Result, j.done.err, j.done.event = res, err, Event{Kind: EventAppend, Took: took, Err: err}
		switch {
		case err != nil || j.done.hit:
		case len(j.entries) == 0: // it decided to write nothing
			j.done.event = Event{}
		default:
			j.done.event.Entries, j.done.event.Bytes = len(j.entries), j.size()
			meta = meta || holds(j.entries, "meta")
		}
	}
	if err != nil {
		if mayBeWritten(err) {
			t.rowDue.Store(true)
		}
		return
	}
	if put := t.appended(res, group); put || meta {
		s.store.putRow(group[0].ctx, t, meta)
	}
}

// told ends a call that appends: it tells the observer about the damage and the
// repairs that were found, and about the append, and names the session in the error.
func (s *Session) told(ctx context.Context, op string, t *state, done result) error {
	if done.err == nil && s.store.opts.Observe == nil {
		return nil
	}
	events := t.takeNews()
	err := s.store.wrap(op, s.ref, done.err) // it may have the session read again
	if done.event.Kind != "" {
		done.event.Err = err
		events = append(events, done.event)
	}
	s.store.tell(ctx, s.ref, events...)
	return err
}

// linePool has lists of lines, which no driver retains.
var linePool = sync.Pool{New: func() any { return new([]driver.Line) }}

// linesOf appends the lines that jobs are to write to a list.
func linesOf(list []driver.Line, group []*job) []driver.Line {
	for _, j := range group {
		if j.done.hit {
			continue
		}
		for _, e := range j.entries {
			list = append(list, lineOf(e))
		}
	}
	return list
}

// size returns the bytes of the lines, with their line breaks.
func (w *write) size() (n int) {
	for _, e := range w.entries {
		n += len(e.Line()) + 1
	}
	return n
}

// withChecksum returns an entry whose line has a checksum, unless [Options].NoChecksum is set
// or the line would become too long.
func (st *Store) withChecksum(e transcript.Entry) transcript.Entry {
	if st.opts.NoChecksum {
		return e.WithLine(e.Line())
	}
	if with := e.WithChecksum(); len(with.Line()) <= transcript.DefaultMaxLine {
		return with
	}
	return e.WithLine(e.Line())
}

// lineOf returns the line of an entry for the driver.
func lineOf(e transcript.Entry) driver.Line {
	return driver.Line{ID: e.ID, Type: e.Type(), Data: e.Line()}
}

// holds reports whether one of the entries is of one of the types.
func holds(entries []transcript.Entry, types ...string) bool {
	return slices.ContainsFunc(entries, func(e transcript.Entry) bool { return slices.Contains(types, e.Type()) })
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
	case s.opts.ReadOnly:
		return ErrReadOnly
	case s.version == 0 && s.row.Key == "":
		return errNoHeader
	case s.version > transcript.Version:
		return fmt.Errorf("format version %d, this program knows %d: nothing was written; use a newer program: %w",
			s.version, transcript.Version, ErrNewerFormat)
	}
	return nil
}

// appended records an append of this process that has succeeded. It reports
// whether the index should have a row now.
func (s *state) appended(res driver.Result, group []*job) (put bool) {
	if res.Start == res.End { // all of them were repeats, or decided to write nothing
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := fresh{Result: res}
	for _, j := range group {
		if j.done.hit || j.foreign {
			continue
		}
		if j.idem != "" {
			s.keys.put(j.idem, res.Start)
		}
		for i, e := range j.entries {
			j.entries[i] = e.WithLine(nil) // the fold does not need it
		}
		if len(group) == 1 {
			own.entries = j.entries
		} else {
			own.entries = append(own.entries, j.entries...)
		}
	}
	if len(own.entries) > 0 {
		s.fresh = append(s.fresh, own)
		if s.known == res.Start {
			s.known = res.End
		}
	}
	s.wrote = max(s.wrote, res.End)
	s.wroteAt = group[0].at
	s.rowDue.Store(true)
	return s.wroteAt.Sub(s.rowAt) >= rowAge
}

// prepared returns entries as the filters let them be written.
func (s *Session) prepared(ctx context.Context, entries []transcript.Entry) ([]transcript.Entry, error) {
	st := s.store
	if st.owner == "" && len(st.opts.Filters) == 0 {
		return entries, nil
	}
	if holds(entries, "session") { // filters would mistake it for the header of a new session
		return nil, errors.New("a header begins a session and is not appended: nothing was written")
	}
	return st.filterWrite(ctx, s.ref, entries)
}
