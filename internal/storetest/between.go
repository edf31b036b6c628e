package storetest

import (
	"context"
	"errors"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Between is a driver that calls functions before and after methods of another one, which
// is a [driver.Rewriter] and a [driver.Watcher]. A function may be nil. If it fails, so does
// the method.
type Between struct {
	driver.Driver
	BeforeScan, BeforeAppend, AfterAppend, BeforeRewrite, BeforeDelete, BeforeCreate, AfterCreate func(session.Ref) error
	BeforeLoad, BeforeGet, BeforePut, BeforeList                                                  func(session.Ref) error
	BeforeFlush                                                                                   func(cure bool) error
}

// OpenBetween opens the store in a folder with a Between, whose functions the test sets.
func OpenBetween(t *testing.T, dir string) (*Between, *session.Store) {
	t.Helper()
	d, err := filedriver.Open(dir, nil)
	require.NoError(t, err)
	b := &Between{Driver: d}
	return b, session.OpenDriver(b, nil)
}

// Once returns a function that calls f only the first time.
func Once(f func()) func(session.Ref) error {
	due := true
	return func(session.Ref) error {
		if due {
			due = false
			f()
		}
		return nil
	}
}

func hooked(f func(session.Ref) error, ref session.Ref) error {
	if f == nil {
		return nil
	}
	return f(ref)
}

// Scan implements driver.Driver.
func (b *Between) Scan(ctx context.Context, ref session.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	if err := hooked(b.BeforeScan, ref); err != nil {
		return func(yield func(transcript.Record, error) bool) { yield(transcript.Record{}, err) }
	}
	return b.Driver.Scan(ctx, ref, from, dir, keep)
}

// Append implements driver.Driver.
func (b *Between) Append(ctx context.Context, ref session.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (res driver.Result, err error) {
	if err = hooked(b.BeforeAppend, ref); err == nil {
		if res, err = b.Driver.Append(ctx, ref, lines, at, decide); err == nil {
			err = hooked(b.AfterAppend, ref)
		}
	}
	return res, err
}

// Flush implements driver.Driver.
func (b *Between) Flush(ctx context.Context, ref session.Ref, cure bool) error {
	if b.BeforeFlush != nil {
		if err := b.BeforeFlush(cure); err != nil {
			return err
		}
	}
	return b.Driver.Flush(ctx, ref, cure)
}

// Delete implements driver.Driver.
func (b *Between) Delete(ctx context.Context, at driver.Cursor, refs ...session.Ref) error {
	if err := hooked(b.BeforeDelete, refs[0]); err != nil {
		return err
	}
	return b.Driver.Delete(ctx, at, refs...)
}

// List implements driver.Driver.
func (b *Between) List(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
	if err := hooked(b.BeforeList, session.Ref{Agent: agent}); err != nil {
		return nil, err
	}
	return b.Driver.List(ctx, agent, after, n)
}

// Get implements driver.Driver.
func (b *Between) Get(ctx context.Context, ref session.Ref) (driver.Row, error) {
	if err := hooked(b.BeforeGet, ref); err != nil {
		return driver.Row{}, err
	}
	return b.Driver.Get(ctx, ref)
}

// Put implements driver.Driver.
func (b *Between) Put(ctx context.Context, row driver.Row) error {
	if err := hooked(b.BeforePut, row.Ref()); err != nil {
		return err
	}
	return b.Driver.Put(ctx, row)
}

// Load implements driver.Driver.
func (b *Between) Load(ctx context.Context, key driver.KeyRef, header func(int64) (driver.Row, driver.Line)) (driver.Row, error) {
	if err := hooked(b.BeforeLoad, session.Ref{Agent: key.Agent}); err != nil {
		return driver.Row{}, err
	}
	return b.Driver.Load(ctx, key, header)
}

// Create implements driver.Driver.
func (b *Between) Create(ctx context.Context, key driver.KeyRef, header func(int64) (driver.Row, driver.Line), more ...driver.Line) (driver.Row, error) {
	if err := hooked(b.BeforeCreate, session.Ref{Agent: key.Agent}); err != nil {
		return driver.Row{}, err
	}
	row, err := b.Driver.Create(ctx, key, header, more...)
	return row, errors.Join(err, hooked(b.AfterCreate, row.Ref()))
}

// Rewrite implements driver.Rewriter.
func (b *Between) Rewrite(ctx context.Context, ref session.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	if err := hooked(b.BeforeRewrite, ref); err != nil {
		return err
	}
	return b.Driver.(driver.Rewriter).Rewrite(ctx, ref, change)
}

// Archive implements driver.Rewriter.
func (b *Between) Archive(ctx context.Context, ref session.Ref, at driver.Cursor) error {
	return b.Driver.(driver.Rewriter).Archive(ctx, ref, at)
}

// Restore implements driver.Rewriter.
func (b *Between) Restore(ctx context.Context, ref session.Ref) error {
	return b.Driver.(driver.Rewriter).Restore(ctx, ref)
}

// Watch implements driver.Watcher.
func (b *Between) Watch(ref session.Ref, changed func(session.Ref, error)) (stop func(), err error) {
	return b.Driver.(driver.Watcher).Watch(ref, changed)
}
