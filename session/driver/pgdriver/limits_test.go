package pgdriver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
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

// Lines of 16 MiB are appended, read in both directions, archived and restored.
func TestLongLines(t *testing.T) {
	pool := poolOf(t, server)
	d := opened(t, pool, newSchema(t, pool))
	var want []string
	for i := range 2 {
		text := strings.Repeat(fmt.Sprint(i, "汉\\u0000"), 16<<20/10)
		e := transcript.Entry{ID: fmt.Sprint("long", i), Body: transcript.Custom{Name: "n", Data: []byte(`"` + text + `"`)}}
		_, err := d.Append(t.Context(), ref, []driver.Line{lineOf(fmt.Sprint("short", i)), {ID: e.ID, Data: e.Line()}}, driver.Anywhere, nil)
		require.NoError(t, err)
		want = append(want, string(lineOf(fmt.Sprint("short", i)).Data), string(e.Line()))
	}
	require.Greater(t, len(want[1]), 16<<20-100)
	check := func() {
		t.Helper()
		for _, dir := range []driver.Direction{driver.Forward, driver.Backward} {
			var got []string
			for rec, err := range d.Scan(t.Context(), ref, 0, dir, nil) {
				require.NoError(t, err)
				got = append(got, string(rec.Entry.Line()))
			}
			if dir == driver.Backward {
				slices.Reverse(got)
			}
			require.True(t, slices.Equal(want, got[1:]), "%d lines", len(got))
		}
	}
	check()
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	check()
	require.NoError(t, d.Restore(t.Context(), ref))
	check()
	require.NoError(t, d.Close())
}

// Rows with any time that JSON can hold are listed in order, at once and by pages.
func TestExtremeTimes(t *testing.T) {
	pool := poolOf(t, server)
	d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: newSchema(t, pool)})
	require.NoError(t, err)
	times := []time.Time{
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC),
		time.Date(2026, 1, 1, 0, 0, 0, 1, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Unix(0, 0).UTC(), time.Unix(-1, 999_999_999).UTC(),
		time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC),
		{},
		time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for i := range times {
		i = (i*3 + 2) % len(times)
		row, err := d.Create(t.Context(), driver.KeyRef{Agent: "main", Key: "k"}, func(gen int64) (driver.Row, driver.Line) {
			row, line := headerOf(gen)
			row.ID, row.UpdatedAt = fmt.Sprint("s", i), times[(i+1)%len(times)]
			return row, line
		})
		require.NoError(t, err)
		row.UpdatedAt = times[i]
		require.NoError(t, d.Put(t.Context(), row))
	}
	for _, size := range []int{0, 1, 3} {
		var got []time.Time
		for after := (driver.Position{}); ; {
			page, err := d.List(t.Context(), "main", after, size)
			require.NoError(t, err)
			for _, row := range page {
				got = append(got, row.UpdatedAt)
			}
			if len(page) == 0 || size == 0 {
				break
			}
			after = page[len(page)-1].Position()
		}
		require.Equal(t, times, got)
	}
	row, err := d.Get(t.Context(), driver.Ref{Agent: "main", ID: "s0"})
	require.NoError(t, err)
	row.UpdatedAt = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	require.ErrorContains(t, d.Put(t.Context(), row), "year")
	require.NoError(t, d.Close())
}

// A pooler that looks like the server itself forgets statements. The driver notices.
func TestStatementsForgotten(t *testing.T) {
	admin := poolOf(t, server)
	schema := newSchema(t, admin)
	for name, call := range map[string]func(d *pgdriver.Driver) error{
		"read": func(d *pgdriver.Driver) error {
			_, err := d.Get(t.Context(), ref)
			return err
		},
		"append": func(d *pgdriver.Driver) error {
			_, err := d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
			return err
		},
		"archive": func(d *pgdriver.Driver) error {
			return errors.Join(d.Archive(t.Context(), ref, driver.Anywhere), d.Restore(t.Context(), ref))
		},
		"scan": func(d *pgdriver.Driver) error {
			for _, err := range d.Scan(t.Context(), ref, 0, driver.Forward, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			pool := poolWith(t, func(c *pgxpool.Config) { c.MaxConns = 1 })
			d := opened(t, pool, schema)
			require.NoError(t, call(d))
			var prepared int
			require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%'||$1||'%'", pgx.QueryExecModeExec, schema).Scan(&prepared))
			require.Positive(t, prepared)
			_, err := pool.Exec(t.Context(), "DEALLOCATE ALL", pgx.QueryExecModeExec)
			require.NoError(t, err)
			require.NoError(t, call(d))
			require.NoError(t, d.Close())
		})
	}
}

// A row of replaced lines does not count. An append of a caller that has read them fails,
// even if the driver has reported the replacement to another caller.
func TestReplacementReportedToAnotherCall(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	here, there := opened(t, pool, schema), opened(t, pool, schema)
	res, err := here.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.NoError(t, err)
	old, err := here.Get(t.Context(), ref)
	require.NoError(t, err)
	old.Title, old.Size = "old", int64(res.End)
	require.NoError(t, there.Delete(t.Context(), driver.Anywhere, ref))
	_, err = there.Load(t.Context(), driver.KeyRef{Agent: "main", Key: "key"}, headerOf)
	require.NoError(t, err)
	require.NoError(t, here.Put(t.Context(), old))
	now, err := there.Get(t.Context(), ref)
	require.NoError(t, err)
	require.Empty(t, now.Title)
	appendAt := func(at driver.Cursor) error {
		_, err := here.Append(t.Context(), ref, []driver.Line{lineOf("b")}, at, func(context.Context, driver.Cursor) ([]driver.Line, error) {
			return []driver.Line{lineOf("c")}, nil
		})
		return err
	}
	require.ErrorIs(t, appendAt(driver.Anywhere), driver.ErrReplaced)
	for _, at := range []driver.Cursor{^res.End, res.End} {
		require.ErrorIs(t, appendAt(at), driver.ErrReplaced)
	}
	require.Equal(t, []string{"session"}, idsOf(t, here))
	require.NoError(t, appendAt(driver.Anywhere))
	require.NoError(t, here.Close())
	require.NoError(t, there.Close())
}

// Open refuses a server that would lose acknowledged commits, and tables of other versions.
func TestRefusedServer(t *testing.T) {
	pool := poolOf(t, server)
	schema := newSchema(t, pool)
	lax := poolWith(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["synchronous_commit"] = "off" })
	_, err := pgdriver.Open(t.Context(), lax, &pgdriver.Options{Schema: schema})
	require.ErrorContains(t, err, "set Options.Async")
	d, err := pgdriver.Open(t.Context(), lax, &pgdriver.Options{Schema: schema, Async: true})
	require.NoError(t, err)
	require.NoError(t, d.Close())
	for change, want := range map[string]string{"version = 2, min_writer = 1": "use another schema", "version = 99, min_writer = 99": "use a newer driver", "version = 99, min_writer = 3": ""} {
		_, err := pool.Exec(t.Context(), "UPDATE "+schema+".versions SET "+change)
		require.NoError(t, err)
		d, err := pgdriver.Open(t.Context(), pool, &pgdriver.Options{Schema: schema})
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		require.NoError(t, d.Close())
	}
}

// With Existing, Open makes nothing, and a role that may only read can use it.
func TestExisting(t *testing.T) {
	pool := poolOf(t, server)
	opts := &pgdriver.Options{Schema: newSchema(t, pool), Existing: true}
	missing := func() {
		t.Helper()
		_, err := pgdriver.Open(t.Context(), pool, opts)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, opts.Schema)
	}
	missing()
	_, err := pool.Exec(t.Context(), "CREATE SCHEMA "+opts.Schema) // fails if Open has made it
	require.NoError(t, err)
	missing()
	require.NoError(t, opened(t, pool, opts.Schema).Close())
	reader := poolWith(t, func(c *pgxpool.Config) { c.ConnConfig.RuntimeParams["default_transaction_read_only"] = "on" })
	d, err := pgdriver.Open(t.Context(), reader, opts)
	require.NoError(t, err)
	require.Equal(t, []string{"session"}, idsOf(t, d))
	require.NoError(t, d.Close())
}

// A role that may not create tables gets an error with the way out, and works after that.
func TestRoleWithoutRights(t *testing.T) {
	admin := poolOf(t, server)
	schema := newSchema(t, admin)
	role := "app_" + schema
	exec := func(sql string) {
		t.Helper()
		_, err := admin.Exec(t.Context(), strings.NewReplacer("{s}", schema, "{r}", role).Replace(sql))
		require.NoError(t, err)
	}
	exec("CREATE ROLE {r} LOGIN")
	t.Cleanup(func() {
		_, err := admin.Exec(context.Background(), strings.NewReplacer("{r}", role).Replace("DROP OWNED BY {r}; DROP ROLE {r}"))
		require.NoError(t, err)
	})
	app := poolWith(t, func(c *pgxpool.Config) { c.ConnConfig.User = role })
	opts := &pgdriver.Options{Schema: schema}
	refused := func() {
		t.Helper()
		_, err := pgdriver.Open(t.Context(), app, opts)
		require.ErrorContains(t, err, "lacks a right")
		require.ErrorContains(t, err, role)
		require.ErrorContains(t, err, schema)
	}
	refused()
	exec("CREATE SCHEMA {s}")
	refused()
	d, err := pgdriver.Open(t.Context(), admin, opts)
	require.NoError(t, err)
	require.NoError(t, d.Close())
	refused()
	exec("GRANT USAGE ON SCHEMA {s} TO {r}")
	exec("GRANT SELECT ON ALL TABLES IN SCHEMA {s} TO {r}")
	d = opened(t, admin, schema)
	require.NoError(t, d.Close())
	d, err = pgdriver.Open(t.Context(), app, opts)
	require.NoError(t, err)
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.ErrorContains(t, err, "lacks a right")
	require.NoError(t, d.Close())
	exec("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {s} TO {r}")
	exec("GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA {s} TO {r}")
	d = opened(t, app, schema)
	_, err = d.Append(t.Context(), ref, []driver.Line{lineOf("a")}, driver.Anywhere, nil)
	require.NoError(t, err)
	release, err := d.LockTurn(t.Context(), ref, false)
	require.NoError(t, err)
	require.NoError(t, release())
	require.NoError(t, d.Blobs().Put(t.Context(), ref, strings.Repeat("ab", 32), []byte("x")))
	unlock, err := d.Memories().Lock(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, d.Memories().Write(t.Context(), "a/b", []byte("x")))
	require.NoError(t, d.Memories().Remove(t.Context(), "a"))
	unlock()
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	require.NoError(t, d.Restore(t.Context(), ref))
	require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
	require.NoError(t, d.Close())
}
