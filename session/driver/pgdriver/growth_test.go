package pgdriver_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// prose returns a function that returns texts of a length, cut out of human prose.
func prose(t testing.TB) func(n int) string {
	t.Helper()
	var sb strings.Builder
	for _, name := range []string{"ARCHITECTURE.md", "docs/BENCHMARKS.md", "docs/FORMAT.md", "README.md"} {
		text, err := os.ReadFile("../../../" + name)
		require.NoError(t, err)
		sb.Write(text)
	}
	text, r := strings.ToValidUTF8(sb.String(), ""), rand.New(rand.NewPCG(1, 2))
	return func(n int) string {
		at := r.IntN(len(text) - n)
		return strings.ToValidUTF8(text[at:at+n], "")
	}
}

// made returns a session with lines, one append for each.
func made(t testing.TB, d *pgdriver.Driver, id string, lines int, text func() string) driver.Ref {
	t.Helper()
	ctx, ref := t.Context(), driver.Ref{Agent: "main", ID: id}
	_, err := d.Create(ctx, driver.KeyRef{Agent: "main", Key: "main:web:" + id}, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: id, Time: time.Unix(1_800_000_000, 0), Body: transcript.Header{Version: transcript.Version, Key: "main:web:" + id, Gen: gen}}
		return driver.Row{ID: id, Title: "What does a week in Porto cost?", Owner: "ada", UpdatedAt: e.Time, CreatedAt: e.Time}, driver.Line{ID: e.ID, Data: e.Line()}
	})
	require.NoError(t, err)
	for n := range lines {
		e := transcript.Entry{
			ID:   fmt.Sprintf("0193a2c4-5d6e-7f80-91a2-%012d", n),
			Body: transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser, Content: transcript.UserText(text()).Content},
		}
		_, err := d.Append(ctx, ref, []driver.Line{{ID: e.ID, Data: e.Line()}}, driver.Anywhere, nil)
		require.NoError(t, err)
	}
	return ref
}

// sizes returns the bytes that the tables of a schema and their indexes take.
func sizes(t testing.TB, pool *pgxpool.Pool, schema string) (table, index map[string]float64) {
	t.Helper()
	table, index = map[string]float64{}, map[string]float64{}
	rows, err := pool.Query(t.Context(), `SELECT relname, pg_table_size(relid), pg_indexes_size(relid) FROM pg_stat_user_tables WHERE schemaname = $1`, schema)
	require.NoError(t, err)
	var name string
	var a, b float64
	_, err = pgx.ForEachRow(rows, []any{&name, &a, &b}, func() error {
		table[name], index[name] = a, b
		return nil
	})
	require.NoError(t, err)
	return table, index
}

// The table of GROWTH.md: the bytes that a line takes. With -faults=long there are
// enough of them for the figures; -v prints these.
func TestGrowth(t *testing.T) {
	pool, cut := poolOf(t, server), prose(t)
	sessions, lines := extent(8, 8, 200), 50
	t.Log("size | bytes of a line | its row | index | session | write-ahead log | archived")
	for _, size := range []int{300, 1 << 10, 10 << 10} {
		ctx, schema := t.Context(), newSchema(t, pool)
		d, err := pgdriver.Open(ctx, pool, &pgdriver.Options{Schema: schema, Async: true})
		require.NoError(t, err)
		wal := func() (n float64) {
			require.NoError(t, pool.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'").Scan(&n))
			return n
		}
		vacuum := func() {
			for _, table := range []string{"sessions", "lines", "keys", "blocks"} {
				_, err := pool.Exec(ctx, "VACUUM ANALYZE "+pgx.Identifier{schema, table}.Sanitize())
				require.NoError(t, err)
			}
		}
		before := wal()
		var refs []driver.Ref
		for n := range sessions {
			refs = append(refs, made(t, d, fmt.Sprintf("0193a2c4-5d6e-7f80-91a2-%012d", n), lines, func() string { return cut(size) }))
		}
		after := wal()
		vacuum()
		var data float64
		require.NoError(t, pool.QueryRow(ctx, "SELECT avg(octet_length(data)) FROM "+pgx.Identifier{schema, "lines"}.Sanitize()+" WHERE seq > 1").Scan(&data))
		n := float64(sessions * lines)
		table, index := sizes(t, pool, schema)
		for _, ref := range refs {
			require.NoError(t, d.Archive(ctx, ref, driver.Anywhere))
		}
		archive, _ := sizes(t, pool, schema)
		row := []float64{
			data, table["lines"] / n, index["lines"] / n,
			(table["sessions"] + index["sessions"] + table["keys"] + index["keys"]) / float64(sessions), (after - before) / n, archive["blocks"] / n,
		}
		t.Logf("%d | %.0f", size, row)
		require.Less(t, row[1]+row[2], 1.3*data+250, "a line takes more than GROWTH.md says")
		require.NoError(t, d.Close())
	}
}

// The statements of GROWTH.md partition a schema with lines in it. The driver works
// there, and each statement looks at one partition, by its index.
func TestPartitions(t *testing.T) {
	pool, cut := poolOf(t, server), prose(t)
	ctx, schema := t.Context(), newSchema(t, pool)
	d, err := pgdriver.Open(ctx, pool, &pgdriver.Options{Schema: schema, Async: true})
	require.NoError(t, err)
	text := func() string { return cut(300) }
	old := made(t, d, "old", 20, text)
	page, err := os.ReadFile("GROWTH.md")
	require.NoError(t, err)
	ddl := regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllSubmatch(page, -1)
	require.Len(t, ddl, 2, "settings and partitions")
	conn, err := pool.Acquire(ctx)
	require.NoError(t, err)
	for _, statements := range ddl {
		_, err = conn.Conn().PgConn().Exec(ctx, strings.ReplaceAll(string(statements[1]), "convolog.", pgx.Identifier{schema}.Sanitize()+".")).ReadAll()
		require.NoError(t, err)
	}
	conn.Release()

	count := func(ref driver.Ref) (n int) {
		for _, err := range d.Scan(ctx, ref, 0, driver.Forward, nil) {
			require.NoError(t, err)
			n++
		}
		return n
	}
	require.Equal(t, 21, count(old))
	now := made(t, d, "now", 20, text)
	lines := pgx.Identifier{schema, "lines"}.Sanitize()
	_, err = pool.Exec(ctx, "INSERT INTO "+lines+` SELECT b, n, 'i', 'data' FROM generate_series(1000, 1999) b, generate_series(1, 100) n`)
	require.NoError(t, err)
	_, err = pool.Exec(ctx, "ANALYZE "+lines)
	require.NoError(t, err)
	for _, query := range []string{
		"SELECT data FROM {s}.lines WHERE body = $1 AND seq > 3 AND seq <= 1000 ORDER BY seq LIMIT 100",
		"SELECT data FROM {s}.lines WHERE body = $1 AND seq <= 1000 ORDER BY seq DESC LIMIT 100",
		"INSERT INTO {s}.lines (body, seq, id, data) VALUES ($1, 1000, 'i', 'd')",
		"DELETE FROM {s}.lines WHERE body = $1",
	} {
		query = strings.NewReplacer("{s}", pgx.Identifier{schema}.Sanitize(), "$1", "1500").Replace(query)
		rows, err := pool.Query(ctx, "EXPLAIN "+query)
		require.NoError(t, err)
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		text := strings.Join(plan, "\n")
		require.NotContains(t, text, "Seq Scan")
		require.LessOrEqual(t, strings.Count(text, "Scan using"), 1, text)
	}

	for range 2 {
		require.Equal(t, 21, count(now))
		require.NoError(t, d.Archive(ctx, now, driver.Anywhere))
		require.Equal(t, 21, count(now))
		require.NoError(t, d.Restore(ctx, now))
	}
	again := made(t, d, "again", 3, text)
	require.NoError(t, d.Delete(ctx, driver.Anywhere, again, old))
	require.Equal(t, 21, count(now))
	require.NoError(t, d.Close())
}
