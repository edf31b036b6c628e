package exchange_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// Every way of removing, putting away, handing out and bringing in a session reports one
// action to Options.Audit, with its owner and its outcome, and no other call reports one.
func TestAudit(t *testing.T) {
	var got []string
	audited := func(_ context.Context, a session.Action) {
		got = append(got, fmt.Sprintf("%s %s %s %v", a.Name, a.Session.ID, a.Owner, a.Err == nil))
	}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Audit: audited})
	defer storetest.Close(t, st)
	ctx := t.Context()
	alice, err := st.Scope("alice")
	require.NoError(t, err)
	own, err := alice.Create(ctx, storetest.CLI, &session.CreateOptions{ID: "own"})
	require.NoError(t, err)
	storetest.Add(t, own, transcript.UserText("my words"))
	require.Empty(t, got)
	step := func(want []string, err error) {
		t.Helper()
		require.NoError(t, err)
		require.Equal(t, want, got)
		got = nil
	}
	given, err := st.Create(ctx, storetest.CLI, &session.CreateOptions{ID: "given", Owner: "bob"})
	step([]string{"owner given  true"}, err)
	_, err = own.Fork(ctx, "own", &session.CreateOptions{ID: "fork"})
	step(nil, err)
	unscoped, err := st.Get(ctx, own.Ref())
	require.NoError(t, err)
	_, err = unscoped.Fork(ctx, "own", &session.CreateOptions{ID: "fork2", Owner: "bob"})
	step([]string{"owner fork2  true"}, err)

	export := []string{"export own alice true"}
	step(export, exchange.Lines(ctx, own, io.Discard))
	step(export, exchange.Markdown(ctx, own, io.Discard))
	step(export, exchange.HTML(ctx, own, io.Discard))
	step(export, storetest.ErrOf(exchange.Request(ctx, own, io.Discard, anthropic.Format{}, transcript.Request{Model: "m"})))
	w, err := dialect.NewWriter(dialect.ZyHive, func(string) (io.WriteCloser, error) { return &exportedFile{to: fstest.MapFS{}}, nil })
	require.NoError(t, err)
	step(export, storetest.ErrOf(exchange.Export(ctx, own, w, dialect.Session{})))

	step([]string{"archive own alice true"}, alice.SetState(ctx, own.Ref(), session.Archived, -1))
	step([]string{"restore own alice true"}, retain.Restore(ctx, alice, own.Ref()))
	step([]string{"trash own alice true"}, retain.Trash(ctx, alice, own.Ref()))
	require.Error(t, retain.Delete(ctx, alice, given.Ref()))
	step([]string{"delete given alice false"}, nil)
	step([]string{"delete fork alice true"}, retain.Delete(ctx, alice, session.Ref{ID: "fork"}))
	require.ErrorIs(t, st.DeleteAt(ctx, given.Ref(), 1), session.ErrConflict)
	step([]string{"delete given  false"}, nil)
	plan, err := retain.Preview(ctx, st, retain.Policy{Now: func() time.Time { return time.Now().AddDate(1, 0, 0) }})
	require.NoError(t, err)
	_, err = retain.Apply(ctx, st, plan)
	step([]string{"delete own  true", "retention   true"}, err)
	gone, err := erase.Preview(ctx, st, erase.Erasure{Owner: "bob"})
	require.NoError(t, err)
	_, err = erase.Run(ctx, st, gone)
	require.NoError(t, err)
	require.Equal(t, "erase   true", got[len(got)-1])
	require.Contains(t, got, "delete given  true")
	got = nil

	file := storetest.JSON(t, map[string]any{"type": "user", "content": "hi", "ts": 1771927201.5}) + "\n"
	folder, err := dialect.ReadFolder(fstest.MapFS{"elsewhere.jsonl": {Data: []byte(file)}})
	require.NoError(t, err)
	_, err = exchange.Import(ctx, alice, folder.Sessions(), &exchange.ImportOptions{DryRun: true})
	step(nil, err)
	reports, err := exchange.Import(ctx, alice, folder.Sessions(), nil)
	step([]string{"import " + reports[0].Session.ID + " alice true"}, err)
	to := session.OpenDriver(memdriver.New(nil), &session.Options{Audit: audited})
	defer storetest.Close(t, to)
	_, err = exchange.Copy(ctx, st, to, nil)
	slices.Sort(got)
	id := reports[0].Session.ID
	step([]string{"export " + id + "  true", "import " + id + "  true", "owner " + id + "  true"}, err)
}
