package pgdriver_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// No statement reads a table from end to end: the server counts the scans of the
// driver's actual calls, statements inside functions included. With -faults=long there
// are 100,000 sessions and 10 million lines, which take two minutes.
func TestIndexScans(t *testing.T) {
	pool := poolOf(t, server)
	ctx, schema := t.Context(), newSchema(t, pool)
	s := pgx.Identifier{schema}.Sanitize()
	sessions, each := extent(3_000, 20_000, 100_000), extent(10, 20, 100)
	header := func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: "mine", Body: transcript.Header{Version: transcript.Version, Key: "key", Gen: gen}}
		return driver.Row{ID: e.ID, UpdatedAt: time.Unix(500, 0)}, driver.Line{ID: e.ID, Data: e.Line()}
	}
	var row driver.Row
	counted(t, pool, schema, func(pool *pgxpool.Pool, d *pgdriver.Driver) {
		var err error
		row, err = d.Load(ctx, driver.KeyRef{Agent: "main", Key: "key"}, header)
		require.NoError(t, err)
		exec := func(sql string) {
			t.Helper()
			_, err := pool.Exec(ctx, sql)
			require.NoError(t, err)
		}
		exec(fmt.Sprintf(`INSERT INTO %[1]s.sessions (agent, id, lines, bytes, owner, key, key_hash, gen, rev, updated_s, updated_ns, row)
			SELECT 'main', 's' || n, %[2]d, 3 * %[2]d, '', 'k', sha256(n::text::bytea), 1, 0, n, 0, '{}' FROM generate_series(1, %[3]d) n`, s, each, sessions))
		exec(fmt.Sprintf(`INSERT INTO %[1]s.lines (body, seq, id, data)
			SELECT t.body, n, 'l' || n, '{}' FROM %[1]s.sessions t, generate_series(1, %[2]d) n WHERE t.id <> 'mine'`, s, each))
		exec("ANALYZE " + s + ".sessions, " + s + ".lines")
	})
	for _, table := range []string{"sessions", "lines"} {
		var rows, bytes, index int64
		require.NoError(t, pool.QueryRow(ctx, `SELECT reltuples::bigint, pg_table_size(oid), pg_indexes_size(oid)
			FROM pg_class WHERE oid = $1::regclass`, s+"."+table).Scan(&rows, &bytes, &index))
		t.Logf("%s: %d rows, %d MB, and %d MB of indexes", table, rows, bytes>>20, index>>20)
	}
	scans := func() (whole, by int64) {
		t.Helper()
		err := pool.QueryRow(ctx, `SELECT sum(seq_scan), sum(idx_scan) FROM pg_stat_user_tables
			WHERE schemaname = $1 AND relname IN ('sessions', 'lines')`, schema).Scan(&whole, &by)
		require.NoError(t, err)
		return whole, by
	}
	before, by := scans()

	const rounds = 50
	counted(t, pool, schema, func(_ *pgxpool.Pool, d *pgdriver.Driver) {
		for n := range rounds {
			e := transcript.Entry{ID: fmt.Sprint("e", n), Body: transcript.Custom{Name: "n"}}
			line := driver.Line{ID: e.ID, Data: e.Line()}
			_, err := d.Append(ctx, row.Ref(), []driver.Line{line}, driver.Anywhere, nil)
			require.NoError(t, err)
			_, err = d.Load(ctx, driver.KeyRef{Agent: "main", Key: "key"}, nil)
			require.NoError(t, err)
			list, err := d.List(ctx, "main", driver.Position{UpdatedAt: time.Unix(int64(sessions/2), 0), ID: "~"}, 20)
			require.NoError(t, err)
			require.Len(t, list, 20)
			require.NoError(t, d.Put(ctx, row))
			for _, dir := range []driver.Direction{driver.Forward, driver.Backward} {
				for _, err := range d.Scan(ctx, row.Ref(), 0, dir, nil) {
					require.NoError(t, err)
				}
			}
			_, err = d.List(ctx, "", driver.Position{}, 0)
			require.NoError(t, err)
		}
	})
	after, now := scans()
	require.GreaterOrEqual(t, now, by+5*rounds)
	require.Equal(t, before, after, "a table was read from end to end")
}

// counted calls f with a driver on connections of its own, and returns when the server
// has counted their reads, which it does at the latest when they end.
func counted(t *testing.T, pool *pgxpool.Pool, schema string, f func(*pgxpool.Pool, *pgdriver.Driver)) {
	t.Helper()
	config := pool.Config()
	config.ConnConfig.RuntimeParams["application_name"] = schema
	own, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	d, err := pgdriver.Open(t.Context(), own, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	f(own, d)
	require.NoError(t, d.Close())
	own.Close()
	require.Eventually(t, func() bool {
		n := 0
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", schema).Scan(&n)
		return err == nil && n == 0
	}, time.Minute, 10*time.Millisecond)
}
