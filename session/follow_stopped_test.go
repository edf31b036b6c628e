//go:build linux

package session_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A follower that is stopped holds up no writer, and gets every entry once when
// it continues.
func TestFollowStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)

	cmd := storetest.Child(t, "follower", dir, "1 1000000000") // follows to the end without beginning anew
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(out)
	next := func() (got heard) {
		require.True(t, lines.Scan(), "the follower ended")
		require.NoError(t, json.Unmarshal(lines.Bytes(), &got))
		return got
	}
	require.Zero(t, next().N, "it has loaded the session")
	storetest.Add(t, s, transcript.Custom{Name: endOfTalk})
	require.Equal(t, 2, next().N)

	pid := cmd.Process.Pid
	require.NoError(t, cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err = syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
	require.NoError(t, err)
	require.True(t, status.Stopped())

	const writers, each = 4, 250
	until := time.Now().Add(storetest.Extent(*storetest.Faults, 0, 10*time.Second, time.Minute))
	var acked atomic.Int64
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for n := 0; n < each || time.Now().Before(until); n++ {
				if _, err := s.Append(t.Context(), transcript.UserText(fmt.Sprint(w, " ", n))); err != nil {
					t.Error(err)
					return
				}
				acked.Add(1)
			}
		})
	}
	group.Wait()
	changed, err := syscall.Wait4(pid, &status, syscall.WNOHANG|syscall.WCONTINUED, nil)
	require.NoError(t, err)
	require.Zero(t, changed, "the follower was not stopped all the time")
	storetest.Add(t, s, transcript.Custom{Name: endOfTalk})

	require.NoError(t, cmd.Process.Signal(syscall.SIGCONT))
	want, _ := talkOf(t, s)
	require.EqualValues(t, want.N, acked.Load()+3)
	require.Equal(t, want, next())
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.False(t, lines.Scan())
	require.NoError(t, cmd.Wait())
	t.Logf("%d appends while the follower was stopped", acked.Load())
}
