package filelog

import (
	"bufio"
	"context"
	"io"

	"github.com/convolog/convolog/session/driver"
)

// Replace gives the file's name to a new file with the lines that write writes.
// It is for taking words out of a log, which a Log otherwise never changes. Its
// first line must differ from the old file's, so that no Log takes it for a
// copy of the old file.
//
// Write is called under the append lock, after an unterminated tail was ended and
// unsynced lines were synced, with the size of the file; it may read the Log and
// must not append to it. If it fails, its error is returned as it is, and nothing
// has changed.
//
// When the error is nil, the new lines are on stable storage under the name, and the old
// ones are in no file of the folder. A [*driver.NotDurableError] without Refused means
// that the new file has the name, but may lose it to the old one in a power cut. After
// any other error the old lines are unchanged; one with Refused means that a sync of them
// has failed, and Replace may be called again after [Log.Recover]. In the first two cases
// this Log and all others of the old file fail with [ErrReplaced] from now on.
//
// The context is honoured until write is called.
func (l *Log) Replace(ctx context.Context, write func(to io.Writer, size int64) error) error {
	const op = "replace"
	if err := l.begin(op); err != nil {
		return err
	}
	defer l.ops.Done()
	_, err := l.locked(ctx, op, func() (written, error) {
		w, err := l.settle(ctx, op)
		if err != nil {
			return w, err
		}
		if l.opts.Sync != SyncNever {
			if failed := l.sync(ctx, l.owed()); failed != nil {
				return w, refusal(failed)
			}
		}
		var failed error
		t, err := l.succeed(func(t *tempFile) error {
			buf := bufio.NewWriterSize(t, copyChunk)
			if failed = write(buf, w.lines.end); failed != nil {
				return failed
			}
			return buf.Flush()
		}, false)
		switch {
		case t != nil && err != nil:
			now, _ := t.Lookup() // for the error alone
			err = &driver.NotDurableError{Path: l.path, End: now.size, Err: cause(err)}
		case failed != nil:
			err = failed
		case err != nil:
			err = l.fail(op, err)
		}
		if t != nil {
			_ = t.Close() // it was synced, and its lock ends
		}
		return w, err
	})
	return err
}
