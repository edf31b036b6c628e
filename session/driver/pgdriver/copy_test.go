package pgdriver_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/copytest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
)

// A folder, its copy in a database and that copy's copy in a folder are the same.
func TestCopy(t *testing.T) {
	pool := poolOf(t, server)
	for seed := range uint64(extent(2, 10, 50)) {
		folder := func() (*session.Store, blobs.Store) {
			dir := t.TempDir()
			opts := withBlobs(blobs.Folder(dir))
			opts.Sync = session.SyncNever
			st, err := session.Open(dir, opts)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			return st, blobs.Folder(dir)
		}
		text := func(st *session.Store) string {
			text, err := copytest.Text(t.Context(), st)
			require.NoError(t, err)
			return text
		}
		schema := newSchema(t, pool)
		d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
		require.NoError(t, err)
		from, fromBlobs := folder()
		middle := session.OpenDriver(d, withBlobs(d.Blobs()))
		end, endBlobs := folder()
		there := &exchange.CopyOptions{From: fromBlobs, To: d.Blobs()}
		require.NoError(t, copytest.Fill(t.Context(), from, seed, 60))
		for round := range uint64(2) {
			want := text(from)
			report, err := exchange.Copy(t.Context(), from, middle, there)
			require.NoError(t, err)
			require.Equal(t, want, text(middle), seed)
			_, err = exchange.Copy(t.Context(), middle, end, &exchange.CopyOptions{From: d.Blobs(), To: endBlobs})
			require.NoError(t, err)
			require.Equal(t, want, text(end), seed)
			again, err := exchange.Copy(t.Context(), from, middle, there)
			require.NoError(t, err)
			require.Equal(t, exchange.CopyReport{Sessions: report.Sessions}, again, "a second copy brings nothing")
			require.NoError(t, copytest.Grow(t.Context(), from, 100*seed+round, 20))
		}
		infos, err := middle.List(t.Context(), &session.ListOptions{State: session.AnyState})
		require.NoError(t, err)
		for _, info := range infos {
			require.NoError(t, middle.Delete(t.Context(), info.Ref))
		}
		for _, table := range []string{"sessions", "lines", "blocks", "blobs", "unborn"} {
			require.Zero(t, countOf(t, pool, schema, table), table)
		}
		require.NoError(t, middle.Close())
	}
}

// An idempotency key is found in a copy, even for a batch of many lines that crosses
// the end of a chunk.
func TestCopyKeepsKeys(t *testing.T) {
	pool := poolOf(t, server)
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: newSchema(t, pool)})
	require.NoError(t, err)
	from, to := session.OpenDriver(memdriver.New(nil), nil), session.OpenDriver(d, nil)
	s, err := from.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	var batch []transcript.Item
	for range 5 {
		batch = append(batch, transcript.UserText(strings.Repeat("long ", 50_000)))
	}
	_, err = s.Append(t.Context(), batch[:2]...)
	require.NoError(t, err)
	for n := range 3 {
		_, err := s.AppendIf(t.Context(), session.Cond{Idem: fmt.Sprint("key", n)}, batch...)
		require.NoError(t, err)
	}
	_, err = exchange.Copy(t.Context(), from, to, nil)
	require.NoError(t, err)
	copied, err := to.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	for n := range 3 {
		done, err := copied.AppendIf(t.Context(), session.Cond{Idem: fmt.Sprint("key", n)}, batch...)
		require.NoError(t, err)
		require.True(t, done.Repeated, n)
	}
	require.NoError(t, to.Close())
}
