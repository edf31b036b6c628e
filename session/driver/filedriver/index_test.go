package filedriver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/filedriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// A row that a kill left behind its transcript is made anew.
func TestStaleRow(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	a := create(t, d, "a", "k")
	create(t, d, "b", "k")
	must(t, d.Close())

	// The line of SetCurrent, and no row: as if the kill had come in between.
	e := transcript.Entry{ID: "c", Body: transcript.Current{Gen: 7}}
	f, err := os.OpenFile(d.Path(a.Ref()), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = f.Write(append(e.Line(), '\n'))
	must(t, err)
	info, err := f.Stat()
	must(t, err)
	must(t, f.Close())

	for range 2 {
		d = open(t, dir, nil)
		if row, err := d.Current(ctx, "main", "k"); err != nil || row.ID != "a" || row.Gen != 7 || row.Size != info.Size() {
			t.Errorf("Current = %+v, %v", row, err)
		}
		must(t, d.Close())
	}
	d = open(t, dir, nil)
	if row := create(t, d, "d", "k"); row.Gen != 8 {
		t.Errorf("gen %d was given, want 8", row.Gen)
	}
	must(t, d.Close())
}

// A row that is put while the journal is one that was merged already stays.
func TestPutAfterDeadMerge(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	must(t, d.Close())
	d = open(t, dir, nil)
	create(t, d, "b", "k")
	// Another process says in the journal that it merges it, and dies between
	// giving the snapshot its name and emptying the journal.
	journal, err := os.OpenFile(filepath.Join(dir, "agents/main/sessions.journal"), os.O_APPEND|os.O_WRONLY, 0)
	must(t, err)
	_, err = journal.WriteString(`{"merge":2}` + "\n")
	must(t, err)
	must(t, journal.Close())
	snapshot := filepath.Join(dir, "agents/main/sessions.json")
	data, err := os.ReadFile(snapshot)
	must(t, err)
	later := strings.Replace(string(data), `"generation":1`, `"generation":2`, 1)
	if later == string(data) {
		t.Fatalf("no generation in %s", data)
	}
	must(t, os.WriteFile(snapshot, []byte(later), 0o600))

	row.Title = "put"
	must(t, d.Put(ctx, row))
	other := open(t, dir, nil)
	create(t, other, "c", "k")
	for _, d := range []*filedriver.Driver{other, d} {
		if got, err := d.Get(ctx, row.Ref()); err != nil || got.Title != "put" {
			t.Errorf("Get = %+v, %v", got, err)
		}
		must(t, d.Close())
	}
}

// hang returns a context that ends before a test that hangs.
func hang(t *testing.T, wait time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	t.Cleanup(cancel)
	return ctx
}

// A process that is stopped while it holds the index keeps no reader waiting,
// and writers until their context is done.
func TestReadersTakeNoLock(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	must(t, d.Close())
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main"))
	must(t, err)
	defer func() { must(t, root.Close()) }()
	journal, err := filelog.Open(root, "sessions.journal", nil)
	must(t, err)
	held, err := journal.Hold(t.Context())
	must(t, err)
	released := make(chan struct{})
	time.AfterFunc(10*time.Second, func() { // so that a test that fails ends
		select {
		case <-released:
		default:
			held.Release()
		}
	})

	d = open(t, dir, nil)
	start := make(chan error, 1)
	go func() {
		ctx := t.Context()
		_, err := d.List(ctx, "main", driver.Place{}, 0)
		_, e2 := d.Get(ctx, ref)
		_, e3 := d.Current(ctx, "main", "k")
		row, created, e4 := d.LoadOrCreate(ctx, "main", "k", header("x", "k"))
		if created || row.ID != ref.ID {
			e4 = errors.Join(e4, fmt.Errorf("session %s, created %v", row.ID, created))
		}
		_, e5 := d.Append(ctx, ref, []driver.Line{note("n")}, driver.Cond{})
		start <- errors.Join(err, e2, e3, e4, e5)
	}()
	select {
	case err := <-start:
		must(t, err)
	case <-hang(t, 5*time.Second).Done():
		t.Fatal("readers wait for the lock of the index")
	}
	if _, err := d.Create(hang(t, time.Millisecond), "main", "k", header("x", "k")); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, driver.ErrBusy) {
		t.Errorf("Create: %v", err)
	}
	// Close ends what waits, and does not wait itself.
	waits := make(chan error, 1)
	go func() {
		_, err := d.Create(t.Context(), "main", "k", header("x", "k"))
		waits <- err
	}()
	_, _ = d.Create(hang(t, 20*time.Millisecond), "main", "k", header("x", "k"))
	must(t, d.Close())
	if err := <-waits; !errors.Is(err, driver.ErrClosed) {
		t.Errorf("Create while Close is called: %v", err)
	}
	close(released)
	held.Release()
	must(t, journal.Close())
}

// A large index is not written anew for a small change.
func TestCloseKeepsALargeSnapshot(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	var row driver.Row
	for i := range 300 {
		row = create(t, d, fmt.Sprintf("s%03d", i), "k")
	}
	must(t, d.Close())
	snapshot := filepath.Join(dir, "agents/main/sessions.json")
	before, err := os.Stat(snapshot)
	must(t, err)
	for i, same := range []bool{true, false} {
		d = open(t, dir, nil)
		for range 1 + 200*i {
			row.Title = fmt.Sprint("title ", i)
			must(t, d.Put(t.Context(), row))
		}
		must(t, d.Close())
		after, err := os.Stat(snapshot)
		must(t, err)
		if os.SameFile(before, after) != same {
			t.Errorf("after %d changes the snapshot is the same: %v, want %v", 1+200*i, !same, same)
		}
		d = open(t, dir, nil)
		if got, err := d.Get(t.Context(), row.Ref()); err != nil || got.Title != row.Title {
			t.Errorf("Get = %+v, %v", got, err)
		}
		must(t, d.Close())
	}
}
