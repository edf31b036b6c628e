package memdriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/convolog/convolog/session/driver"
)

// Options makes writes of a driver fail. With nil and the zero value nothing
// fails.
type Options struct {
	// Fail, if not nil, is called before each write, with the name of the
	// method, such as "Append", and the session. If it returns an error,
	// nothing is written and the method returns the error, wrapped. It is
	// called after conditions were checked, where a disk would fail. It may
	// be called by several goroutines and must not call the driver.
	Fail func(op string, ref driver.Ref) error
}

// memory is a driver.Driver in memory.
type memory struct {
	opts    Options
	storage *storage
	closing chan struct{}                // closed by Close
	bodies  map[driver.Ref]driver.Cursor // of the sessions whose lines were used; storage.mu guards it
	// waiting counts the calls that wait for a turn lock. Add is called with
	// storage.mu held and the driver open.
	waiting sync.WaitGroup
}

var _ driver.Driver = (*memory)(nil)

// New returns a driver on a new, empty storage. It is a
// [driver.Rewriter] and a [driver.Watcher]. Nil options mean the defaults.
//
// Arguments are copied. The lines that Scan yields share their bytes; do not
// modify them. The functions passed to Load, Create and SetCurrent must
// not call the driver.
func New(opts *Options) driver.Driver {
	d := &memory{storage: newStorage(), closing: make(chan struct{}), bodies: map[driver.Ref]driver.Cursor{}}
	if opts != nil {
		d.opts = *opts
	}
	return d
}

// Reopen returns another driver on the storage of d, which [New] or Reopen has made,
// with the options of d. It does not matter whether d is closed: both may be used at
// once, as two processes use a store. Reopen panics for any other driver.
func Reopen(d driver.Driver) driver.Driver {
	m := d.(*memory)
	return &memory{opts: m.opts, storage: m.storage, closing: make(chan struct{}), bodies: map[driver.Ref]driver.Cursor{}}
}

// Close implements [driver.Driver]. Calls that wait for a turn lock give up
// with [driver.ErrClosed], and so does a loop over a Scan, which Close does
// not wait for. A turn lock that is held stays held until it is released. A
// second Close gives ErrClosed.
func (d *memory) Close() error {
	d.storage.mu.Lock()
	if d.closed() {
		d.storage.mu.Unlock()
		return fmt.Errorf("memdriver: Close: %w", driver.ErrClosed)
	}
	close(d.closing)
	d.storage.endWatches(d)
	d.storage.mu.Unlock()
	d.waiting.Wait()
	return nil
}

func (d *memory) closed() bool {
	select {
	case <-d.closing:
		return true
	default:
		return false
	}
}

// ready returns an error if the driver is closed or ctx is done.
func (d *memory) ready(ctx context.Context) error {
	if d.closed() {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// begin locks the storage for a call. If the error is nil the caller unlocks.
func (d *memory) begin(ctx context.Context) error {
	d.storage.mu.Lock()
	if err := d.ready(ctx); err != nil {
		d.storage.mu.Unlock()
		return err
	}
	return nil
}

// beginKey locks the storage for a call on a key. If the error is nil the
// caller unlocks.
func (d *memory) beginKey(ctx context.Context, op string, key driver.KeyRef) error {
	err := d.begin(ctx)
	if err == nil {
		if err = driver.CheckKey(key); err != nil {
			d.storage.mu.Unlock()
		}
	}
	return failKey(op, key, err)
}

// find locks the storage for a call on a session. If the error is nil the
// caller unlocks.
func (d *memory) find(ctx context.Context, op string, ref driver.Ref) (*session, error) {
	if err := d.begin(ctx); err != nil {
		return nil, fail(op, ref, err)
	}
	s, err := d.storage.session(ref)
	if err = cmp.Or(driver.CheckRef(ref), err); err != nil {
		d.storage.mu.Unlock()
		return nil, fail(op, ref, err)
	}
	return s, nil
}

// findLines is find for a call that uses the lines of a session up to a cursor. After a
// Rewrite, or if the session was made anew, it fails once, and with each old cursor.
func (d *memory) findLines(ctx context.Context, op string, ref driver.Ref, at driver.Cursor) (*session, error) {
	s, err := d.find(ctx, op, ref)
	if err != nil {
		return nil, err
	}
	was := d.bodies[ref]
	d.bodies[ref] = s.body
	if was != 0 && was != s.body || at > 0 && at&^maxLines != s.body {
		d.storage.mu.Unlock()
		return nil, fail(op, ref, driver.ErrReplaced)
	}
	return s, nil
}

// writable asks Options.Fail whether a write may proceed.
func (d *memory) writable(op string, ref driver.Ref) error {
	if d.opts.Fail == nil {
		return nil
	}
	return d.opts.Fail(op, ref)
}

// Append implements [driver.Driver].
func (d *memory) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	const op = "Append"
	s, err := d.alone(ctx, op, ref, func(ctx context.Context, op string, ref driver.Ref) (*session, error) {
		return d.findLines(ctx, op, ref, at)
	})
	if err != nil {
		return driver.Result{}, err
	}
	defer d.storage.mu.Unlock()
	elsewhere := at >= 0 && at != s.end()
	switch err = s.live(); {
	case err != nil:
	case decide != nil && (elsewhere || len(lines) == 0):
		lines, err = d.decided(ctx, s, decide)
	case elsewhere && len(lines) > 0:
		err = driver.ErrConflict
	}
	var r driver.Result
	if err = cmp.Or(err, d.writable(op, ref)); err == nil {
		r, err = s.append(lines)
		d.storage.tell(ref)
	}
	return r, fail(op, ref, err)
}

// decided returns the lines that decide returns, while nothing else can append to the
// session or remove it. The storage is locked.
func (d *memory) decided(ctx context.Context, s *session, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) ([]driver.Line, error) {
	done, end := make(chan struct{}), s.end()
	s.deciding = done
	d.storage.mu.Unlock() // decide may scan
	defer func() {
		d.storage.mu.Lock()
		s.deciding = nil
		close(done)
	}()
	return decide(ctx, end)
}

// alone is a find for a call that changes the lines of a session: it waits until no
// append is deciding.
func (d *memory) alone(ctx context.Context, op string, ref driver.Ref, find func(context.Context, string, driver.Ref) (*session, error)) (*session, error) {
	for {
		s, err := find(ctx, op, ref)
		if err != nil || s.deciding == nil {
			return s, err
		}
		decided := s.deciding
		d.storage.mu.Unlock()
		select {
		case <-decided:
		case <-d.closing:
		case <-ctx.Done():
		}
	}
}

// change calls f with a session while no append is deciding, and adds the call and the
// session to its error.
func (d *memory) change(ctx context.Context, op string, ref driver.Ref, f func(s *session) error) error {
	s, err := d.alone(ctx, op, ref, d.find)
	if err != nil {
		return err
	}
	defer d.storage.mu.Unlock()
	return fail(op, ref, f(s))
}

// Flush implements [driver.Driver]. The memory is the only storage that there
// is.
func (d *memory) Flush(ctx context.Context, ref driver.Ref, _ bool) error {
	_, err := d.find(ctx, "Flush", ref)
	if err != nil {
		return err
	}
	d.storage.mu.Unlock()
	return nil
}

// Load implements [driver.Driver].
func (d *memory) Load(ctx context.Context, key driver.KeyRef, header func(gen int64) (driver.Row, driver.Line)) (driver.Row, error) {
	const op = "Load"
	if err := d.beginKey(ctx, op, key); err != nil {
		return driver.Row{}, err
	}
	defer d.storage.mu.Unlock()
	if s := d.storage.current(key); s != nil {
		return s.copyRow(), nil
	}
	if header == nil {
		return driver.Row{}, failKey(op, key, errNoSession)
	}
	return d.create(op, key, header)
}

// Create implements [driver.Driver].
func (d *memory) Create(ctx context.Context, key driver.KeyRef, header func(gen int64) (driver.Row, driver.Line), more ...driver.Line) (driver.Row, error) {
	const op = "Create"
	if err := d.beginKey(ctx, op, key); err != nil {
		return driver.Row{}, err
	}
	defer d.storage.mu.Unlock()
	return d.create(op, key, header, more...)
}

// create makes a session. The storage is locked.
func (d *memory) create(op string, key driver.KeyRef, header func(gen int64) (driver.Row, driver.Line), more ...driver.Line) (driver.Row, error) {
	gen := d.storage.nextGen(key)
	row, line := header(gen)
	switch {
	case row.Aside:
		gen, row.Aside = 0, false
	case row.GivenGen > 0:
		gen, row.GivenGen = row.GivenGen, 0
		if err := d.storage.free(key, gen, row.ID); err != nil {
			return driver.Row{}, fail(op, driver.Ref{Agent: key.Agent, ID: row.ID}, err)
		}
	}
	row.Agent, row.Owner, row.Key, row.Gen = key.Agent, key.Owner, key.Key, gen
	if rev := row.BaseRev; rev != nil {
		row.BaseRev = nil
		base := d.storage.sessions[driver.Ref{Agent: key.Agent, ID: row.Base.Session}]
		if base == nil || base.row.Rev != *rev {
			return driver.Row{}, fail(op, row.Ref(), driver.ErrReplaced)
		}
	}
	s, err := d.storage.prepare(row, append([]driver.Line{line}, more...))
	if err == nil {
		err = d.writable(op, row.Ref())
	}
	if err != nil {
		return driver.Row{}, fail(op, row.Ref(), err)
	}
	d.add(s)
	return s.copyRow(), nil
}

// add stores a new session. This driver may know its ID from a deleted one.
func (d *memory) add(s *session) {
	d.storage.add(s)
	delete(d.bodies, s.row.Ref())
}

// SetCurrent implements [driver.Driver].
func (d *memory) SetCurrent(ctx context.Context, ref driver.Ref, gen int64, line func(gen int64) driver.Line) (row driver.Row, err error) {
	const op = "SetCurrent"
	err = d.change(ctx, op, ref, func(s *session) error {
		err := s.live()
		switch {
		case err != nil:
		case gen > 0:
			if err = cmp.Or(d.storage.free(s.row.KeyRef(), gen, ref.ID), d.writable(op, ref)); err == nil {
				d.storage.setGen(s, max(s.row.Gen, gen))
				d.storage.tell(ref)
			}
		case d.storage.current(s.row.KeyRef()) != s:
			gen := d.storage.nextGen(s.row.KeyRef())
			l := line(gen)
			if err = d.writable(op, ref); err == nil {
				_, err = s.append([]driver.Line{l})
			}
			if err == nil {
				d.storage.setGen(s, gen)
				d.storage.tell(ref)
			}
		}
		if err == nil {
			row = s.copyRow()
		}
		return err
	})
	return row, err
}

// Delete implements [driver.Driver]. The turn lock ends with its session: waiting
// calls get an error that matches [fs.ErrNotExist].
func (d *memory) Delete(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
	return errors.Join(driver.Once(refs, func(ref driver.Ref) error { return d.delete(ctx, ref, at) })...)
}

func (d *memory) delete(ctx context.Context, ref driver.Ref, at driver.Cursor) error {
	return d.change(ctx, "Delete", ref, func(s *session) (err error) {
		if at >= 0 {
			err = d.endsAt(s, at)
		}
		if err = cmp.Or(err, d.writable("Delete", ref)); err == nil {
			d.storage.remove(s)
		}
		return err
	})
}

// Get implements [driver.Driver].
func (d *memory) Get(ctx context.Context, ref driver.Ref) (driver.Row, error) {
	s, err := d.find(ctx, "Get", ref)
	if err != nil {
		return driver.Row{}, err
	}
	defer d.storage.mu.Unlock()
	return s.copyRow(), nil
}

// Put implements [driver.Driver].
func (d *memory) Put(ctx context.Context, row driver.Row) error {
	const op = "Put"
	s, err := d.find(ctx, op, row.Ref())
	if err != nil {
		return err
	}
	defer d.storage.mu.Unlock()
	err = s.live()
	if err == nil {
		err = d.writable(op, row.Ref())
	}
	if err != nil {
		return fail(op, row.Ref(), err)
	}
	if row.Rev < s.row.Rev {
		return nil // it was made of lines that were replaced
	}
	row.Owner, row.Key, row.Gen, row.Archived = s.row.Owner, s.row.Key, s.row.Gen, false
	row.Labels = slices.Clone(row.Labels)
	s.row = row
	return nil
}

// List implements [driver.Driver]. An agent without sessions has an empty
// list.
func (d *memory) List(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
	if err := d.begin(ctx); err != nil {
		return nil, failOn("List", err)
	}
	defer d.storage.mu.Unlock()
	if agent == "" {
		return d.storage.agents(), nil
	}
	if err := driver.CheckAgent(agent); err != nil {
		return nil, failOn("List", err)
	}
	return d.storage.rows(agent, after, n), nil
}

// fail adds the call and the session to an error. Nil stays nil.
func fail(op string, ref driver.Ref, err error) error {
	if err == nil || misnamed(err) {
		return failOn(op, err)
	}
	return fmt.Errorf("memdriver: %s: session %q of agent %q: %w", op, ref.ID, ref.Agent, err)
}

func failKey(op string, key driver.KeyRef, err error) error {
	if err == nil || misnamed(err) {
		return failOn(op, err)
	}
	return fmt.Errorf("memdriver: %s: key %q of agent %q: %w", op, key.Key, key.Agent, err)
}

// failOn is fail for an error that names its subject itself.
func failOn(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("memdriver: %s: %w", op, err)
}

// misnamed reports whether err quotes the name that is wrong.
func misnamed(err error) bool {
	_, ok := errors.AsType[*driver.NameError](err)
	return ok
}
