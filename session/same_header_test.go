package session_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A process that has closed the transcript of a session does not continue at its old
// place after the session was deleted and imported with the same header.
func TestImportAfterADeletion(t *testing.T) {
	dir := t.TempDir()
	d, err := filedriver.Open(dir, &filedriver.Options{Sync: session.SyncNever, OpenFiles: -1})
	require.NoError(t, err)
	b := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
	a := session.OpenDriver(d, nil)
	key := session.Key{Agent: "main", Channel: "c", Peer: "s"}
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	head := &transcript.Entry{ID: "imported", Time: at, Body: transcript.Header{Key: key.String(), Created: at}}
	s := storetest.Create(t, a, key, &session.CreateOptions{Header: head})
	storetest.Add(t, s, transcript.UserText("old words"))
	require.NoError(t, b.Delete(t.Context(), s.Ref()))
	again := storetest.Create(t, b, key, &session.CreateOptions{Header: head})
	storetest.Add(t, again, transcript.UserText(strings.Repeat("new ", 200)))
	storetest.Add(t, again, transcript.UserText("new 2"))
	_, err = s.History(t.Context())
	require.ErrorIs(t, err, session.ErrReplaced)
	h, err := s.History(t.Context())
	require.NoError(t, err)
	require.Contains(t, h.Messages[0].Text(), "new ")
	require.NotContains(t, h.Messages[0].Text(), "old")
	storetest.Close(t, a)
	storetest.Close(t, b)
}

// An append of a call that knows earlier lines is refused, even if another call of the store
// has learnt that the session was made anew.
func TestAppendToASessionMadeAnew(t *testing.T) {
	drv := memdriver.New(nil)
	st, other := session.OpenDriver(drv, nil), session.OpenDriver(memdriver.Reopen(drv), nil)
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: "s", Owner: "ada"})
	storetest.Add(t, s, transcript.UserText("hello"))
	require.NoError(t, other.Delete(t.Context(), s.Ref()))
	anew := storetest.Create(t, other, storetest.CLI, &session.CreateOptions{ID: "s", Owner: "bert"})
	before := storetest.Lines(t, anew)
	for _, err := range drv.Scan(t.Context(), s.Ref(), 0, driver.Forward, nil) {
		require.ErrorIs(t, err, session.ErrReplaced)
	}
	_, err := s.Append(t.Context(), transcript.UserText("of ada"))
	require.ErrorIs(t, err, session.ErrReplaced)
	require.Equal(t, before, storetest.Lines(t, anew))
}
