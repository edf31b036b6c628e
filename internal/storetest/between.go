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

// Between is a driver that calls functions before and after its methods. A function may be
// nil.
type Between struct {
	*filedriver.Driver
	BeforeScan, BeforeRewrite, BeforeDelete, BeforeCreate, AfterCreate, BeforeList func(session.Ref) error
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

// Rewrite implements driver.Rewriter.
func (b *Between) Rewrite(ctx context.Context, ref session.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	if err := hooked(b.BeforeRewrite, ref); err != nil {
		return err
	}
	return b.Driver.Rewrite(ctx, ref, change)
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

// Create implements driver.Driver.
func (b *Between) Create(ctx context.Context, key driver.KeyRef, header func(int64) (driver.Row, driver.Line), more ...driver.Line) (driver.Row, error) {
	if err := hooked(b.BeforeCreate, session.Ref{Agent: key.Agent}); err != nil {
		return driver.Row{}, err
	}
	row, err := b.Driver.Create(ctx, key, header, more...)
	return row, errors.Join(err, hooked(b.AfterCreate, row.Ref()))
}
