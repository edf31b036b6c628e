package filedriver

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Once another process has archived, replaced or deleted a session, a call that
// vouches for its lines first reports that their sync had failed: the other process
// may not have seen them. The next call is about the present state.
func TestFailedLogOfAnArchivedSession(t *testing.T) {
	t.Parallel()
	header := func(gen int64, rev int) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "a", Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: gen, Rev: rev}}
		return driver.Row{ID: "a", Key: "k"}, driver.Line{ID: "a", Data: e.Line()}
	}
	ref := driver.Ref{Agent: "main", ID: "a"}
	archive := func(d *Driver) error { return d.Archive(t.Context(), ref, driver.Anywhere) }
	for name, test := range map[string]struct {
		do    func(d *Driver) error
		first error // besides the failure
		next  error
	}{
		"archive": {archive, driver.ErrArchived, nil},
		"erase": {func(d *Driver) error {
			return d.Rewrite(t.Context(), ref, func(_ iter.Seq2[transcript.Record, error], write func([]byte) error) error {
				_, line := header(1, 1)
				return write(line.Data)
			})
		}, driver.ErrReplaced, nil},
		"delete":              {func(d *Driver) error { return d.Delete(t.Context(), driver.Anywhere, ref) }, fs.ErrNotExist, fs.ErrNotExist},
		"archive and restore": {func(d *Driver) error { return errors.Join(archive(d), d.Restore(t.Context(), ref)) }, driver.ErrReplaced, nil},
	} {
		for _, cure := range []bool{false, true} {
			t.Run(fmt.Sprintf("Flush after %s, cure %v", name, cure), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				d, err := Open(dir, &Options{Sync: filelog.SyncInterval(1e12)})
				require.NoError(t, err)
				other, err := Open(dir, nil)
				require.NoError(t, err)
				_, err = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(gen int64) (driver.Row, driver.Line) { return header(gen, 0) })
				require.NoError(t, err)
				require.NoError(t, d.Flush(t.Context(), ref, false)) // opens the log
				failure := &driver.NotDurableError{Err: errors.ErrUnsupported}
				failed := d.logs.open[ref].log
				d.logs.failed = func(l *filelog.Log) *driver.NotDurableError {
					if l == failed {
						return failure
					}
					return l.Failed()
				}
				require.NoError(t, test.do(other))
				err = d.Flush(t.Context(), ref, cure)
				require.ErrorIs(t, err, failure)
				require.ErrorIs(t, err, test.first)
				require.ErrorIs(t, d.Flush(t.Context(), ref, cure), test.next)
				require.NoError(t, errors.Join(d.Close(), other.Close()))
			})
		}
	}
}

// An append to a session that was archived by another process asks its log
// whether a sync of its lines had failed.
func TestAppendAsksTheLogOfAnArchivedSession(t *testing.T) {
	t.Parallel()
	dir, ref := t.TempDir(), driver.Ref{Agent: "main", ID: "a"}
	d, err := Open(dir, &Options{Sync: filelog.SyncInterval(1e12)})
	require.NoError(t, err)
	other, err := Open(dir, nil)
	require.NoError(t, err)
	line := driver.Line{ID: "a", Data: []byte(`{"type":"session","id":"a","key":"k","gen":1}`)}
	_, err = d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(int64) (driver.Row, driver.Line) { return driver.Row{ID: "a"}, line })
	require.NoError(t, err)
	require.NoError(t, d.Flush(t.Context(), ref, false)) // opens the log
	failure := &driver.NotDurableError{Err: errors.ErrUnsupported}
	d.logs.failed = func(*filelog.Log) *driver.NotDurableError { return failure }
	require.NoError(t, other.Archive(t.Context(), ref, driver.Anywhere))
	_, err = d.Append(t.Context(), ref, []driver.Line{line}, driver.Anywhere, nil)
	require.ErrorIs(t, err, driver.ErrArchived)
	require.ErrorIs(t, err, failure)
	require.NoError(t, d.Flush(t.Context(), ref, true))
	require.NoError(t, errors.Join(d.Close(), other.Close()))
}
