package pgdriver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// Flush writes commits to disk that had not waited for it.
func TestFlushOfAsyncAppends(t *testing.T) {
	pool := poolOf(t, server)
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: newSchema(t, pool), Async: true})
	require.NoError(t, err)
	row, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "key"}, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "session", Body: transcript.Header{Version: transcript.Version, Key: "key", Gen: gen}}
		return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Data: e.Line()}
	})
	require.NoError(t, err)
	for range 20 {
		_, err := d.Append(t.Context(), row.Ref(), []driver.Line{note("n")}, driver.Anywhere, nil)
		require.NoError(t, err)
		var end string
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_current_wal_insert_lsn()::text").Scan(&end))
		require.NoError(t, d.Flush(t.Context(), row.Ref(), false))
		var flushed bool
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT pg_current_wal_flush_lsn() >= $1::text::pg_lsn", end).Scan(&flushed))
		require.True(t, flushed)
	}
	require.NoError(t, d.Close())
}
