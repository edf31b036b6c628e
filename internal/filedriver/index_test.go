package filedriver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A row that a kill left older than its transcript is made anew.
func TestStaleRow(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	create(t, d, "b", "k")
	require.NoError(t, d.Close())

	// The line of SetCurrent without a row, as after a kill between the two.
	e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: 7}}
	addLine(t, dir, `{"open":12345678}`)
	f, err := os.OpenFile(d.Path(a.Ref()), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(append(e.Line(), '\n'))
	require.NoError(t, err)
	require.NoError(t, f.Close())

	for range 2 {
		d = open(t, dir, nil)
		if row, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "k"}, nil); err != nil || row.ID != "a" || row.Gen != 7 {
			t.Errorf("Current = %+v, %v", row, err)
		}
		require.NoError(t, d.Close())
	}
	d = open(t, dir, nil)
	require.EqualValues(t, 8, create(t, d, "d", "k").Gen)
}

// No gen is given twice, wherever a kill has cut a SetCurrent short.
func TestGenIsGivenOnce(t *testing.T) {
	for what, line := range map[string]bool{"before its line": false, "after its line": true} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir, nil)
			a := create(t, d, "a", "k")
			create(t, d, "b", "k")
			other := open(t, dir, nil)
			addLine(t, dir, `{"change":"a"}`)
			if line {
				e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: 3}}
				appendRaw(t, d.Path(a.Ref()), e.Line())
			}
			given := create(t, other, "new", "k").Gen
			require.Equal(t, line, given == 4, given)
			for range 2 {
				require.Equal(t, "new", load(t, d, "k", ""))
				loseIndex(t, dir)
			}
			require.NoError(t, errors.Join(other.Close(), d.Close()))
		})
	}
}

// A row that covers the line of a SetCurrent without a row has its gen, so the index
// agrees with the transcripts.
func TestRowCoversACurrentLine(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	a.Size = int64(add(t, d, a.Ref(), "1").End)
	require.NoError(t, d.Put(ctx, a))
	add(t, d, create(t, d, "b", "k").Ref(), "2")

	e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: 3}}
	addLine(t, dir, fmt.Sprintf(`{"open":%d}`, deadWriter))
	appendRaw(t, d.Path(a.Ref()), e.Line())
	for i := range 2 { // turns
		a.Size = int64(add(t, d, a.Ref(), fmt.Sprint("turn", i)).End)
		require.NoError(t, d.Put(ctx, a))
	}
	current := func(d driver.Driver) string {
		row, err := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "k"}, nil)
		require.NoError(t, err)
		return fmt.Sprint(row.ID, row.Gen)
	}
	require.Equal(t, "a3", current(d))
	require.NoError(t, d.Close())
	d = open(t, dir, nil)
	require.Equal(t, "a3", current(d))
	require.NoError(t, d.Close())
	loseIndex(t, dir)
	d = open(t, dir, nil)
	require.Equal(t, "a3", current(d))
}

// hang returns a context that ends before a test that hangs.
func hang(t *testing.T, wait time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	return ctx
}

// A process stopped while it holds the index delays no reader, and writers only
// until their context is done.
func TestReadersTakeNoLock(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Close())
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	require.NoError(t, err)
	defer func() { require.NoError(t, root.Close()) }()
	stopped, err := filelog.OpenLockFile(root, "sessions.lock")
	require.NoError(t, err)
	require.NoError(t, stopped.Lock(t.Context(), 0))
	released := make(chan struct{})
	time.AfterFunc(10*time.Second, func() { // so that a test that fails ends
		select {
		case <-released:
		default:
			_ = stopped.Close()
		}
	})

	d = open(t, dir, nil)
	start := make(chan error, 1)
	go func() {
		ctx := t.Context()
		_, err := d.List(ctx, "main", driver.Position{}, 0)
		_, e2 := d.Get(ctx, ref)
		_, e3 := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "k"}, nil)
		row, e4 := d.Load(ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("x", "k"))
		if row.ID != ref.ID {
			e4 = errors.Join(e4, fmt.Errorf("session %s", row.ID))
		}
		_, e5 := d.Append(ctx, ref, []driver.Line{note("n")}, driver.Anywhere, nil)
		start <- errors.Join(err, e2, e3, e4, e5)
	}()
	select {
	case err := <-start:
		require.NoError(t, err)
	case <-hang(t, 5*time.Second).Done():
		t.Fatal("readers wait for the lock of the index")
	}
	for wait := time.Millisecond; !errors.Is(err, driver.ErrBusy); wait *= 2 { // a short one may end before the call has begun to wait
		_, err = d.Create(hang(t, wait), driver.KeyRef{Agent: "main", Key: "k"}, header("x", "k"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	// Close ends what waits, and does not wait itself.
	waits := make(chan error, 1)
	go func() {
		_, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, header("x", "k"))
		waits <- err
	}()
	_, _ = d.Create(hang(t, 20*time.Millisecond), driver.KeyRef{Agent: "main", Key: "k"}, header("x", "k"))
	require.NoError(t, d.Close())
	require.ErrorIs(t, <-waits, driver.ErrClosed)
	close(released)
	require.NoError(t, stopped.Close())
}

// A process stopped while it appends to a session delays deletions of it, but no
// reader of rows.
func TestListBesideAStuckDelete(t *testing.T) {
	for _, how := range []string{"Delete", "Delete at a place"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir, nil)
			b := create(t, d, "b", "k").Ref()
			end := add(t, d, b, "1").End
			create(t, d, "c", "k")
			root, err := os.OpenRoot(filepath.Dir(d.Path(b)))
			require.NoError(t, err)
			stopped, err := filelog.Open(root, filepath.Base(d.Path(b)), nil)
			require.NoError(t, err)
			release, err := stopped.Hold(t.Context())
			require.NoError(t, err)

			waits, deleted := make(chan struct{}), make(chan error, 1)
			go func() {
				if how == "Delete" {
					d.SetStep(func(name string) {
						if name == "delete: remove" {
							close(waits)
						}
					})
					deleted <- d.Delete(t.Context(), driver.Anywhere, b)
					return
				}
				d.SetStep(func(name string) {
					if name == "delete: lock" {
						close(waits)
					}
				})
				deleted <- d.Delete(t.Context(), end, b)
			}()
			<-waits
			listed := make(chan error, 1)
			go func() {
				_, err := d.List(t.Context(), "main", driver.Position{}, 0)
				listed <- err
			}()
			select {
			case err := <-listed:
				require.NoError(t, err)
			case err := <-deleted:
				t.Error("List waits for an append lock")
				deleted <- err
			}
			release()
			require.NoError(t, <-deleted)
			require.NoError(t, errors.Join(stopped.Close(), root.Close(), d.Close()))
		})
	}
}

// addLine adds a line to the index of an agent, as another process would.
func addLine(t *testing.T, dir, line string) {
	t.Helper()
	addPart(t, dir, line+"\n")
}

func addPart(t *testing.T, dir, part string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "agents/main/sessions.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(part)
	require.NoError(t, errors.Join(err, f.Close()))
}
