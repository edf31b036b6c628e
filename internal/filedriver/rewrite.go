package filedriver

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var _ driver.Rewriter = (*Driver)(nil)

// Rewrite implements [driver.Rewriter].
func (d *Driver) Rewrite(ctx context.Context, ref driver.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	return d.on(ctx, ref, func(a *agent) error {
		return a.idx.hold(ctx, func() error { return a.idx.erase(ctx, ref, change) })
	})
}

// erase replaces the lines of a session. It first writes a line in the index,
// so that any reader removes the row of the old lines.
func (x *index) erase(ctx context.Context, ref driver.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	if _, err := x.a.unarchived(x.stat(ref.ID)); err != nil {
		return err
	}
	err := x.a.use(ref, func(o *openLog) (err error) {
		if err = filelog.SyncDir(x.a.sess, "."); err == nil {
			err = x.a.removeArchive(ref.ID) // leftovers of a killed process, with words to erase
		}
		if err == nil {
			// A restore may not have synced the removal of the archive.
			if err = filelog.SyncDir(x.a.root, archiveFolder); errors.Is(err, fs.ErrNotExist) {
				err = nil
			}
		}
		if err == nil {
			err = x.announce("erase", "nothing was erased; try again", true, record{Erase: ref.ID})
		}
		if err != nil {
			return err
		}
		x.briefly(ctx, func(short context.Context) {
			err = o.log.Replace(short, func(to io.Writer, size int64) error {
				records := transcript.Scan(o.log, size, nil) // every line is ended
				err := change(records, func(line []byte) error {
					_, err := to.Write(append(slices.Clip(line), '\n'))
					return err
				})
				return cmp.Or(err, ctx.Err())
			})
		})
		return err
	})
	if err == nil {
		x.a.d.logs.drop(ref)
	}
	return errors.Join(err, x.finishErases())
}
