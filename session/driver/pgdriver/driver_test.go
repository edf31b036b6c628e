package pgdriver_test

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/sessiontest"
)

// server returns a pool on the test server, which the environment names, and a
// schema of its own.
func server(t *testing.T) (pool *pgxpool.Pool, schema string) {
	url := os.Getenv("CONVOLOG_POSTGRES")
	if url == "" {
		t.Skip("CONVOLOG_POSTGRES names no server")
	}
	pool, err := pgxpool.New(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	schema = fmt.Sprintf("test_%d_%d", os.Getpid(), schemas.Add(1))
	t.Cleanup(func() {
		_, err := pool.Exec(context.Background(), "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE")
		require.NoError(t, err)
	})
	return pool, schema
}

var schemas atomic.Int64

func TestDriver(t *testing.T) {
	sessiontest.TestDriver(t, func(t *testing.T) sessiontest.Storage {
		pool, schema := server(t)
		return sessiontest.Storage{
			Open: func() (driver.Driver, error) {
				return pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
			},
			Shared: true,
		}
	})
}
