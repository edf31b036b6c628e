package pgdriver_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/puddle/v2"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

func lineOf(id string) driver.Line {
	e := transcript.Entry{ID: id, Body: transcript.Custom{Name: "n"}}
	return driver.Line{ID: e.ID, Data: e.Line()}
}

func headerOf(gen int64) (driver.Row, driver.Line) {
	e := transcript.Entry{ID: "session", Body: transcript.Header{Version: transcript.Version, Key: "key", Gen: gen}}
	return driver.Row{ID: e.ID}, driver.Line{ID: e.ID, Data: e.Line()}
}

var ref = driver.Ref{Agent: "main", ID: "session"}

// opened returns a driver with one session.
func opened(t *testing.T, pool *pgxpool.Pool, schema string) *pgdriver.Driver {
	t.Helper()
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	_, err = d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "key"}, headerOf)
	require.NoError(t, err)
	return d
}

func idsOf(t *testing.T, d *pgdriver.Driver) (ids []string) {
	t.Helper()
	for rec, err := range d.Scan(t.Context(), ref, 0, driver.Forward, nil) {
		require.NoError(t, err)
		ids = append(ids, rec.Entry.ID)
	}
	return ids
}

// poolWith is a pool on the server whose configuration is changed first.
func poolWith(t *testing.T, change func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(server.URL)
	require.NoError(t, err)
	change(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// A connection breaks while the server has yet to run the append. The driver tries
// again, and when the server gets to the first attempt it writes nothing.
func TestAttemptOutlivesItsConnection(t *testing.T) {
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		t.Run("append, "+level, func(t *testing.T) {
			testZombie(t, level, func(ctx context.Context, d *pgdriver.Driver) error {
				_, err := d.Append(ctx, ref, []driver.Line{lineOf("one")}, driver.Anywhere, nil)
				return err
			}, func(d *pgdriver.Driver) { require.Equal(t, []string{"session", "one"}, idsOf(t, d)) })
		})
		t.Run("file, "+level, func(t *testing.T) {
			testZombie(t, level, func(ctx context.Context, d *pgdriver.Driver) error {
				if err := d.Memories().Write(ctx, "a/x", []byte("one")); err != nil {
					return err
				}
				return d.Memories().Write(ctx, "a/x", []byte("two"))
			}, func(d *pgdriver.Driver) {
				data, err := d.Memories().Read(t.Context(), "a/x")
				require.NoError(t, err)
				require.Equal(t, "two", string(data))
			})
		})
	}
}

func testZombie(t *testing.T, level string, write func(context.Context, *pgdriver.Driver) error, check func(*pgdriver.Driver)) {
	admin := poolOf(t, server)
	schema := newSchema(t, admin)
	var forwarded atomic.Int64
	clients := make(chan net.Conn, 100)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(admin.Config().ConnConfig.Port))))
			if err != nil {
				return
			}
			clients <- client
			go func() {
				_, _ = io.Copy(client, up)
				_ = client.Close()
			}()
			go func() {
				buf := make([]byte, 1<<16)
				for {
					n, err := client.Read(buf)
					if err != nil {
						return // what was sent stays with the server
					}
					_, _ = up.Write(buf[:n])
					forwarded.Add(int64(n))
				}
			}()
		}
	}()
	pool := poolWith(t, func(c *pgxpool.Config) {
		c.MaxConns = 1
		c.ConnConfig.Port = uint16(l.Addr().(*net.TCPAddr).Port) //nolint:gosec // a port
		c.ConnConfig.RuntimeParams["application_name"] = schema
		c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
	})
	d := opened(t, pool, schema)
	time.Sleep(10 * time.Millisecond) // the notification is under way
	var pid int
	require.NoError(t, admin.QueryRow(t.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name = $1", schema).Scan(&pid))
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	before := forwarded.Load()
	done := make(chan error, 1)
	go func() {
		done <- write(context.WithoutCancel(t.Context()), d)
	}()
	require.Eventually(t, func() bool { return forwarded.Load() > before }, time.Minute, time.Millisecond)
	require.NoError(t, (<-clients).Close())
	require.NoError(t, <-done)
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	require.Eventually(t, func() bool {
		var busy int
		err := admin.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND state = 'active'", pid).Scan(&busy)
		return err == nil && busy == 0
	}, time.Minute, 5*time.Millisecond)
	time.Sleep(20 * time.Millisecond)
	check(d)
	require.NoError(t, d.Close())
}

// An append that the server refuses does not fail others that share its
// transaction.
func TestRefusedAlone(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d := opened(t, pool, schema)
	exec := func(sql string) {
		_, err := pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	exec(`CREATE FUNCTION ` + schema + `.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$`)
	exec(`CREATE TRIGGER refuse BEFORE INSERT ON ` + schema + `.lines FOR EACH ROW WHEN (NEW.id = 'bad') EXECUTE FUNCTION ` + schema + `.refuse()`)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM "+schema+".sessions FOR UPDATE")
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 20 { // all but the first wait for it, and then go together
		all.Go(func() {
			id := fmt.Sprint("good", i)
			if i == 10 {
				id = "bad"
			}
			_, err := d.Append(t.Context(), ref, []driver.Line{lineOf(id)}, driver.Anywhere, nil)
			if (err != nil) != (id == "bad") {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	require.NoError(t, tx.Rollback(t.Context()))
	all.Wait()
	require.Len(t, idsOf(t, d), 20)
	require.NoError(t, d.Close())
}

// Append refuses text that PostgreSQL cannot store before it sends anything.
func TestTextsThatCannotBeHeld(t *testing.T) {
	pool := poolOf(t, server)
	d := opened(t, pool, newSchema(t, pool))
	line := driver.Line{ID: "a\x00", Data: []byte("{}")}
	_, err := d.Append(t.Context(), ref, []driver.Line{line}, driver.Anywhere, nil)
	require.ErrorIs(t, err, fs.ErrInvalid)
	_, err = d.Append(t.Context(), ref, nil, driver.Anywhere, func(context.Context, driver.Cursor) ([]driver.Line, error) { return []driver.Line{line}, nil })
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.Equal(t, []string{"session"}, idsOf(t, d))
	for _, key := range []string{"\x00", "a\x00b"} {
		row, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: key}, func(gen int64) (driver.Row, driver.Line) {
			row, line := headerOf(gen)
			row.ID += strconv.Itoa(len(key))
			return row, line
		})
		require.NoError(t, err)
		got, err := d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: key}, nil)
		require.NoError(t, err)
		require.Equal(t, key, got.Key)
		require.Equal(t, row.ID, got.ID)
	}
	require.NoError(t, d.Close())
}

// Appends to a full session fail; further cursors would name another one.
func TestFullSession(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d := opened(t, pool, schema)
	_, err := pool.Exec(t.Context(), "UPDATE "+schema+".sessions SET lines = (1 << 24) - 2")
	require.NoError(t, err)
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("a"), lineOf("b")}, driver.Anywhere, nil)
	require.ErrorContains(t, err, "16777215 lines")
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.NoError(t, err)
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("b")}, driver.Anywhere, nil)
	require.ErrorContains(t, err, "16777215 lines")
	require.NoError(t, d.Close())
}

// Calls on a pool that was closed fail at once.
func TestClosedPool(t *testing.T) {
	admin := poolOf(t, server)
	pool := poolWith(t, func(*pgxpool.Config) {})
	d := opened(t, pool, newSchema(t, admin))
	release, err := d.LockTurn(t.Context(), ref, false)
	require.NoError(t, err)
	pool.Close()
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.ErrorIs(t, err, puddle.ErrClosedPool)
	_, err = d.Get(t.Context(), ref)
	require.ErrorIs(t, err, puddle.ErrClosedPool)
	require.ErrorIs(t, d.Archive(t.Context(), ref, driver.Anywhere), puddle.ErrClosedPool)
	require.ErrorIs(t, release(), puddle.ErrClosedPool)
	require.NoError(t, d.Close())
}

// Many drivers begin at once on an empty database, whatever isolation their role has,
// and lose nothing.
func TestIsolationOfTheRole(t *testing.T) {
	admin := poolOf(t, server)
	for _, level := range []string{"read committed", "repeatable read", "serializable"} {
		schema := newSchema(t, admin)
		pool := poolWith(t, func(c *pgxpool.Config) {
			c.MaxConns = 8
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = level
		})
		var all sync.WaitGroup
		drivers := make([]*pgdriver.Driver, 20)
		for i := range drivers {
			all.Go(func() {
				d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
				if err == nil {
					_, err = d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "key"}, headerOf)
				}
				for n := 0; n < 3 && err == nil; n++ {
					_, err = d.Append(t.Context(), ref, []driver.Line{lineOf(fmt.Sprint(i, "-", n))}, driver.Anywhere, nil)
				}
				if drivers[i] = d; err != nil {
					t.Errorf("%s: %v", level, err)
				}
			})
		}
		all.Wait()
		if t.Failed() {
			return
		}
		require.Len(t, idsOf(t, drivers[0]), 61, level)
		for _, d := range drivers {
			require.NoError(t, d.Close())
		}
	}
}

// A wait for the turn that is given up leaves no lock behind.
func TestWaitGivenUp(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d := opened(t, pool, schema)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM "+schema+".sessions FOR UPDATE")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(30*time.Millisecond, cancel)
	_, err = d.LockTurn(ctx, ref, true)
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, d.Close())
	var held int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+schema+".sessions WHERE turn IS NOT NULL").Scan(&held))
	require.Zero(t, held)
}

// Names of schemas that PostgreSQL would cut off are refused, and the longest works,
// notifications included. The connection that listens is made as those of the pool are.
func TestNamesOfSchemas(t *testing.T) {
	admin := poolOf(t, server)
	for _, name := range []string{strings.Repeat("a", 64), `a"b`, "a'b", "a$$b", "a\x00b", "{s}", "\xff"} {
		_, err := pgdriver.Open(t.Context(), admin, &pgdriver.Options{Schema: name})
		require.ErrorIs(t, err, fs.ErrInvalid, name)
	}
	const name = "Ü-long-enough-to-be-cut-off-and-with spaces,-63-bytes-altogeth"
	require.Len(t, name, 63)
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), `DROP SCHEMA "`+name+`" CASCADE`)
		require.NoError(t, err)
	})
	var connects atomic.Int64
	pool := poolWith(t, func(c *pgxpool.Config) {
		c.ConnConfig.Database = "no such one"
		c.BeforeConnect = func(_ context.Context, cc *pgx.ConnConfig) error {
			cc.Database = "postgres"
			connects.Add(1)
			return nil
		}
	})
	here, there := opened(t, pool, name), opened(t, pool, name)
	heard := make(chan driver.Ref, 1000)
	stop, err := here.Watch(ref, func(r driver.Ref, _ error) {
		select {
		case heard <- r:
		default:
		}
	})
	require.NoError(t, err)
	for n, got := 0, (driver.Ref{}); got != ref; n++ { // by its name, not by looking
		_, err := there.Append(t.Context(), ref, []driver.Line{lineOf(strconv.Itoa(n))}, driver.Anywhere, nil)
		require.NoError(t, err)
		select {
		case got = <-heard:
		case <-time.After(20 * time.Millisecond):
		}
	}
	stop()
	require.NoError(t, here.Close())
	require.NoError(t, there.Close())
}
