package filedriver

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// logsOf returns logs over n transcripts, and a function that opens one.
func logsOf(t *testing.T, n, limit int, policy filelog.SyncPolicy, observe ...func(context.Context, filelog.Event)) (*logs, func(i int) *openLog) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, root.Close()) })
	for i := range n {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), []byte("{}\n"), 0o600))
	}
	d := &Driver{log: slog.New(slog.DiscardHandler), closing: t.Context(), marks: map[driver.Ref]mark{}}
	d.opts.Sync = policy
	ls := newLogs(d, limit)
	return ls, func(i int) *openLog {
		name := fmt.Sprint(i)
		o, err := ls.acquire(driver.Ref{Agent: "a", ID: name}, func() (*filelog.Log, error) {
			opts := &filelog.Options{Sync: policy}
			for _, f := range observe {
				opts.Observe = f
			}
			return filelog.Open(root, name, opts)
		})
		require.NoError(t, err)
		return o
	}
}

// Evictions at the same time take different logs, so that the limit is kept.
func TestEvictAtTheSameTime(t *testing.T) {
	const n, limit = 160, 4
	ls, open := logsOf(t, n, limit, filelog.SyncInterval(1e12))
	var all sync.WaitGroup
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for range 32 {
		all.Go(func() {
			for i := range next {
				o := open(i)
				_, _, err := o.log.Append(t.Context(), func(int64) ([]byte, error) { return []byte("{}\n"), nil })
				require.NoError(t, ls.release(o, err))
			}
		})
	}
	all.Wait()
	require.LessOrEqual(t, len(ls.open), limit)
	require.NoError(t, ls.close())
}

// A log that was used while its eviction flushed it stays open, even if a second
// eviction has chosen it since: it needs a sync again.
func TestEvictSeesAUseDuringItsFlush(t *testing.T) {
	var (
		ls   *logs
		open func(int) *openLog
		once sync.Once
	)
	chosen, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	second := false // an eviction beside the first, guarded by ls.mu
	flushed := func(context.Context, filelog.Event) {
		once.Do(func() {
			o := open(0)
			_, _, err := o.log.Append(context.Background(), func(int64) ([]byte, error) { return []byte("{}\n"), nil })
			ls.mu.Lock()
			second = true
			ls.mu.Unlock()
			go func() { ended <- ls.release(o, err) }()
			<-chosen
		})
	}
	ls, open = logsOf(t, 1, 0, filelog.SyncInterval(1e12), flushed)
	ls.failed = func(l *filelog.Log) *driver.NotDurableError {
		if ls.mu.TryLock() { // before its flush
			waits := second
			second = false
			ls.mu.Unlock()
			if waits {
				close(chosen)
				<-goOn
			}
		}
		return l.Failed()
	}
	o := open(0)
	_, _, err := o.log.Append(t.Context(), func(int64) ([]byte, error) { return []byte("{}\n"), nil })
	require.NoError(t, ls.release(o, err))
	require.Same(t, o, ls.open[o.ref])
	close(goOn)
	require.NoError(t, <-ended)
	require.Nil(t, ls.open[o.ref])
}

// A log is closed once when the driver is closed while a release evicts it.
func TestCloseDuringEviction(t *testing.T) {
	ls, open := logsOf(t, 2, 0, filelog.SyncAlways)
	var warnings bytes.Buffer
	ls.d.log = slog.New(slog.NewTextHandler(&warnings, nil))
	closed := make(chan error, 1)
	ls.failed = func(l *filelog.Log) *driver.NotDurableError {
		if ls.open != nil { // it is chosen, and the lock is free
			closed <- ls.close()
		}
		return l.Failed()
	}
	require.NoError(t, ls.release(open(0), nil))
	require.NoError(t, <-closed)
	require.NotContains(t, warnings.String(), "closing a transcript failed")
}

// A closed driver holds no lock of a writer any more.
func TestCloseReleasesLocks(t *testing.T) {
	d := openMade(t, nil, "a")
	lock := d.agents["main"].idx.lock
	require.NoError(t, d.Close())
	require.ErrorIs(t, lock.TryLock(indexByte), filelog.ErrClosed)
}

// A log that a call used when a function of its caller panicked can be evicted.
func TestUseEndsWithAPanic(t *testing.T) {
	d := openMade(t, nil, "a")
	ref := driver.Ref{Agent: "main", ID: "a"}
	panics := func() { panic("of the caller") }
	require.Panics(t, func() {
		_, _ = d.Append(t.Context(), ref, nil, driver.Anywhere, func(context.Context, driver.Cursor) ([]driver.Line, error) {
			panics()
			return nil, nil
		})
	})
	require.Panics(t, func() {
		_ = d.Rewrite(t.Context(), ref, func(iter.Seq2[transcript.Record, error], func([]byte) error) error {
			panics()
			return nil
		})
	})
	require.Zero(t, d.logs.open[ref].users)
}
