package session_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// Once a store masks, a program without the filter writes no secret, and is warned.
func TestMaskedStoreRemembers(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, masking(redact.Secrets))
	require.Empty(t, storetest.Grep(t, dir, "masked"), "a store without a line remembers nothing")
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("hello"))
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 1, "the note is no session of an application")
	storetest.Close(t, st)

	var log bytes.Buffer
	st = storetest.Open(t, dir, &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("Use "+storetest.Secret))
	require.NoError(t, storetest.ErrOf(st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Title: storetest.Secret})))
	storetest.Close(t, st)
	require.Empty(t, storetest.Grep(t, dir, storetest.Secret))
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())

	st = storetest.Open(t, dir, &session.Options{ReadOnly: true})
	storetest.Close(t, st)
}

// A store that does not mask stays as it is, even if another program reads it with a hook.
func TestUnmaskedStore(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("Use "+storetest.Secret))
	storetest.Close(t, st)
	o := masking(redact.Secrets)
	o.ReadOnly = true
	st = storetest.Open(t, dir, o)
	_, err := storetest.Load(t, st, storetest.CLI).FilterWrite(t.Context(), []transcript.Entry{{Body: transcript.System{Text: storetest.Secret}}})
	require.NoError(t, err)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("Use "+storetest.Secret))
	storetest.Close(t, st)
	require.Len(t, storetest.Grep(t, dir, storetest.Secret), 2)
}

// The first program masks with its own hook in a scope; others with the ready
// one.
func TestMaskedStoreOfScopes(t *testing.T) {
	drv := memdriver.New(nil)
	hook := func(_ context.Context, s string) string { return strings.ReplaceAll(s, "4711", "[account]") }
	st := session.OpenDriver(drv, masking(hook))
	for _, owner := range []string{"alice", "bob"} {
		scope, err := st.Scope(owner)
		require.NoError(t, err)
		storetest.Add(t, storetest.Load(t, scope, storetest.CLI), transcript.UserText("I am 4711"))
	}
	other := session.OpenDriver(drv, nil)
	s := storetest.Load(t, other, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("4711 "+storetest.Secret))
	require.Contains(t, storetest.History(t, s), "4711 [masked]")
	storetest.Close(t, st)
}

// Labels pass the filters, in the transcript and in the index, as does an imported header.
func TestRedactLabels(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, masking(redact.Secrets))
	_ = storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Labels: []string{"red", "note: password=" + storetest.Secret}})
	title := "about " + storetest.Secret
	header := transcript.Entry{ID: "imported", Body: transcript.Header{Version: transcript.Version, Key: storetest.CLI.String(), Gen: 7, Meta: transcript.Meta{Title: &title, Labels: []string{storetest.Secret}}}}
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Header: &header})
	info := storetest.Info(t, s)
	require.Equal(t, "about [masked]", info.Title)
	require.Equal(t, []string{"[masked]"}, info.Labels)
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Labels: []string{storetest.Secret, "green"}}))
	storetest.Close(t, st)
	require.Empty(t, storetest.Grep(t, dir, storetest.Secret))
	require.NotEmpty(t, storetest.Grep(t, dir, "green"))
}

// A store that cannot remember that it masks writes nothing.
func TestMaskingThatIsNotRemembered(t *testing.T) {
	st := session.OpenDriver(&storetest.Between{Driver: memdriver.New(nil), BeforeCreate: func(ref session.Ref) error {
		if ref.Agent == "_settings" {
			return io.ErrShortWrite
		}
		return nil
	}}, masking(redact.Secrets))
	require.ErrorIs(t, storetest.ErrOf(st.Load(t.Context(), storetest.CLI)), io.ErrShortWrite)
	require.Empty(t, storetest.ListIDs(t, st, nil))
}

// A store remembers that it masks even if the transaction of its first masked write was
// rolled back.
func TestMaskingIsRememberedAfterARollback(t *testing.T) {
	drv := memdriver.New(nil)
	st := session.OpenDriver(drv, masking(redact.Secrets))
	note := session.Ref{Agent: "_settings", ID: "masked"}
	_, err := st.Load(driver.Tentative(t.Context()), storetest.CLI)
	require.NoError(t, err)
	require.NoError(t, drv.Delete(t.Context(), driver.Anywhere, note)) // as a rollback does
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("hello"))
	require.NoError(t, storetest.ErrOf(drv.Get(t.Context(), note)))
	storetest.Close(t, st)
}
