package sessiontest_test

import (
	"context"
	"errors"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
)

var adoptMistakes = []mistake{
	{"gives gens of its own", "adopt/new", func(b *broken) {
		b.adopt = func(ctx context.Context, row driver.Row, header driver.Line) error {
			_, err := b.create(ctx, row.KeyRef(), func(int64) (driver.Row, driver.Line) { return row, header })
			return err
		}
	}},
	{"leaves the gen of what is there", "adopt/again", func(b *broken) {
		adopt := b.adopt
		b.adopt = func(ctx context.Context, row driver.Row, header driver.Line) error {
			if _, err := b.Get(ctx, row.Ref()); err == nil {
				return nil
			}
			return adopt(ctx, row, header)
		}
	}},
	{"gives gens below an adopted one", "adopt/next", func(b *broken) {
		adopt := b.adopt
		b.adopt = func(ctx context.Context, row driver.Row, header driver.Line) error {
			row.Gen = 1
			if err := adopt(ctx, row, header); !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		}
	}},
	{"takes what is in use", "adopt/exists", func(b *broken) {
		adopt := b.adopt
		b.adopt = func(ctx context.Context, row driver.Row, header driver.Line) error {
			if err := adopt(ctx, row, header); !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		}
	}},
	{"ignores archives", "adopt/archived", func(b *broken) {
		adopt := b.adopt
		b.adopt = func(ctx context.Context, row driver.Row, header driver.Line) error {
			if err := adopt(ctx, row, header); !errors.Is(err, driver.ErrArchived) {
				return err
			}
			return nil
		}
	}},
}
