package filelog

import (
	"context"
	"errors"
	"testing"
	"time"
)

// wantFree fails unless the lock can be taken by another Log at once.
func wantFree(t *testing.T, other *Log) {
	t.Helper()
	if ok, err := other.file.Lock(false); !ok || err != nil {
		t.Fatalf("the kernel's lock was kept: %v, %v", ok, err)
	}
	if err := other.file.Unlock(); err != nil {
		t.Fatal(err)
	}
}

// A lock that cannot be given back keeps nobody waiting: it goes with its
// descriptor, and the Log goes on with another one.
func TestUnlockFails(t *testing.T) {
	for _, policy := range []SyncPolicy{SyncAlways, SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			d := newCacheDisk(t)
			l, other := d.create(t, policy), d.open(t, policy)
			for _, lines := range []string{"one\n", "two\n"} {
				d.setOp(failOnce("unlock"))
				mustAppend(t, l, lines)
				d.setOp(nil)
				wantFree(t, other)
				mustAppend(t, other, "foreign\n")
			}
			d.setOp(failOnce("unlock"))
			if _, err := l.Settle(t.Context()); err != nil {
				t.Error(err)
			}
			d.setOp(failOnce("unlock"))
			h, err := l.Hold(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			h.Release()
			d.setOp(nil)
			wantFree(t, other)
			if err := l.FlushAll(t.Context()); err != nil {
				t.Error(err)
			}
			wantDisk(t, d, workFirst+"one\nforeign\ntwo\nforeign\n")
			closeAll(t, l, other)
		})
	}
}

// A failed sync that only the old descriptor would have learned of is not
// forgotten with it.
func TestUnlockFailsBeforeAFailedSync(t *testing.T) {
	d := newCacheDisk(t)
	l, other := d.create(t, SyncInterval(1e18)), d.open(t, SyncNever)
	d.setOp(func(op string) error {
		if op == "unlock" || op == "sync" {
			return errFault
		}
		return nil
	})
	_, _, err := l.Append(t.Context(), []byte("one\n"), nil)
	d.setOp(nil)
	if e, ok := errors.AsType[*NotDurableError](err); !ok || e.Refused {
		t.Errorf("Append = %v", err)
	}
	wantFree(t, other)
	if _, _, err := l.Append(t.Context(), []byte("no\n"), nil); !isRefused(err) {
		t.Errorf("the next append returned %v", err)
	}
	if err := l.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantDisk(t, d, workFirst+"one\n")
	closeAll(t, l, other)
}

// Where no other descriptor can be had the lock stays until the next call, or
// the end, which tells.
func TestUnlockAndOpenFail(t *testing.T) {
	stuck := func(op string) error {
		if op == "unlock" || op == "renew" {
			return errFault
		}
		return nil
	}
	d := newCacheDisk(t)
	l, other := d.create(t, SyncAlways), d.open(t, SyncAlways)
	d.setOp(stuck)
	mustAppend(t, l, "one\n")
	d.setOp(nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, _, err := other.Append(ctx, []byte("no\n"), nil); !errors.Is(err, ErrBusy) {
		t.Errorf("while the lock is stuck another Log's append returned %v", err)
	}
	mustAppend(t, l, "two\n")
	wantFree(t, other)
	d.setOp(stuck)
	mustAppend(t, l, "three\n")
	d.setOp(nil)
	if err := l.Close(); !errors.Is(err, errFault) {
		t.Errorf("Close = %v", err)
	}
	wantFree(t, other)
	mustAppend(t, other, "four\n")
	wantDisk(t, d, workFirst+"one\ntwo\nthree\nfour\n")
	closeAll(t, other)
}
