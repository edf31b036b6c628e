package filelog

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
)

// recovers uses a log among others that append without a sync, recovers it when
// a sync fails, and goes on. Recover vouches for everything in the file, so all
// of that then counts as acknowledged.
func (r *crashRun) recovers() {
	first := r.lines(1, 20)
	l, err := Create(r.root, workName, []byte(first), &r.opts)
	if err != nil {
		return
	}
	r.p.ack(0, int64(len(first)), first)
	foreign := r.opts
	foreign.Sync = driver.SyncNever
	other, err := Open(r.root, workName, &foreign)
	require.NoError(r.t, err)
	defer func() { _ = other.Close() }() // its lines are not promised to anybody
	defer func() { _ = l.Close() }()     // Append has said how it went
	for n := range 3 {
		_, _, err := other.Append(context.Background(), Lines([]byte("foreign "+r.lines(1, 100))))
		require.NoError(r.t, err)
		if n == 2 {
			r.tear()
		}
		lines := r.lines(1+n%2, 150)
		start, end, err := l.Append(context.Background(), Lines([]byte(lines)))
		if err == nil {
			r.p.ack(start, end, lines)
			continue
		}
		_, failed := errors.AsType[*driver.NotDurableError](err)
		require.True(r.t, failed, "Append = %v", err)
		if r.v.syncs { // the naive cure of old: once more, and believe it
			l.failed, l.synced = nil, l.written
			require.NoError(r.t, l.file().Mark(false)) // of old there was none
			err = l.file().Sync()
		} else {
			err = l.Recover(context.Background())
		}
		require.NoError(r.t, err)
		r.ackAll()
		_ = other.Close()
		other, err = Open(r.root, workName, &foreign)
		require.NoError(r.t, err)
	}
}

// ackAll acknowledges everything that readers see and that has not been.
func (r *crashRun) ackAll() {
	content, err := r.root.ReadFile(workName)
	require.NoError(r.t, err)
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

// TestCrashInRecover makes each sync of an append fail, and cuts the Recover
// after it, and what comes next, after every operation and within every write.
func TestCrashInRecover(t *testing.T) {
	t.Parallel()
	total, from, to := 0, 3, 3
	if *faults == "long" {
		from, to = 2, 4
	}
	for fail := from; fail <= to; fail++ {
		states, broken := crash(t, 1, naive{failAt: fail, recovers: true}, 3, "")
		for _, b := range broken {
			t.Errorf("sync %d fails: %s", fail, b)
		}
		total += states
	}
	t.Logf("%d states", total)
	require.Greater(t, total, 500, "not everything was tried")
}

// The harness finds fault with naive ways to recover.
func TestCrashRecoverBites(t *testing.T) {
	t.Parallel()
	for what, v := range map[string]naive{
		"the folder is not synced after the copy": {drop: dropNth("sync folder", 2)},
		"the copy is not synced":                  {drop: dropNth("sync", 3)},
		"a failed sync is tried again":            {syncs: true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			v.failAt, v.recovers = 3, true
			wantBroken(t, v, "is not at")
		})
	}
}
