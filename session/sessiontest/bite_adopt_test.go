package sessiontest

import (
	"context"
	"errors"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
)

// given makes Create call header with a row whose GivenGen change has changed.
func (b *broken) given(change func(gen int64) int64) {
	create := b.create
	b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
		return create(ctx, key, func(gen int64) (driver.Row, driver.Line) {
			row, line := header(gen)
			row.GivenGen = change(row.GivenGen)
			return row, line
		}, more...)
	}
}

var adoptMistakes = []mistake{
	{"gives gens of its own", "create/given", func(b *broken) { b.given(func(int64) int64 { return 0 }) }},
	{"leaves the gen of what is there", "current/raise", func(b *broken) {
		b.setCurrent = func(ctx context.Context, ref driver.Ref, gen int64, line func(int64) driver.Line) (driver.Row, error) {
			if gen > 0 {
				return b.Driver.Get(ctx, ref)
			}
			return b.Driver.SetCurrent(ctx, ref, gen, line)
		}
	}},
	{"gives gens below a given one", "create/given", func(b *broken) { b.given(func(gen int64) int64 { return gen / 20 }) }},
	{"takes what is in use", "create/given", func(b *broken) {
		create := b.create
		b.create = func(ctx context.Context, key driver.KeyRef, header headerFunc, more ...driver.Line) (driver.Row, error) {
			row, err := create(ctx, key, header, more...)
			if errors.Is(err, fs.ErrExist) {
				err = nil
			}
			return row, err
		}
	}},
}
