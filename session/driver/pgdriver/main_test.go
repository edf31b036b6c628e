package pgdriver_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
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
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if server, err = pgtest.Start(context.Background()); err != nil {
		if !errors.Is(err, pgtest.ErrMissing) {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println("skipped:", err)
		return 0
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// poolOf returns a pool on a server.
func poolOf(t testing.TB, s *pgtest.Server) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), s.URL)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// newSchema returns the name of a schema that is dropped after the test.
func newSchema(t testing.TB, pool *pgxpool.Pool) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", schemas.Add(1))
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE")
		require.NoError(t, err)
	})
	return name
}
