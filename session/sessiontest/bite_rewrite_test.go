package sessiontest

import (
	"context"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// changeFunc is the argument of a Rewrite.
type changeFunc = func(iter.Seq2[transcript.Record, error], func([]byte) error) error

var rewriteMistakes = []mistake{
	{"rewrites without the last line", "rewrite/lines", func(b *broken) {
		rewrite := b.rewrite
		b.rewrite = func(ctx context.Context, ref driver.Ref, change changeFunc) error {
			return rewrite(ctx, ref, func(recs iter.Seq2[transcript.Record, error], write func([]byte) error) error {
				var held []byte
				return change(recs, func(line []byte) (err error) {
					if held != nil {
						err = write(held)
					}
					held = append([]byte(nil), line...)
					return err
				})
			})
		}
	}},
	{"rewrites although it was refused", "rewrite/fails", func(b *broken) {
		rewrite := b.rewrite
		b.rewrite = func(ctx context.Context, ref driver.Ref, change changeFunc) (refused error) {
			err := rewrite(ctx, ref, func(recs iter.Seq2[transcript.Record, error], write func([]byte) error) error {
				if refused = change(recs, func([]byte) error { return nil }); refused == nil {
					return change(recs, write)
				}
				n := 0
				for rec, err := range recs {
					if err != nil {
						return err
					}
					e := rec.Entry
					if h, ok := e.Body.(transcript.Header); ok {
						h.Rev++
						e = transcript.Entry{ID: e.ID, Time: e.Time, Body: h}
					}
					if n++; n > 2 {
						break
					}
					if err := write(e.Line()); err != nil {
						return err
					}
				}
				return nil
			})
			if refused == nil {
				refused = err
			}
			return refused
		}
	}},
	{"lets others go on after a rewrite", "rewrite/lines", func(b *broken) {
		rewrite := b.rewrite
		b.rewrite = func(ctx context.Context, ref driver.Ref, change changeFunc) error {
			err := rewrite(ctx, ref, change)
			b.shared.rewritten.Store(true)
			return err
		}
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			r, err := b.Driver.Append(ctx, ref, lines, at, decide)
			if err != nil && b.shared.rewritten.Load() {
				r, err = b.Driver.Append(ctx, ref, lines, at, decide)
			}
			return r, err
		}
	}},
	{"takes an old row", "rewrite/lines", func(b *broken) {
		b.put = func(ctx context.Context, row driver.Row) error {
			row.Rev = 1 << 30
			return b.Driver.Put(ctx, row)
		}
	}},
	{"makes a session of any base", "create/base", func(b *broken) {
		b.create = func(ctx context.Context, key driver.KeyRef, header func(int64) (driver.Row, driver.Line), more ...driver.Line) (driver.Row, error) {
			return b.Driver.Create(ctx, key, func(gen int64) (driver.Row, driver.Line) {
				row, line := header(gen)
				row.BaseRev = nil
				return row, line
			}, more...)
		}
	}},
}
