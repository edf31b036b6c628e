package ask

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// dying shows a text that is long enough to be flushed, and ends the process.
type dying struct{ text string }

func (d dying) Stream(_ context.Context, _ transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	show(wire.Delta{Text: d.text})
	os.Exit(3)
	return nil, nil
}

// The next process has the text of an answer that a kill has cut, once.
func TestKilled(t *testing.T) {
	const folder = "TEST_KILLED_IN"
	long := strings.Repeat("word ", 1000)
	dir, child := os.LookupEnv(folder)
	if !child {
		dir = t.TempDir()
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilled$")
		again.Env = append(os.Environ(), folder+"="+dir)
		out, _ := again.CombinedOutput()
		require.Equal(t, 3, again.ProcessState.ExitCode(), string(out))
	}
	store, err := session.Open(dir, nil)
	require.NoError(t, err)
	defer store.Close()
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "test", Peer: "user"})
	require.NoError(t, err)
	if child {
		held, err := turn.Begin(t.Context(), s)
		require.NoError(t, err)
		_, err = s.Append(t.Context(), transcript.UserText("go"))
		require.NoError(t, err)
		_, err = Once(t.Context(), held, s, &guard.Guard{}, dying{long}, nil)
		require.NoError(t, err)
	}
	for range 2 {
		require.NoError(t, Recover(t.Context(), s))
	}
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Messages, 2)
	require.Equal(t, long, h.Messages[1].Text())
	p, err := s.Pending(t.Context())
	require.NoError(t, err)
	require.True(t, p.Cut)
	held, err := turn.Begin(t.Context(), s)
	require.NoError(t, err)
	require.NoError(t, Recover(t.Context(), s)) // the running turn has the lock
	require.NoError(t, held.End())
}
