package session_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Everything acknowledged can be read after a restart: a line that an
// idempotency key makes too long for a reader is refused.
func TestKeyOnALongLine(t *testing.T) {
	longLines(t)
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("x"))
	frame := 0
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if e.ID == ids[0] {
			frame = len(e.Line()) - 1
		}
	}
	text := strings.Repeat("x", transcript.DefaultMaxLine-frame-40) // with no room for a key and a hash
	_, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText(text))
	require.Error(t, err)
	require.Contains(t, err.Error(), "limit")
	want := storetest.History(t, s)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	if got := storetest.History(t, storetest.Load(t, st, storetest.CLI)); got != want {
		t.Errorf("after a restart the history has %d bytes, it had %d", len(got), len(want))
	}
}

// A retry would not find a key that a line cannot hold as it is.
func TestKeyIsText(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), storetest.Unsynced)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	want := storetest.History(t, s)
	_, err := s.AppendIf(t.Context(), session.Cond{Idem: "k\xff"}, transcript.UserText("q"))
	require.Error(t, err)
	require.Contains(t, err.Error(), "UTF-8")
	require.Equal(t, want, storetest.History(t, s))
}

// A header that no reader accepts is not written.
func TestLongHeader(t *testing.T) {
	longLines(t)
	st := storetest.Open(t, t.TempDir(), storetest.Unsynced)
	defer storetest.Close(t, st)
	owner := strings.Repeat("o", transcript.DefaultMaxLine)
	_, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: owner})
	require.Error(t, err)
	require.Contains(t, err.Error(), "limit")
	if infos, err := st.List(t.Context(), nil); err != nil || len(infos) > 0 {
		t.Errorf("%d sessions, %v", len(infos), err)
	}
}

// longLines leaves a test with lines as long as they may be to the long suite.
func longLines(t *testing.T) {
	t.Helper()
	if *storetest.Soak == "short" {
		t.Skip("it hashes and copies 64 MiB several times: -soak=gate")
	}
}
