package sessiontest

import (
	"context"
	"errors"

	"github.com/convolog/convolog/session/driver"
)

var watchMistakes = []mistake{
	{"says nothing about other drivers", "watch/changed", func(b *broken) {
		watch := b.watch
		b.watch = func(ref driver.Ref, changed func(driver.Ref, error)) (func(), error) {
			return watch(ref, func(ref driver.Ref, err error) {
				if b.shared.busy.Load() == b {
					changed(ref, err)
				}
			})
		}
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			b.shared.busy.Store(b)
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
	}},
	{"says nothing about a deletion", "watch/changed", func(b *broken) {
		watch := b.watch
		b.watch = func(ref driver.Ref, changed func(driver.Ref, error)) (func(), error) {
			return watch(ref, func(ref driver.Ref, err error) {
				if !b.shared.deleting.Load() {
					changed(ref, err)
				}
			})
		}
		b.delete = func(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
			b.shared.deleting.Store(true)
			return b.Driver.Delete(ctx, at, refs...)
		}
	}},
	{"goes on after stop", "watch/stop", func(b *broken) {
		watch := b.watch
		b.watch = func(ref driver.Ref, changed func(driver.Ref, error)) (func(), error) {
			_, err := watch(ref, changed)
			return func() {}, err
		}
	}},
	{"says nothing when it is closed", "watch/close", func(b *broken) {
		watch := b.watch
		b.watch = func(ref driver.Ref, changed func(driver.Ref, error)) (func(), error) {
			return watch(ref, func(ref driver.Ref, err error) {
				if !errors.Is(err, driver.ErrClosed) {
					changed(ref, err)
				}
			})
		}
	}},
}
