package pgdriver_test

import (
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/pgtest"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/memory/memorytest"
	"github.com/convolog/convolog/session/sessiontest"
)

func TestDriver(t *testing.T) {
	pool := poolOf(t, server)
	sessiontest.TestDriver(t, storages(pool, newSchema(t, pool), pool))
}

// storages returns the storage of a schema, without its rows, for drivers on a pool.
func storages(admin *pgxpool.Pool, schema string, pool *pgxpool.Pool) func(t *testing.T) sessiontest.Storage {
	return func(t *testing.T) sessiontest.Storage {
		emptied(t, admin, schema)
		return sessiontest.Storage{
			Open: func() (driver.Driver, error) {
				return pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
			},
			Shared: true,
		}
	}
}

// Two processes run the suite at the same time in one database.
func TestDriverTwice(t *testing.T) {
	if extent(0, 1, 1) == 0 {
		t.Skip("with -faults=gate")
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDriver$")
	cmd.Env = append(os.Environ(), "CONVOLOG_SERVER="+server.URL)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	require.NoError(t, cmd.Start())
	TestDriver(t)
	require.NoError(t, cmd.Wait())
}

// Through a PgBouncer in transaction mode, with more connections of the driver than
// to the server, the driver works as without it.
func TestPgBouncer(t *testing.T) {
	url, stop, err := server.Bouncer(t.Context())
	if errors.Is(err, pgtest.ErrNoBouncer) {
		t.Skip(err)
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, stop()) }()
	admin := poolOf(t, server)
	pool, err := pgxpool.New(t.Context(), url+"&pool_max_conns=16")
	require.NoError(t, err)
	defer pool.Close()
	schema := newSchema(t, admin)
	storage := storages(admin, schema, pool)
	rules := 0
	sessiontest.TestDriver(t, func(t *testing.T) sessiontest.Storage {
		if rules++; rules%4 != 1 && extent(0, 1, 1) == 0 {
			t.Skip("with -faults=gate")
		}
		return storage(t)
	})
	t.Run("memories", func(t *testing.T) {
		memorytest.TestStorage(t, func(t *testing.T) func() memory.Storage {
			emptied(t, admin, schema)
			return func() memory.Storage {
				d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, d.Close()) })
				return d.Memories()
			}
		})
	})
	t.Run("blobs", func(t *testing.T) { testBlobsOfAStore(t, admin, newSchema(t, admin), pool) })
}
