package exchange_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
)

func init() { storetest.Register("importer", importer) }

// importer imports chats into a folder, and reports each session.
func importer(args []string, _ io.Reader, stdout io.Writer) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	st, err := session.Open(args[0], &session.Options{
		Sync:  session.SyncNever,
		Audit: func(_ context.Context, a session.Action) { fmt.Fprintln(stdout, a.Session.ID) },
	})
	if err != nil {
		return err
	}
	_, err = exchange.Import(context.Background(), st, chats(n), nil)
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
// of the source, and a second one adds nothing.
func TestImportProcessKilled(t *testing.T) {
	n, kills := storetest.Extent(*storetest.Faults, 60, 200, 1_000), storetest.Extent(*storetest.Faults, 6, 20, 50)
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	for range kills {
		cmd := storetest.Child(t, "importer", dir, strconv.Itoa(n))
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
	_, err := exchange.Import(t.Context(), st, chats(n), nil)
	require.NoError(t, err)
	before, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, before, n)
	report, err := exchange.Import(t.Context(), st, chats(n), nil)
	require.NoError(t, err)
	for i, im := range report {
		require.Equal(t, fmt.Sprint("c-", i), im.Session.ID)
		require.False(t, im.Created)
		require.Zero(t, im.Appended)
		history, _ := importedHistory(t, st, im.Session)
		require.Equal(t, sourceHistory(t, nth(chats(n), i), nil), history)
	}
	after, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, before, after)
	require.NoError(t, st.Close())
}

// nth returns the element of a sequence with an index.
func nth[T any](all iter.Seq[T], n int) (v T) {
	for v = range all {
		if n--; n < 0 {
			break
		}
	}
	return v
}
