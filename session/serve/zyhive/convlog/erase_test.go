package convlog_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/serve/zyhive/convlog"
	"github.com/convolog/convolog/transcript"
)

func filesWith(t *testing.T, dir, word string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte(word)) || strings.Contains(path, word) {
			files = append(files, path)
		}
		return err
	}))
	return files
}

func TestErase(t *testing.T) {
	dir := t.TempDir()
	w, l := writer(t, dir), reader(t, dir)
	alone := convlog.Channel{Agent: "main", Type: "telegram", Chat: "anna-42"}
	group := convlog.Channel{Agent: "main", Type: "telegram", Chat: "7"}
	say := func(c convlog.Channel, e convlog.Entry) {
		t.Helper()
		require.NoError(t, w.Append(t.Context(), c, e))
	}
	say(alone, convlog.Entry{Role: "user", Sender: "anna", Content: "My name is anna.", MessageID: "1"})
	say(alone, convlog.Entry{Role: "assistant", Content: "Hello anna."})
	say(group, convlog.Entry{Role: "user", Sender: "anna", Content: "anna here", MessageID: "2"})
	say(group, convlog.Entry{Role: "user", Sender: "bert", Content: "bert here", MessageID: "3"})
	subject := transcript.Subject{Owner: "anna"}
	plan, err := l.PlanErase(t.Context(), subject)
	require.NoError(t, err)
	require.Len(t, plan, 2)
	require.NotEmpty(t, filesWith(t, dir, "anna"))
	done, err := l.Erase(t.Context(), subject)
	require.NoError(t, err)
	require.Equal(t, plan, done)
	require.Empty(t, filesWith(t, dir, "anna"))
	require.Equal(t, []string{"bert here", transcript.ErasedText}, texts(t, l, group, convlog.Query{}))

	say(group, convlog.Entry{Role: "user", Sender: "anna", Content: "anna here", MessageID: "2"}) // delivered again
	say(group, convlog.Entry{Role: "user", Sender: "bert", Content: "still here", MessageID: "4"})
	require.Equal(t, []string{"still here", "bert here", transcript.ErasedText}, texts(t, l, group, convlog.Query{}))
	none, err := l.Erase(t.Context(), subject)
	require.NoError(t, err)
	require.Empty(t, none)

	word := transcript.Subject{Match: func(e transcript.Entry) bool { return bytes.Contains(e.Line(), []byte("bert")) }}
	_, err = l.Erase(t.Context(), word)
	require.NoError(t, err)
	require.Empty(t, filesWith(t, dir, "bert"))
}

// Writers of two processes lose no entry during repeated erasures.
func TestEraseBesideWriters(t *testing.T) {
	dir := t.TempDir()
	l := reader(t, dir)
	c := convlog.Channel{Agent: "main", Type: "web", Chat: "room"}
	const each = 100
	var wg sync.WaitGroup
	for i := range 2 {
		w := writer(t, dir)
		wg.Go(func() {
			for n := range each {
				sender := []string{"anna", "bert"}[n%2]
				e := convlog.Entry{Role: "user", Sender: sender, Content: fmt.Sprintf("%s %d %d", sender, i, n), MessageID: fmt.Sprint(i, " ", n)}
				if err := w.Append(t.Context(), c, e); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for range 20 {
		_, err := l.Erase(t.Context(), transcript.Subject{Owner: "anna"})
		require.NoError(t, err)
	}
	wg.Wait()
	_, err := l.Erase(t.Context(), transcript.Subject{Owner: "anna"})
	require.NoError(t, err)
	require.Empty(t, filesWith(t, dir, "anna"))
	bert := 0
	for _, text := range texts(t, l, c, convlog.Query{}) {
		if strings.HasPrefix(text, "bert ") {
			bert++
		}
	}
	require.Equal(t, each, bert)
}
