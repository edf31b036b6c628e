package sessiontest

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var archiveMistakes = []mistake{
	{"reads nothing of an archive", "archive/read", func(b *broken) {
		b.scan = func(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
			if b.isArchived(ctx, ref) {
				return func(func(transcript.Record, error) bool) {}
			}
			return b.Driver.Scan(ctx, ref, from, dir, keep)
		}
	}},
	{"restores when something is appended", "archive/write", func(b *broken) {
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			if b.isArchived(ctx, ref) {
				return driver.Result{}, b.Driver.(driver.Rewriter).Restore(ctx, ref)
			}
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
	}},
	{"has archived sessions as current ones", "archive/current", func(b *broken) {
		b.load = func(ctx context.Context, key driver.KeyRef, header headerFunc) (driver.Row, error) {
			rows, err := b.Driver.List(ctx, key.Agent, driver.Position{}, 0)
			return slices.MaxFunc(rows, func(r, s driver.Row) int { return cmp.Compare(r.Gen, s.Gen) }), err
		}
	}},
	{"restores nothing", "archive/read", func(b *broken) {
		b.restore = func(context.Context, driver.Ref) error { return nil }
	}},
	{"keeps archives", "archive/write", func(b *broken) {
		b.delete = func(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
			refs = slices.DeleteFunc(refs, func(ref driver.Ref) bool { return b.isArchived(ctx, ref) })
			return b.Driver.Delete(ctx, at, refs...)
		}
	}},
	{"does not ask", "archive/at", func(b *broken) {
		archive := b.archive
		b.archive = func(ctx context.Context, ref driver.Ref, _ driver.Cursor) error {
			return archive(ctx, ref, driver.Anywhere)
		}
	}},
	{"ignores turns", "archive/at", func(b *broken) {
		archive := b.archive
		b.archive = func(ctx context.Context, ref driver.Ref, at driver.Cursor) error {
			if err := archive(ctx, ref, at); !errors.Is(err, driver.ErrBusy) {
				return err
			}
			return nil
		}
	}},
	{"deletes whatever is there", "delete/at", func(b *broken) {
		b.delete = func(ctx context.Context, _ driver.Cursor, refs ...driver.Ref) error {
			return b.Driver.Delete(ctx, driver.Anywhere, refs...)
		}
	}},
	{"loses what is appended after Restore", "archive/concurrent", func(b *broken) {
		restore := b.restore
		b.restore = func(ctx context.Context, ref driver.Ref) error {
			b.shared.deleting.Store(true)
			return restore(ctx, ref)
		}
		b.append = func(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide decideFunc) (driver.Result, error) {
			if b.shared.deleting.Load() {
				return driver.Result{}, nil
			}
			return b.Driver.Append(ctx, ref, lines, at, decide)
		}
	}},
}

func (b *broken) isArchived(ctx context.Context, ref driver.Ref) bool {
	row, err := b.Driver.Get(ctx, ref)
	return err == nil && row.Archived
}

func (b *broken) Archive(ctx context.Context, ref driver.Ref, at driver.Cursor) error {
	return b.archive(ctx, ref, at)
}

func (b *broken) Restore(ctx context.Context, ref driver.Ref) error { return b.restore(ctx, ref) }
