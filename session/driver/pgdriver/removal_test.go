package pgdriver_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/transcript"
)

// Even with Async, a removal commits as the server's settings say.
func TestAsyncRemoval(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema, Async: true})
	require.NoError(t, err)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), strings.ReplaceAll(sql, "{s}", schema))
		require.NoError(t, err)
	}
	exec("CREATE TABLE {s}.seen (op text, level text)")
	exec(`CREATE FUNCTION {s}.see() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		INSERT INTO {s}.seen VALUES (TG_ARGV[0], current_setting('synchronous_commit')); RETURN NULL; END $$`)
	for _, on := range []string{"INSERT ON {s}.lines", "DELETE ON {s}.lines", "DELETE ON {s}.sessions", "DELETE ON {s}.blobs", "DELETE ON {s}.files"} {
		op := strings.ReplaceAll(on, " ON {s}.", "-")
		exec("CREATE CONSTRAINT TRIGGER see_" + strings.ReplaceAll(op, "-", "_") + " AFTER " + on + " INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {s}.see('" + op + "')")
	}
	seen := func() (levels map[string]string) {
		levels = map[string]string{}
		rows, err := pool.Query(t.Context(), "SELECT op, max(level) FROM "+schema+".seen GROUP BY op")
		require.NoError(t, err)
		for rows.Next() {
			var op, level string
			require.NoError(t, rows.Scan(&op, &level))
			levels[op] = level
		}
		require.NoError(t, rows.Err())
		exec("TRUNCATE {s}.seen")
		return levels
	}
	_, err = d.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "key"}, headerOf)
	require.NoError(t, err)
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.NoError(t, err)
	require.Equal(t, map[string]string{"INSERT-lines": "off"}, seen())
	hash := strings.Repeat("ab", 32)
	require.NoError(t, d.Blobs().Put(t.Context(), ref, hash, []byte("x")))
	require.NoError(t, d.Blobs().Delete(t.Context(), ref, hash))
	require.NoError(t, d.Memories().Write(t.Context(), "a", []byte("x")))
	require.NoError(t, d.Memories().Remove(t.Context(), "a"))
	require.Equal(t, map[string]string{"DELETE-blobs": "on", "DELETE-files": "on"}, seen())
	require.NoError(t, d.Rewrite(t.Context(), ref, func(lines iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		for r, err := range lines {
			if err != nil {
				return err
			}
			if h, ok := r.Entry.Body.(transcript.Header); ok {
				h.Rev++
				r.Entry.Body = h
				return write(r.Entry.WithLine(nil).Line())
			}
		}
		return nil
	}))
	require.Equal(t, map[string]string{"INSERT-lines": "on", "DELETE-lines": "on"}, seen())
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
	require.Equal(t, map[string]string{"DELETE-sessions": "on", "DELETE-lines": "on"}, seen())
	require.NoError(t, d.Close())
}

// A write waits for the lock of a session no longer than its caller, and the error
// names that lock.
func TestLockedByAnother(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d := opened(t, pool, schema)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "SELECT FROM "+schema+".sessions FOR UPDATE")
	require.NoError(t, err)
	for name, call := range map[string]func(context.Context) error{
		"append": func(ctx context.Context) error {
			_, err := d.Append(ctx, ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
			return err
		},
		"update": func(ctx context.Context) error {
			_, err := d.Append(ctx, ref, nil, driver.Anywhere, func(context.Context, driver.Cursor) ([]driver.Line, error) { return nil, nil })
			return err
		},
		"delete":  func(ctx context.Context) error { return d.Delete(ctx, driver.Anywhere, ref) },
		"archive": func(ctx context.Context) error { return d.Archive(ctx, ref, driver.Anywhere) },
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		err := call(ctx)
		cancel()
		require.ErrorContains(t, err, "holds the lock of the session", name)
		require.ErrorContains(t, err, "nothing was written", name)
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
	}
	require.NoError(t, tx.Rollback(t.Context()))
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// A full disk of the server is an error at once.
func TestServerDiskFull(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	d := opened(t, pool, schema)
	exec := func(sql string) {
		t.Helper()
		_, err := pool.Exec(t.Context(), strings.ReplaceAll(sql, "{s}", schema))
		require.NoError(t, err)
	}
	exec("CREATE SEQUENCE {s}.tries")
	exec(`CREATE FUNCTION {s}.full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
		PERFORM nextval('{s}.tries'); RAISE 'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$`)
	exec("CREATE TRIGGER f BEFORE INSERT ON {s}.lines FOR EACH ROW EXECUTE FUNCTION {s}.full()")
	_, err := d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.ErrorContains(t, err, "No space left")
	var tries int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT last_value FROM "+schema+".tries").Scan(&tries))
	require.Equal(t, 1, tries)
	exec("DROP TRIGGER f ON {s}.lines")
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.NoError(t, err)
	require.NoError(t, d.Close())
}

// No function relies on the search path of its caller.
func TestSearchPath(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	require.NoError(t, opened(t, pool, schema).Close())
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_proc WHERE pronamespace = '"+schema+"'::regnamespace AND proconfig IS DISTINCT FROM '{\"search_path=pg_catalog, pg_temp\"}'").Scan(&n))
	require.Zero(t, n)
}
