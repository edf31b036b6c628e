package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// The usage of a session counts once, whether the session is live, in the trash or deleted.
// An import of its file makes no copy while it is in the trash.
func TestUsageOfTrash(t *testing.T) {
	for name, sh := range map[string]*shell{"folder": overFolder(t), "server": overURL(t)} {
		st, err := session.Open(sh.dir, nil)
		require.NoError(t, err)
		s, err := st.Create(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "u"}, &session.CreateOptions{ID: "alpha"})
		require.NoError(t, err)
		r := &transcript.Response{Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.TextBlock{Text: "Fine."}}}, Model: "m", Usage: transcript.Usage{Input: 7, Output: 3}}
		_, err = s.Append(t.Context(), transcript.UserText("hello"), r)
		require.NoError(t, err)
		require.NoError(t, st.Close())
		data, err := os.ReadFile(filepath.Join(sh.dir, "agents/main/sessions/alpha.jsonl"))
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), "alpha.jsonl")
		require.NoError(t, os.WriteFile(file, data, 0o600))
		want := sh.must(0, "session", "usage")
		sh.must(0, "session", "delete", "alpha")
		require.Equal(t, want, sh.must(0, "session", "usage"), name)
		sh.must(0, "import", file)
		require.Equal(t, want, sh.must(0, "session", "usage"), name)
		sh.must(0, "session", "delete", "alpha", "--now", "--yes")
		require.Equal(t, want, sh.must(0, "session", "usage"), name)
	}
}
