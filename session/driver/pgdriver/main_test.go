package pgdriver_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/pgtest"
)

var faults = flag.String("faults", "short", "how many crashes: short, gate or long")

// extent is the amount of work that -faults asks for.
func extent(short, gate, long int) int {
	switch *faults {
	case "gate":
		return gate
	case "long":
		return long
	}
	return short
}

var (
	server  *pgtest.Server // of all tests; nil if none is installed
	schemas atomic.Int64
)

func TestMain(m *testing.M) {
	flag.Parse()
	if len(os.Args) > 1 && os.Getenv("CONVOLOG_CHILD") != "" {
		os.Exit(child(os.Getenv("CONVOLOG_CHILD"), flag.Args()))
	}
	if url := os.Getenv("CONVOLOG_SERVER"); url != "" { // of another process
		server = &pgtest.Server{URL: url}
		os.Exit(m.Run())
	}
	os.Exit(pgtest.Main(m, &server))
}

// poolOf returns a pool on a server.
func poolOf(t testing.TB, s *pgtest.Server) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), s.URL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// emptied removes the rows of a schema's tables, if it is there.
func emptied(t testing.TB, pool *pgxpool.Pool, schema string) {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT format('DELETE FROM %I.%I', schemaname, tablename)
		FROM pg_tables WHERE schemaname = $1 AND tablename <> 'versions'`, schema)
	require.NoError(t, err)
	deletes, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), strings.Join(deletes, ";"), pgx.QueryExecModeSimpleProtocol)
	require.NoError(t, err)
}

// newSchema returns the name of a schema that is dropped after the test.
func newSchema(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	name := fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
		require.NoError(t, err)
	})
	return name
}
