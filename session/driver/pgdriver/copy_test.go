package pgdriver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/copytest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/exchange"
)

// A folder, its copy in a database and the copy of that in a folder are the same.
func TestCopy(t *testing.T) {
	pool := poolOf(t, server)
	for seed := range uint64(extent(2, 10, 50)) {
		folder := func() *session.Store {
			dir := t.TempDir()
			st, err := session.Open(dir, &session.Options{Sync: session.SyncNever, Blobs: blobs.New(dir)})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, st.Close()) })
			return st
		}
		text := func(st *session.Store) string {
			text, err := copytest.Text(t.Context(), st)
			require.NoError(t, err)
			return text
		}
		d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: newSchema(t, pool)})
		require.NoError(t, err)
		from, middle, end := folder(), session.OpenDriver(d, &session.Options{Blobs: blobs.NewMemory()}), folder()
		require.NoError(t, copytest.Fill(t.Context(), from, seed, 60))
		for round := range uint64(2) {
			want := text(from)
			report, err := exchange.Copy(t.Context(), from, middle, nil)
			require.NoError(t, err)
			require.Equal(t, want, text(middle), seed)
			_, err = exchange.Copy(t.Context(), middle, end, nil)
			require.NoError(t, err)
			require.Equal(t, want, text(end), seed)
			again, err := exchange.Copy(t.Context(), from, middle, nil)
			require.NoError(t, err)
			require.Equal(t, exchange.CopyReport{Sessions: report.Sessions}, again, "a second copy brings nothing")
			require.NoError(t, copytest.Grow(t.Context(), from, 100*seed+round, 20))
		}
		require.NoError(t, middle.Close())
	}
}
