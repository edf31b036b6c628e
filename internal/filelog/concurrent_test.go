package filelog_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
)

// checkBatches checks that content holds, for each of writers, the batches 0 to
// n-1 in order, each of three lines next to each other, and nothing else but
// the first line.
func checkBatches(t *testing.T, content string, writers, n int) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(content, "\n"), "\n")[1:]
	if len(lines) != writers*n*3 {
		t.Errorf("%d lines, want %d", len(lines), writers*n*3)
	}
	next := make(map[string]int)
	for i := 0; i+2 < len(lines); i += 3 {
		w, _, _ := strings.Cut(lines[i], " ")
		require.Equal(t, strings.TrimSuffix(batch(w, next[w]), "\n"), strings.Join(lines[i:i+3], "\n"))
		next[w]++
	}
}

func batch(writer string, i int) string {
	pad := strings.Repeat("x", i*37%500)
	return fmt.Sprintf("%s %d a%s\n%s %d b\n%s %d c%s\n", writer, i, pad, writer, i, writer, i, pad)
}

func TestGoroutines(t *testing.T) {
	const goroutines, n = 16, 40
	root, _ := folder(t)
	shared := create(t, root, "first\n", nil)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			l := shared
			if g%4 == 0 { // some use their own Log
				var err error
				if l, err = filelog.Open(root, name, &filelog.Options{Sync: filelog.SyncInterval(1e6)}); err != nil {
					t.Error(err)
					return
				}
				defer func() {
					if err := l.Close(); err != nil {
						t.Error(err)
					}
				}()
			}
			last := int64(-1)
			for i := range n {
				lines := batch(fmt.Sprint("w", g), i)
				start, end, err := l.Append(t.Context(), func(end int64) ([]byte, error) {
					last = end
					return []byte(lines), nil
				})
				if err != nil || start != last || end != start+int64(len(lines)) {
					t.Errorf("Append = %d, %d, %v; check was given %d", start, end, err, last)
					return
				}
				b := make([]byte, len(lines))
				if _, err := l.ReadAt(b, start); err != nil || string(b) != lines {
					t.Errorf("read back %q, %v", b, err)
					return
				}
				if size, err := l.Size(); size < end || err != nil {
					t.Errorf("Size = %d, %v after an append that ended at %d", size, err, end)
				}
				if err := l.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, shared.Close())
	got := content(t, root)
	checkBatches(t, got, goroutines, n)
	reopen(t, root, got)
}

// A waiter for the append lock gives up with its context, whether the holder is
// in the same Log or not.
func TestAppendWaits(t *testing.T) {
	root, _ := folder(t)
	holder := create(t, root, "first\n", never)
	other := open(t, root, never)
	held, let := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _, err := holder.Append(t.Context(), func(int64) ([]byte, error) {
			close(held)
			<-let
			return []byte("held\n"), nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	for _, l := range []*filelog.Log{holder, other} {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() {
			_, _, err := l.Append(ctx, filelog.Lines([]byte("x\n")))
			failed <- err
		}()
		go func() {
			_, err := l.Settle(ctx)
			failed <- err
		}()
		runtime.Gosched()
		cancel()
		for range 2 {
			// A call that has not begun to wait reports only the context's
			// error.
			if err := <-failed; !errors.Is(err, filelog.ErrBusy) {
				wantErr(t, err, context.Canceled)
			} else {
				wantErr(t, err, filelog.ErrBusy, context.Canceled)
			}
		}
	}
	// Close makes waiters give up too.
	failed := make(chan error)
	go func() {
		_, _, err := other.Append(t.Context(), filelog.Lines([]byte("x\n")))
		failed <- err
	}()
	require.NoError(t, other.Close())
	wantErr(t, <-failed, filelog.ErrClosed)
	close(let)
	wg.Wait()
	reopen(t, root, "first\nheld\n")
}
