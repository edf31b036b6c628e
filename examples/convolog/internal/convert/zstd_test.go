package convert

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/dialect"
)

// TestMain makes the test program a stand-in for zstd that prints the file as it is.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "-dcq" {
		data, err := os.ReadFile(os.Args[3])
		if err != nil || string(data) == "broken" {
			fmt.Fprintln(os.Stderr, "not a zstd file")
			os.Exit(1)
		}
		_, _ = os.Stdout.Write(data)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const rollout = `{"timestamp":"2026-09-01T10:00:00Z","type":"session_meta","payload":{"id":"x1"}}
{"timestamp":"2026-09-01T10:00:01Z","type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Hello"}]}}
`

func write(t *testing.T, dir, name, data string) string {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
	return file
}

// Compressed rollouts are read under their plain names, and nothing is left over.
func TestCompressed(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	write(t, dir, "2026/rollout-a.jsonl.zst", rollout)
	write(t, dir, "2026/rollout-b.jsonl.zst", "broken")
	write(t, dir, "2026/rollout-c.jsonl.zst", "broken")
	write(t, dir, "2026/rollout-c.jsonl", rollout)
	files := unpacked{os.DirFS(dir), dir, os.Args[0]}
	folder, err := dialect.ReadFolder(files)
	require.ErrorContains(t, err, "rollout-b.jsonl")
	require.ErrorContains(t, err, "not a zstd file")
	var paths []string
	for s := range folder.Sessions() {
		require.NoError(t, s.Err)
		require.Equal(t, 1, s.Messages)
		paths = append(paths, s.Path)
	}
	require.Equal(t, []string{"2026/rollout-a.jsonl", "2026/rollout-c.jsonl"}, paths)
	require.Equal(t, []string{"2026/rollout-c.jsonl.zst"}, folder.Others)
	left, err := os.ReadDir(temp)
	require.NoError(t, err)
	require.Empty(t, left)
	_, err = fs.ReadFile(files, "2026/none.jsonl")
	require.ErrorIs(t, err, fs.ErrNotExist)

	plain := t.TempDir()
	write(t, plain, "rollout-a.jsonl", rollout)
	require.NoError(t, fstest.TestFS(unpacked{os.DirFS(plain), plain, os.Args[0]}, "rollout-a.jsonl"))
}

// A document holds many sessions.
func TestFindMany(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "conversations.json", `[{"uuid":"a","chat_messages":[{"uuid":"1","sender":"human","text":"One"}]},{"uuid":"b","chat_messages":[{"uuid":"2","sender":"human","text":"Two"}]}]`)
	write(t, dir, "rollout-a.jsonl", rollout)
	sessions, err := Find(file, "")
	require.NoError(t, err)
	var ids []string
	for s := range sessions {
		ids = append(ids, s.Info().ID)
	}
	require.Equal(t, []string{"a", "b"}, ids)
	_, err = Find(write(t, dir, "settings.json", `{"mapping":{}}`), "")
	require.ErrorContains(t, err, "is not a transcript")
}
