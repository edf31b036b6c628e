package pgdriver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/pgdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
)

// A role without a right on the schema, which may make functions in public as before
// version 15, cannot make the store's role call one: neither a function whose arguments
// fit a call better than the system's function, nor one of the same name.
func TestEvilRole(t *testing.T) {
	admin := poolOf(t, server)
	schema := newSchema(t, admin)
	app, evil := schema+"_app", schema+"_evil"
	exec := func(pool *pgxpool.Pool, format string, args ...any) {
		t.Helper()
		_, err := pool.Exec(t.Context(), fmt.Sprintf(format, args...))
		require.NoError(t, err, format)
	}
	exec(admin, "CREATE ROLE %s LOGIN; CREATE ROLE %s LOGIN; CREATE SCHEMA %s AUTHORIZATION %[1]s; GRANT CREATE ON SCHEMA public TO PUBLIC", app, evil, schema)
	t.Cleanup(func() {
		for _, sql := range []string{"DROP OWNED BY " + evil + " CASCADE", "DROP OWNED BY " + app + " CASCADE", "DROP ROLE " + evil, "DROP ROLE " + app, "REVOKE CREATE ON SCHEMA public FROM PUBLIC"} {
			_, err := admin.Exec(context.Background(), sql)
			require.NoError(t, err)
		}
	})
	as := func(role string) *pgxpool.Pool {
		return poolWith(t, func(cfg *pgxpool.Config) { cfg.ConnConfig.User = role })
	}
	theirs := as(evil)
	_, err := theirs.Exec(t.Context(), "SELECT 1 FROM "+schema+".lines")
	require.ErrorContains(t, err, "permission denied")
	exec(theirs, "CREATE TABLE public.stolen_%s (who text, what text); GRANT ALL ON public.stolen_%[1]s TO PUBLIC", evil)
	body := func(name, result string) string {
		return fmt.Sprintf("AS $$ BEGIN INSERT INTO public.stolen_%s VALUES (current_user, '%s'); RETURN %s; END $$", evil, name, result)
	}
	made := 0
	for _, f := range []struct{ name, args, returns, result string }{
		{"cardinality", "a %s[]", "integer", "pg_catalog.cardinality($1)"},
		{"array_length", "a %s[], b integer", "integer", "pg_catalog.array_length($1, $2)"},
		{"unnest", "a %s[]", "SETOF %s", ""},
		{"coalesce_it", "a %s", "%s", "$1"},
		{"max", "a %s", "%s", "$1"},
		{"min", "a %s", "%s", "$1"},
		{"length", "a %s", "integer", "0"},
		{"octet_length", "a %s", "integer", "0"},
		{"now", "", "timestamptz", "pg_catalog.now()"},
		{"clock_timestamp", "", "timestamptz", "pg_catalog.clock_timestamp()"},
		{"nextval", "a text", "bigint", "1"},
		{"set_config", "a text, b text, c boolean", "text", "pg_catalog.set_config($1, $2, $3)"},
		{"current_setting", "a text", "text", "pg_catalog.current_setting($1)"},
		{"pg_notify", "a text, b text", "void", "pg_catalog.pg_notify($1, $2)"},
	} {
		for _, typ := range []string{"text", "bytea", "bigint", "integer", "uuid", "boolean"} {
			args, returns := strings.ReplaceAll(f.args, "%s", typ), strings.ReplaceAll(f.returns, "%s", typ)
			code := body(f.name+"("+typ+")", f.result)
			if f.result == "" {
				code = strings.Replace(code, "RETURN ; END", "RETURN QUERY SELECT pg_catalog.unnest($1); END", 1)
			}
			if returns == "void" {
				code = strings.Replace(code, "RETURN "+f.result, "PERFORM "+f.result, 1)
			}
			exec(theirs, "CREATE OR REPLACE FUNCTION public.%s(%s) RETURNS %s LANGUAGE plpgsql %s", f.name, args, returns, code)
			made++
		}
	}
	require.Greater(t, made, 50)

	d, err := pgdriver.Open(t.Context(), as(app), &pgdriver.Options{Schema: schema})
	require.NoError(t, err)
	st := session.OpenDriver(d, &session.Options{Filters: []session.Filter{blobs.Filter(d.Blobs(), nil)}})
	ctx := t.Context()
	key := session.Key{Agent: "main", Channel: "c", Peer: "p"}
	s, err := st.Load(ctx, key)
	require.NoError(t, err)
	ids, err := s.Append(ctx, transcript.UserText("private words"), transcript.AssistantText("Yes."))
	require.NoError(t, err)
	_, err = s.AppendIf(ctx, session.Cond{Idem: "k"}, transcript.UserText("more"))
	require.NoError(t, err)
	fork, err := s.Fork(ctx, ids[0], nil)
	require.NoError(t, err)
	require.NoError(t, s.MakeCurrent(ctx))
	unlock, err := s.LockTurn(ctx, false)
	require.NoError(t, err)
	_, err = s.Append(ctx, transcript.UserText("in a turn"))
	require.NoError(t, err)
	require.NoError(t, unlock())
	require.NoError(t, st.SetState(ctx, fork.Ref(), session.Archived, -1))
	require.NoError(t, retain.Trash(ctx, st, fork.Ref()))
	require.NoError(t, retain.Restore(ctx, st, fork.Ref()))
	_, err = st.List(ctx, &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	_, err = s.History(ctx)
	require.NoError(t, err)
	known, err := memory.Open(d.Memories(), nil)
	require.NoError(t, err)
	_, err = known.Add(ctx, memory.Scope{Agent: "main", Owner: "alice"}, "preferences", "tea", "Alice likes tea.")
	require.NoError(t, err)
	plan, err := erase.Preview(ctx, st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: ids[:1]}}})
	require.NoError(t, err)
	receipt, err := erase.Run(ctx, st, plan)
	require.NoError(t, err)
	for _, want := range []string{"dead rows", "write-ahead log", "replicas", "backups"} {
		require.Contains(t, strings.Join(receipt.Beyond, "\n"), want)
	}
	require.NotContains(t, strings.Join(receipt.Beyond, "\n"), "folder")
	require.NoError(t, retain.Delete(ctx, st, s.Ref(), fork.Ref()))
	removed, err := retain.Removals(ctx, st)
	require.NoError(t, err)
	require.Len(t, removed, 2)
	require.NoError(t, d.Flush(ctx, driver.Ref{Agent: "_removed", ID: "none"}, false))
	require.NoError(t, st.Close())

	rows, err := admin.Query(ctx, "SELECT who || ' called ' || what FROM public.stolen_"+evil)
	require.NoError(t, err)
	for rows.Next() {
		var called string
		require.NoError(t, rows.Scan(&called))
		t.Error(called)
	}
	require.NoError(t, rows.Err())
}
