package exchange_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript/dialect"
)

func init() { storetest.Register("importer", importer) }

// importer imports n chats, or the files of another program in a folder, and reports each
// session.
func importer(args []string, _ io.Reader, stdout io.Writer) error {
	st, err := session.Open(args[0], &session.Options{
		Sync:  session.SyncNever,
		Audit: func(_ context.Context, a session.Action) { fmt.Fprintln(stdout, a.Session.ID) },
	})
	if err != nil {
		return err
	}
	if n, notNumber := strconv.Atoi(args[1]); notNumber == nil {
		_, err = exchange.Import(context.Background(), st, chats(n), nil)
		return err
	}
	folder, err := dialect.ReadFolder(os.DirFS(args[1]))
	if err == nil {
		_, err = exchange.Import(context.Background(), st, folder.Sessions(), nil)
	}
	return err
}

// chats yields n conversations of an application.
func chats(n int) iter.Seq[chat] {
	return func(yield func(chat) bool) {
		for i := range n {
			c := chat{id: fmt.Sprint("c-", i), title: fmt.Sprint("Chat ", i)}
			for k := range 1 + i%4 {
				at := time.Date(2026, 5, 1, 12, i%60, k, 0, time.UTC)
				c.texts = append(c.texts, text{at, fmt.Sprint("question ", k), fmt.Sprint("answer ", k)})
			}
			if !yield(c) {
				return
			}
		}
	}
}

// An import of many conversations that is killed again and again completes, under the IDs
// of the source, and a second one adds nothing: from a source of one's own, and from the
// files of another program.
func TestImportProcessKilled(t *testing.T) {
	n := storetest.Extent(*storetest.Faults, 60, 200, 1_000)
	dir := t.TempDir()
	killedImport(t, dir, n, strconv.Itoa(n), chats(n))
	files := t.TempDir()
	w, err := dialect.NewWriter(dialect.ZyHive, func(name string) (io.WriteCloser, error) {
		name = filepath.Join(files, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			return nil, err
		}
		return os.Create(name)
	})
	require.NoError(t, err)
	st := open(t, dir)
	for i := range n {
		s, err := st.Get(t.Context(), session.Ref{Agent: "main", ID: fmt.Sprint("c-", i)})
		require.NoError(t, err)
		_, err = exchange.Export(t.Context(), s, w, dialect.Session{})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, st.Close())
	killedImport(t, t.TempDir(), n, files, sessionsIn(t, os.DirFS(files)))
}

// killedImport imports n sessions into a folder in processes that are killed. The argument
// names the source in a process.
func killedImport[S exchange.Source](t *testing.T, dir string, n int, argument string, source iter.Seq[S]) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	for range storetest.Extent(*storetest.Faults, 6, 20, 50) {
		cmd := storetest.Child(t, "importer", dir, argument)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(out)
		for range 1 + r.IntN(n) {
			lines.Scan()
		}
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // it was killed
	}
	st := open(t, dir)
	_, err := exchange.Import(t.Context(), st, source, nil)
	require.NoError(t, err)
	before, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, before, n)
	report, err := exchange.Import(t.Context(), st, source, nil)
	require.NoError(t, err)
	sources := slices.Collect(source)
	for i, im := range report {
		require.Equal(t, sources[i].Info().ID, im.Session.ID)
		require.False(t, im.Created)
		require.Zero(t, im.Appended)
		history, _ := importedHistory(t, st, im.Session)
		require.Equal(t, sourceHistory(t, sources[i], nil), history)
	}
	after, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, st.Close())
}
