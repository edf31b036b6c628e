package filelog

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// recovers uses a log among others that append without a sync, recovers it when
// a sync fails, on a disk of which so many syncs lie then, and goes on. What
// Recover answers for is then acknowledged: all that is in the file.
func (r *crashRun) recovers(lies int) {
	first := r.lines(1, 20)
	l, err := Create(r.root, workName, []byte(first), &r.opts)
	if err != nil {
		return
	}
	r.p.ack(0, int64(len(first)), first)
	foreign := r.opts
	foreign.Sync = SyncNever
	other, err := Open(r.root, workName, &foreign)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = other.Close() }() // nothing of it is wanted
	defer func() { _ = l.Close() }()     // what it has to say was said by Append
	for n := range 4 {
		if _, _, err := other.Append(context.Background(), []byte(foreignMark+r.lines(1, 100)), nil); err != nil {
			r.t.Fatal(err)
		}
		if n == 2 {
			r.tear()
		}
		lines := r.lines(1+n%2, 150)
		start, end, err := l.Append(context.Background(), []byte(lines), nil)
		if err == nil {
			r.p.ack(start, end, lines)
			continue
		}
		if _, ok := errors.AsType[*NotDurableError](err); !ok {
			r.t.Fatal(err)
		}
		r.p.lies = lies
		for try := 0; ; try++ {
			before := len(r.p.moments)
			if err = l.Recover(context.Background()); err == nil {
				break
			}
			if try == 3 || len(r.p.moments) == before {
				r.t.Fatalf("recovering %d times: %v", try, err)
			}
		}
		r.ackAll()
		if _, err := l.Size(); errors.Is(err, ErrReplaced) {
			_ = l.Close() // it is of the old file
			_ = other.Close()
			if l, err = Open(r.root, workName, &r.opts); err != nil {
				r.t.Fatal(err)
			}
			if other, err = Open(r.root, workName, &foreign); err != nil {
				r.t.Fatal(err)
			}
		}
	}
}

// foreignMark begins what another one has appended.
const foreignMark = "foreign "

// ackAll acknowledges everything that readers see and that has not been.
func (r *crashRun) ackAll() {
	content, err := r.root.ReadFile(workName)
	if err != nil {
		r.t.Fatal(err)
	}
	at := int64(0)
	for line := range strings.Lines(string(content)) {
		known := strings.HasPrefix(line, workTorn)
		for _, m := range r.p.moments {
			known = known || m.op == "ack" && m.off <= at && at < m.atEnd
		}
		if !known {
			r.p.ack(at, at+int64(len(line)), line)
		}
		at += int64(len(line))
	}
}

// TestCrashInRecover makes each sync of an append fail, and none or more of the
// syncs of the Recover after it lie, so that the file is rewritten, or copied
// because that did not help, or both again, and cuts that after every operation
// and within every write.
func TestCrashInRecover(t *testing.T) {
	total := 0
	for fail := 2; fail <= 5; fail++ {
		for lies := range 4 {
			states, broken := crash(t, 1, naive{failAt: fail, recovers: true, lies: lies}, 3)
			for _, b := range broken {
				t.Errorf("sync %d fails, %d lie: %s", fail, lies, b)
			}
			total += states
		}
	}
	t.Logf("%d states", total)
	if total < 40_000 {
		t.Errorf("%d states: not everything was tried", total)
	}
}

// Naive ways to recover.
type (
	// Only what this Log wrote is written again, nothing of others.
	selfish struct{ file }
	// A sync that says that all is well is believed.
	trusting struct{ file }
	// Nothing is written again: a sync is tried once more.
	retrying struct{ trusting }
)

func (s selfish) WriteAt(p []byte, off int64) (int, error) {
	at := off
	for line := range bytes.Lines(p) {
		if !bytes.HasPrefix(line, []byte(foreignMark)) {
			if n, err := s.file.WriteAt(line, at); err != nil {
				return n, err
			}
		}
		at += int64(len(line))
	}
	return len(p), nil
}

func (s selfish) DropCache(int64) error { return nil } // or it would be found out

func (trusting) DropCache(int64) error { return nil }

func (retrying) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// The harness finds fault with naive ways to recover.
func TestCrashRecoverBites(t *testing.T) {
	folders := 0
	for _, c := range []struct {
		what  string
		naive naive
	}{
		{"bytes of others are not written again", naive{failAt: 3, mutate: func(f file) file { return selfish{f} }}},
		{"what was rewritten is not compared", naive{failAt: 3, lies: 1, mutate: func(f file) file { return trusting{f} }}},
		{"the copy is not compared", naive{failAt: 3, lies: 2, mutate: copyTrusting()}},
		{"the folder is not synced after the copy", naive{failAt: 3, lies: 1, drop: func(op string) bool {
			if op == "sync folder" {
				folders++
			}
			return op == "sync folder" && folders == 2
		}}},
		{"a failed sync is tried again", naive{failAt: 3, mutate: func(f file) file { return retrying{trusting{f}} }}},
	} {
		t.Run(c.what, func(t *testing.T) {
			c.naive.recovers = true
			states, broken := crash(t, 1, c.naive, 1<<30)
			found, example := 0, ""
			for _, b := range broken {
				if strings.Contains(b, "is not at") {
					found, example = found+1, b
				}
			}
			if found == 0 {
				t.Fatalf("%d states, %d broken, none because something was lost: %.500q", states, len(broken), broken)
			}
			t.Logf("%d of %d states, such as: %.200s", found, states, example)
		})
	}
}

// copyTrusting compares what was rewritten in place, always in vain, and
// believes that a copy is on the disk.
func copyTrusting() func(file) file {
	return func(f file) file {
		info, err := f.Stat()
		if err != nil {
			panic(err)
		}
		if info.Size() == 0 { // a new file
			return trusting{f}
		}
		return differing{f}
	}
}

// differing has a disk on which nothing can be put right in place.
type differing struct{ file }

func (differing) DropCache(int64) error { return os.ErrInvalid }
