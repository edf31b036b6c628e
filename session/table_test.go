package session_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// Sessions that others have deleted take no place among those in memory,
// although the process finds out while it uses them.
func TestGoneSessionsTakeNoPlace(t *testing.T) {
	mem := memdriver.New(nil)
	read := 0
	st := session.OpenDriver(&storetest.Between{Driver: mem, BeforeGet: func(session.Ref) error { read++; return nil }}, &session.Options{CachedSessions: 3})
	defer storetest.Close(t, st)
	other := session.OpenDriver(memdriver.Reopen(mem), nil)
	defer storetest.Close(t, other)
	peer := func(name string) session.Key { return session.Key{Agent: "main", Channel: "c", Peer: name} }
	kept := []*session.Session{storetest.Load(t, st, peer("a")), storetest.Load(t, st, peer("b"))}
	for range 5 {
		gone := storetest.Load(t, st, peer("gone"))
		require.NoError(t, other.Delete(t.Context(), gone.Ref()))
		_, err := gone.Append(t.Context(), transcript.UserText("q"))
		require.Error(t, err)
	}
	read = 0
	for _, s := range kept {
		_, err := storetest.Head(t.Context(), s)
		require.NoError(t, err)
	}
	require.Zero(t, read)
}

// The event of an append counts the written entries: none after an error or a
// repetition.
func TestAppendEvents(t *testing.T) {
	var events []session.Event
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, &session.Options{Observe: func(ctx context.Context, e session.Event) context.Context {
		if e.Kind == session.EventAppend {
			events = append(events, e)
		}
		return ctx
	}})
	s := storetest.Load(t, st, storetest.CLI)
	size := storetest.Info(t, s).Size
	for range 2 {
		_, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("q"), storetest.Answer("a"))
		require.NoError(t, err)
	}
	_, err := s.AppendIf(t.Context(), session.Cond{Head: "other"}, transcript.UserText("q"))
	require.ErrorIs(t, err, session.ErrConflict)
	for _, err := range []error{errWrong, nil} {
		_, got := s.Update(t.Context(), "decide", func(*session.View) ([]transcript.Item, error) { return nil, err })
		require.ErrorIs(t, got, err)
	}
	require.Len(t, events, 5, "an update that writes nothing has begun, and ends")
	require.ErrorIs(t, events[3].Err, errWrong)
	require.Equal(t, 2, events[0].Entries)
	require.Positive(t, events[0].Bytes)
	if grown := int(storetest.Info(t, s).Size - size); grown > 100 { // the cursor counts bytes
		require.Equal(t, grown, events[0].Bytes)
	}
	for _, e := range events[1:] {
		require.Zero(t, e.Entries)
		require.Zero(t, e.Bytes)
	}
	require.NoError(t, events[1].Err)
	require.ErrorIs(t, events[2].Err, session.ErrConflict)
	storetest.Close(t, st)
}
