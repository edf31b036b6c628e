package session_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Usage counts every answer once, over restarts and without an index.
func TestUsage(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	for i := range 10 {
		resp := storetest.Answer("text", fmt.Sprint("c", i))
		resp.Model, resp.Usage = []string{"a", "b"}[i%2], transcript.Usage{Input: 10, Output: i, CacheRead: 100}
		storetest.Add(t, s, transcript.UserText("go"), resp, transcript.ToolResult(fmt.Sprint("c", i), "r"))
	}
	want := session.Usage{
		"a": driver.Usage{Answers: 5, Input: 50, Output: 20, CacheRead: 500},
		"b": driver.Usage{Answers: 5, Input: 50, Output: 25, CacheRead: 500},
	}
	check := func() {
		t.Helper()
		require.Equal(t, want, storetest.Info(t, s).Usage)
		infos := storetest.List(t, st, nil)
		require.Equal(t, want, infos[len(infos)-1].Usage)
	}
	check()
	cheap := storetest.Load(t, st, session.Key{Agent: "main", Channel: storetest.CLI.Channel, Peer: "cheap"})
	storetest.Add(t, cheap, transcript.UserText("go"))
	require.Empty(t, storetest.Info(t, cheap).Usage)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	s = storetest.Load(t, st, storetest.CLI)
	check()
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	check()
}

// Data of the application is on the line, in the hash of a key, and in no request.
func TestApp(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	item := transcript.WithApp(transcript.UserText("hello"), json.RawMessage(`{"channel":"C1"}`))
	done, err := s.AppendIf(ctx, session.Cond{Idem: "k"}, item)
	require.NoError(t, err)
	again, err := s.AppendIf(ctx, session.Cond{Idem: "k"}, item)
	require.NoError(t, err)
	require.Equal(t, done.IDs, again.IDs)
	_, err = s.AppendIf(ctx, session.Cond{Idem: "k"}, transcript.UserText("hello"))
	require.ErrorIs(t, err, session.ErrIdemMismatch)
	_, err = s.Append(ctx, transcript.WithApp(transcript.UserText("x"), json.RawMessage(`{`)))
	require.Error(t, err)
	require.JSONEq(t, `{"channel":"C1"}`, string(storetest.Entries(t, s)[1].App))
	require.NotContains(t, storetest.History(t, s), "C1")
}
