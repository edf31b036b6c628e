package sessiontest

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A broken driver is a sound one with some methods replaced.
type broken struct {
	driver.Driver
	// shared is common to the drivers on one storage.
	shared *shared

	append     func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error)
	scan       func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error]
	load       func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error)
	create     func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error)
	setCurrent func(ctx context.Context, ref driver.Ref, gen int64, line func(int64) driver.Line) (driver.Row, error)
	delete     func(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error
	get        func(ctx context.Context, ref driver.Ref) (driver.Row, error)
	put        func(ctx context.Context, row driver.Row) error
	list       func(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error)
	lockTurn   func(ctx context.Context, ref driver.Ref, wait bool) (func() error, error)
	flush      func(ctx context.Context, ref driver.Ref, cure bool) error
	watch      func(ref driver.Ref, changed func(driver.Ref, error)) (func(), error)
	archive    func(ctx context.Context, ref driver.Ref, at driver.Cursor) error
	restore    func(ctx context.Context, ref driver.Ref) error
	rewrite    func(ctx context.Context, ref driver.Ref, change changeFunc) error
	close      func() error
}

type headerFunc = func(gen int64) (driver.Row, driver.Line)

// shared is scratch space for what is wrong with a driver.
type shared struct {
	mu    sync.Mutex
	n     int
	refs  map[driver.Ref]bool
	names map[string]bool
	lines map[driver.Ref][]driver.Line
	rows  map[driver.Ref]driver.Row
	turn  chan struct{}

	busy     atomic.Pointer[broken] // the last to append
	deleting atomic.Bool

	rewritten atomic.Bool
}

func newShared() *shared {
	return &shared{
		refs:  map[driver.Ref]bool{},
		names: map[string]bool{},
		lines: map[driver.Ref][]driver.Line{},
		rows:  map[driver.Ref]driver.Row{},
		turn:  make(chan struct{}, 1),
	}
}

// newBroken returns d with all its methods; a mistake replaces some.
func newBroken(d driver.Driver, s *shared) *broken {
	watcher, _ := d.(driver.Watcher)
	rewriter, _ := d.(driver.Rewriter)
	return &broken{
		Driver: d, shared: s, watch: watcher.Watch,
		rewrite: rewriter.Rewrite,
		append:  d.Append, scan: d.Scan, load: d.Load, create: d.Create,
		setCurrent: d.SetCurrent, delete: d.Delete, get: d.Get, put: d.Put,
		list: d.List, lockTurn: d.LockTurn, flush: d.Flush, close: d.Close,
		archive: rewriter.Archive, restore: rewriter.Restore,
	}
}

func (b *broken) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	return b.append(ctx, ref, lines, at, decide)
}

func (b *broken) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return b.scan(ctx, ref, from, dir, keep)
}

func (b *broken) Load(ctx context.Context, key driver.KeyRef, header func(gen int64) (driver.Row, driver.Line)) (driver.Row, error) {
	return b.load(ctx, key, header)
}

func (b *broken) Create(ctx context.Context, key driver.KeyRef, header func(gen int64) (driver.Row, driver.Line), more ...driver.Line) (driver.Row, error) {
	return b.create(ctx, key, header, more...)
}

func (b *broken) SetCurrent(ctx context.Context, ref driver.Ref, gen int64, line func(gen int64) driver.Line) (driver.Row, error) {
	return b.setCurrent(ctx, ref, gen, line)
}

func (b *broken) Delete(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
	return b.delete(ctx, at, refs...)
}

func (b *broken) Get(ctx context.Context, ref driver.Ref) (driver.Row, error) { return b.get(ctx, ref) }

func (b *broken) Put(ctx context.Context, row driver.Row) error { return b.put(ctx, row) }

func (b *broken) List(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
	return b.list(ctx, agent, after, n)
}

func (b *broken) LockTurn(ctx context.Context, ref driver.Ref, wait bool) (func() error, error) {
	return b.lockTurn(ctx, ref, wait)
}

func (b *broken) Flush(ctx context.Context, ref driver.Ref, cure bool) error {
	return b.flush(ctx, ref, cure)
}

func (b *broken) Watch(ref driver.Ref, changed func(driver.Ref, error)) (func(), error) {
	return b.watch(ref, changed)
}

func (b *broken) Rewrite(ctx context.Context, ref driver.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	return b.rewrite(ctx, ref, change)
}

func (b *broken) Close() error { return b.close() }

// records returns all of a session.
func (b *broken) records(ref driver.Ref) []transcript.Record {
	var recs []transcript.Record
	for rec, err := range b.Driver.Scan(context.Background(), ref, 0, driver.Forward, nil) {
		if err != nil {
			return nil
		}
		recs = append(recs, rec)
	}
	return recs
}

// rewritten passes a session's records from Scan through f.
func (b *broken) rewritten(f func(recs []transcript.Record) []transcript.Record) {
	b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
		return func(yield func(transcript.Record, error) bool) {
			var recs []transcript.Record
			for rec, err := range b.Driver.Scan(ctx, ref, from, dir, keep) {
				if err != nil {
					yield(rec, err)
					return
				}
				recs = append(recs, rec)
			}
			for _, rec := range f(recs) {
				if !yield(rec, nil) {
					return
				}
			}
		}
	}
}
