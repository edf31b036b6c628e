package filelog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// failOnce makes the next operation of that name fail, and no other.
func failOnce(name string) func(string) error {
	done := false
	return func(op string) error {
		if op != name || done {
			return nil
		}
		done = true
		return errFault
	}
}

func mustAppend(t *testing.T, l *Log, lines string) {
	t.Helper()
	if _, _, err := l.Append(t.Context(), []byte(lines), nil); err != nil {
		t.Fatal(err)
	}
}

// wantInDoubt appends lines whose sync fails.
func wantInDoubt(t *testing.T, d *cacheDisk, l *Log, lines string) *NotDurableError {
	t.Helper()
	d.setOp(failOnce("sync"))
	_, _, err := l.Append(t.Context(), []byte(lines), nil)
	d.setOp(nil)
	e, ok := errors.AsType[*NotDurableError](err)
	if !ok || e.Refused {
		t.Fatalf("Append with a failing sync = %v", err)
	}
	return e
}

func wantDisk(t *testing.T, d *cacheDisk, want string) {
	t.Helper()
	if got := d.inCache(t); got != want {
		t.Errorf("the file holds %q, want %q", got, want)
	}
	if got := d.onDisk(t); got != want {
		t.Errorf("a power cut would leave %q, want %q", got, want)
	}
	names, err := os.ReadDir(d.root.Name())
	if err != nil || len(names) != 1 {
		t.Errorf("the folder holds %v, %v", names, err)
	}
}

func closeAll(t *testing.T, logs ...*Log) {
	t.Helper()
	for _, l := range logs {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRecover(t *testing.T) {
	for _, evicted := range []bool{false, true} {
		t.Run(fmt.Sprint("evicted ", evicted), func(t *testing.T) {
			d := newCacheDisk(t)
			l, other := d.create(t, SyncAlways), d.open(t, SyncNever)
			mustAppend(t, l, "one\n")
			mustAppend(t, other, "foreign\n")
			e := wantInDoubt(t, d, l, "two\n")
			if !strings.Contains(e.Error(), "Recover") {
				t.Errorf("the error does not say what to do: %v", e)
			}
			_, _, err := l.Append(t.Context(), []byte("no\n"), nil)
			if e, ok := errors.AsType[*NotDurableError](err); !ok || !e.Refused || !strings.Contains(e.Error(), "Recover") {
				t.Errorf("the next append returned %v", err)
			}
			if got := d.onDisk(t); strings.Contains(got, "two") {
				t.Fatalf("the model's disk holds %q after a failed sync", got)
			}
			if evicted { // what this log wrote, it has
				d.evict(t, e.Start, e.End)
			}
			if err := l.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			if failed := l.Failed(); failed != nil {
				t.Errorf("after Recover Failed = %v", failed)
			}
			wantDisk(t, d, workFirst+"one\nforeign\ntwo\n")
			mustAppend(t, l, "three\n")
			wantDisk(t, d, workFirst+"one\nforeign\ntwo\nthree\n")
			if err := l.Recover(t.Context()); err != nil { // a sound one
				t.Error(err)
			}
			closeAll(t, l, other)
		})
	}
}

// What others wrote in between is neither lost nor overwritten, and what was
// acknowledged under an interval is made good.
func TestRecoverAmongOthers(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncInterval(1e18), SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			d := newCacheDisk(t)
			l, other := d.create(t, policy), d.open(t, SyncNever)
			var want strings.Builder
			want.WriteString(workFirst)
			for i := range 5 {
				ours, foreign := fmt.Sprintf("ours %d\n", i), fmt.Sprintf("foreign %d\n", i)
				mustAppend(t, l, ours)
				mustAppend(t, other, foreign)
				want.WriteString(ours + foreign)
			}
			d.setOp(failOnce("sync"))
			if _, ok := errors.AsType[*NotDurableError](l.Flush(t.Context())); !ok {
				t.Fatal("Flush was fine")
			}
			d.setOp(nil)
			if err := l.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			wantDisk(t, d, want.String())
			closeAll(t, l, other)
		})
	}
}

// A write that failed is not made up for.
func TestRecoverWritesOnlyWhatWasWritten(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	d.setOp(failOnce("write"))
	if _, _, err := l.Append(t.Context(), []byte("never written\n"), nil); !errors.Is(err, errFault) {
		t.Fatalf("Append with a failing write = %v", err)
	}
	_ = wantInDoubt(t, d, l, "two\n")
	if err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l)
}

// A caller has its slice back after an append whose sync failed.
func TestRecoverKeepsACopy(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	lines := []byte("two\n")
	d.setOp(failOnce("sync"))
	start, end, err := l.Append(t.Context(), lines, nil)
	d.setOp(nil)
	if _, ok := errors.AsType[*NotDurableError](err); !ok {
		t.Fatalf("Append = %v", err)
	}
	clear(lines)
	d.evict(t, start, end)
	if err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l)
}

// A disk on which the file cannot be put right is given a copy, and nobody goes
// on with the old one.
func TestRecoverCopies(t *testing.T) {
	for _, size := range []int{4, maxUnsynced / 2} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			d := newCacheDisk(t)
			l, other := d.create(t, SyncNever), d.open(t, SyncNever)
			if err := d.root.Chmod(workName, 0o640); err != nil {
				t.Fatal(err)
			}
			var want strings.Builder
			want.WriteString(workFirst)
			for range 3 {
				line := strings.Repeat("x", size-1) + "\n"
				mustAppend(t, l, line)
				mustAppend(t, other, "foreign\n")
				want.WriteString(line + "foreign\n")
			}
			d.setOp(failOnce("sync"))
			if _, ok := errors.AsType[*NotDurableError](l.Flush(t.Context())); !ok {
				t.Fatal("Flush was fine")
			}
			d.setOp(nil)
			d.freeze() // a sync says that all is well, and it is not
			if err := l.Recover(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, old := range []*Log{l, other} {
				if _, _, err := old.Append(t.Context(), []byte("no\n"), nil); !errors.Is(err, ErrReplaced) {
					t.Errorf("an append to the old file returned %v", err)
				}
			}
			wantDisk(t, d, want.String())
			if info, err := d.root.Lstat(workName); err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("the copy has mode %v, %v", info.Mode(), err)
			}
			again := d.open(t, SyncAlways)
			mustAppend(t, again, "more\n")
			wantDisk(t, d, want.String()+"more\n")
			closeAll(t, l, other, again)
		})
	}
}

// Whatever fails in Recover, once or for good, nothing that was acknowledged is
// lost, nothing is acknowledged before it has succeeded, and it can be called
// again.
func TestRecoverFails(t *testing.T) {
	const lines = workFirst + "one\nforeign\ntwo\n"
	runs := 0
	for _, frozen := range []bool{false, true} {
		for _, sticky := range []bool{false, true} {
			for n := 1; ; n++ {
				runs++
				what := fmt.Sprintf("operation %d, sticky %v, frozen %v", n, sticky, frozen)
				d := newCacheDisk(t)
				l, other := d.create(t, SyncAlways), d.open(t, SyncNever)
				mustAppend(t, l, "one\n")
				mustAppend(t, other, "foreign\n")
				_ = wantInDoubt(t, d, l, "two\n")
				if frozen {
					d.freeze()
				}
				var ops []string
				d.setOp(func(op string) error {
					ops = append(ops, op)
					if len(ops) == n || sticky && len(ops) > n {
						return errFault
					}
					return nil
				})
				err := l.Recover(t.Context())
				d.setOp(nil)
				if err != nil {
					if l.Failed() == nil {
						t.Errorf("%s: Recover = %v, and the log goes on", what, err)
					}
					if got := d.inCache(t); got != lines && !sticky {
						t.Errorf("%s: Recover = %v, and readers see %q", what, err, got)
					}
					if _, _, err := l.Append(t.Context(), []byte("no\n"), nil); !isRefused(err) {
						t.Errorf("%s: then an append returned %v", what, err)
					}
					err = l.Recover(t.Context())
				}
				if err != nil {
					t.Errorf("%s (%q): recovering again: %v", what, ops, err)
				}
				wantDisk(t, d, lines)
				closeAll(t, other)
				// A lock that could not be given back is told of by Close.
				stuck := len(ops) >= n && (ops[len(ops)-1] == "unlock" || ops[len(ops)-1] == "renew")
				if err := l.Close(); err != nil && (!stuck || !errors.Is(err, errFault)) {
					t.Errorf("%s (%q): Close = %v", what, ops, err)
				}
				last := d.open(t, SyncAlways)
				mustAppend(t, last, "more\n")
				wantDisk(t, d, lines+"more\n")
				closeAll(t, last)
				if len(ops) < n {
					break
				}
				if t.Failed() {
					return
				}
			}
		}
	}
	t.Logf("%d runs", runs)
	if runs < 20 {
		t.Errorf("only %d runs: the faults are not injected", runs)
	}
}

// A copy has not taken the file's place for good before its folder is synced.
func TestRecoverSyncsTheFolder(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	d.freeze()
	d.setOp(func(op string) error {
		if op == "sync folder" {
			return errFault
		}
		return nil
	})
	for range 3 {
		if err := l.Recover(t.Context()); !errors.Is(err, errFault) || l.Failed() == nil {
			t.Errorf("with a folder that cannot be synced Recover = %v", err)
		}
	}
	d.setOp(nil)
	if err := l.Recover(t.Context()); err != nil {
		t.Error(err)
	}
	if _, _, err := l.Append(t.Context(), []byte("no\n"), nil); !errors.Is(err, ErrReplaced) {
		t.Errorf("an append to the old file returned %v", err)
	}
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l)
}

func isRefused(err error) bool {
	e, ok := errors.AsType[*NotDurableError](err)
	return ok && e.Refused
}

// Bytes that somebody put in place of ours are not overwritten.
func TestRecoverLeavesOthersAlone(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	e := wantInDoubt(t, d, l, "two\n")
	f, err := d.root.OpenFile(workName, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt([]byte("XYZ\n"), e.Start)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := l.Recover(t.Context()); !errors.Is(err, errOthers) || !strings.Contains(err.Error(), fixOverlap) {
		t.Errorf("Recover = %v", err)
	}
	if got := d.inCache(t); got != workFirst+"XYZ\n" {
		t.Errorf("the file holds %q", got)
	}
	if err := l.Close(); err == nil {
		t.Error("Close was fine after a failed sync")
	}
}

func TestRecoverRefuses(t *testing.T) {
	d := newCacheDisk(t)
	l := d.create(t, SyncAlways)
	_ = wantInDoubt(t, d, l, "two\n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Recover(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is done Recover = %v", err)
	}
	reader, err := Open(d.root, workName, &Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := reader.Recover(t.Context()); !errors.Is(err, ErrReadOnly) {
		t.Errorf("for a reader Recover = %v", err)
	}
	if err := errors.Join(d.root.Rename(workName, "b"), d.root.WriteFile(workName, []byte("new\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := l.Recover(t.Context()); !errors.Is(err, ErrReplaced) {
		t.Errorf("of a replaced file Recover = %v", err)
	}
	if got := d.inCache(t); got != "new\n" {
		t.Errorf("the new file holds %q", got)
	}
	closeAll(t, reader)
	if err := errors.Join(l.Close()); err == nil {
		t.Error("Close was fine after a failed sync")
	}
	if err := l.Recover(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close Recover = %v", err)
	}
}

// The same on a real disk, where only the one sync is made to fail.
func TestRecoverRealFile(t *testing.T) {
	d := &faultDisk{failAt: 1, only: "none"}
	w := newWorkload(t, d)
	w.create()
	big := strings.Repeat("x", 100_000) + "\n"
	w.append(big)
	d.only = "sync"
	_, _, err := w.log.Append(t.Context(), []byte("two\n"+big), nil)
	if _, ok := errors.AsType[*NotDurableError](err); !ok {
		t.Fatalf("Append = %v", err)
	}
	if err := w.log.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, w.log, "three\n")
	if got := w.content(); !bytes.Equal(got, slices.Concat([]byte(workFirst), []byte(big), []byte("two\n"), []byte(big), []byte("three\n"))) {
		t.Errorf("the file holds %d bytes", len(got))
	}
	if err := w.log.Close(); err != nil {
		t.Error(err)
	}
	w.reopen(t)
}

// Lines that a process whose sync failed left in the cache are put on the disk
// by the one who answers for them.
func TestSecure(t *testing.T) {
	d := newCacheDisk(t)
	dead := d.create(t, SyncAlways)
	e := wantInDoubt(t, d, dead, "two\n")
	if err := dead.Close(); err == nil {
		t.Error("Close was fine after a failed sync")
	}
	l := d.open(t, SyncAlways)
	if err := l.FlushAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(d.onDisk(t), "two") {
		t.Fatal("the model's sync writes what is clean")
	}
	if err := l.Secure(t.Context(), e.Start, e.End); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, d, workFirst+"two\n")
	for _, op := range []string{"write at", "sync"} {
		d.setOp(failOnce(op))
		err := l.Secure(t.Context(), e.Start, e.End)
		d.setOp(nil)
		e, ok := errors.AsType[*NotDurableError](err)
		if !errors.Is(err, errFault) || ok != (op == "sync") || ok && e.Refused {
			t.Errorf("with a failing %s Secure = %v", op, err)
		}
	}
	if err := l.Secure(t.Context(), e.Start, e.End); !isRefused(err) {
		t.Errorf("after a failed sync Secure = %v", err)
	}
	if err := l.Recover(t.Context()); err != nil {
		t.Error(err)
	}
	wantDisk(t, d, workFirst+"two\n")
	closeAll(t, l)
}

// Others whose own sync fails rewrite everything since the last good one.
func TestRecoverAfterFlushAll(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncNever)
	mustAppend(t, other, "foreign\n")
	d.setOp(failOnce("sync"))
	err := l.FlushAll(t.Context())
	d.setOp(nil)
	if _, ok := errors.AsType[*NotDurableError](err); !ok {
		t.Fatalf("FlushAll = %v", err)
	}
	if err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, d, workFirst+"foreign\n")
	closeAll(t, l)

	l = d.open(t, SyncInterval(1e18)) // one that has never synced
	mustAppend(t, other, "foreign\n")
	mustAppend(t, l, "ours\n")
	d.setOp(failOnce("sync"))
	err = l.FlushAll(t.Context())
	d.setOp(nil)
	if _, ok := errors.AsType[*NotDurableError](err); !ok {
		t.Fatalf("FlushAll = %v", err)
	}
	if err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, d, workFirst+"foreign\nforeign\nours\n")
	closeAll(t, l, other)
}
