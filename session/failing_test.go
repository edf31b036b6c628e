package session_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

var errDisk = errors.New("the disk fails")

// failingAt returns a driver whose calls of one name fail.
func failingAt(d driver.Driver, call *string) driver.Driver {
	at := func(name string) func(session.Ref) error {
		return func(session.Ref) error {
			if *call == name {
				return errDisk
			}
			return nil
		}
	}
	return &storetest.Between{
		Driver: d, BeforeGet: at("Get"), BeforeLoad: at("Load"), BeforeScan: at("Scan"),
		BeforeFlush: func(bool) error { return at("Flush")(session.Ref{}) },
		BeforeList:  func(ref session.Ref) error { return at("List " + ref.Agent)(ref) },
	}
}

// last returns the last error of a loop.
func last[T any](seq iter.Seq2[T, error]) (err error) {
	for _, e := range seq {
		err = e
	}
	return err
}

// No call mistakes a failed read of the driver for an answer.
func TestDriverThatFails(t *testing.T) {
	d, call := memdriver.New(nil), ""
	st := session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	old := storetest.Add(t, s, transcript.UserText("old"))[0]
	kept := storetest.Add(t, s, transcript.UserText("kept"))[0]
	storetest.Add(t, s, transcript.Compaction{Summary: "so far", FirstKept: kept, CoversTo: old})
	keyed := func(st *session.Session) error {
		return storetest.ErrOf(st.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("keyed")))
	}
	require.NoError(t, keyed(s))
	main := &session.ListOptions{Key: session.Key{Agent: "main"}}
	for _, tt := range []struct {
		call, name string
		do         func(st *session.Store, s *session.Session) error
	}{
		{"Flush", "repeated append", func(_ *session.Store, s *session.Session) error { return keyed(s) }},
		{"Flush", "flush", func(_ *session.Store, s *session.Session) error { return s.Flush(t.Context()) }},
		{"Flush", "recover", func(_ *session.Store, s *session.Session) error { return s.Recover(t.Context()) }},
		{"Get", "get", func(st *session.Store, s *session.Session) error {
			return storetest.ErrOf(st.Get(t.Context(), s.Ref()))
		}},
		{"Load", "load", func(st *session.Store, _ *session.Session) error {
			return storetest.ErrOf(st.Load(t.Context(), storetest.CLI))
		}},
		{"Load", "list of a key", func(st *session.Store, _ *session.Session) error {
			return storetest.ErrOf(st.List(t.Context(), &session.ListOptions{Key: storetest.CLI, Current: true}))
		}},
		{"List ", "list", func(st *session.Store, _ *session.Session) error { return storetest.ErrOf(st.List(t.Context(), nil)) }},
		{"List main", "list of an agent", func(st *session.Store, _ *session.Session) error { return storetest.ErrOf(st.List(t.Context(), main)) }},
		{"Scan", "entries", func(_ *session.Store, s *session.Session) error { return last(s.Entries(t.Context(), "")) }},
		{"Scan", "entries after", func(_ *session.Store, s *session.Session) error { return last(s.Entries(t.Context(), old)) }},
		{"Scan", "own lines", func(_ *session.Store, s *session.Session) error {
			return last(s.Scan(t.Context(), session.ScanOptions{Own: true}))
		}},
		{"Scan", "own lines backward", func(_ *session.Store, s *session.Session) error {
			return last(s.Scan(t.Context(), session.ScanOptions{Own: true, Backward: true}))
		}},
		{"Scan", "follow", func(_ *session.Store, s *session.Session) error { return last(s.Follow(t.Context(), "")) }},
		{"Scan", "fork", func(_ *session.Store, s *session.Session) error {
			return storetest.ErrOf(s.Fork(t.Context(), kept, nil))
		}},
		{"Scan", "health", func(_ *session.Store, s *session.Session) error { return storetest.ErrOf(s.Health(t.Context())) }},
		{"Scan", "where", func(_ *session.Store, s *session.Session) error { return storetest.ErrOf(s.Where(t.Context(), old)) }},
		{"Scan", "rewind", func(_ *session.Store, s *session.Session) error { return s.Rewind(t.Context(), "unknown") }},
		{"Scan", "answer to an old entry", func(_ *session.Store, s *session.Session) error {
			answer := storetest.Answer("late")
			answer.Made.After = "unknown"
			return storetest.ErrOf(s.Append(t.Context(), answer))
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			st := session.OpenDriver(failingAt(memdriver.Reopen(d), &call), nil)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			before := storetest.Lines(t, s)
			call = tt.call
			require.ErrorIs(t, tt.do(st, s), errDisk)
			call = ""
			require.Equal(t, before, storetest.Lines(t, s))
		})
	}
}

// A list shows the row of a current session that cannot be read.
func TestCurrentThatCannotBeRead(t *testing.T) {
	d, call := memdriver.New(nil), "Scan"
	st := session.OpenDriver(d, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 1)
	want := storetest.Info(t, s)
	storetest.Close(t, st)
	st = session.OpenDriver(failingAt(memdriver.Reopen(d), &call), nil)
	defer storetest.Close(t, st)
	infos := storetest.List(t, st, &session.ListOptions{Key: storetest.CLI, Current: true})
	require.Equal(t, []session.Info{want}, infos)
}

// A store that opens while an erase is, or may be, unfinished logs that.
func TestWarningOfAnUnfinishedErase(t *testing.T) {
	for _, tt := range []struct {
		call  string
		plan  bool
		warns bool
	}{{"", false, false}, {"", true, true}, {"List _erase", false, true}} {
		var log bytes.Buffer
		drv := memdriver.New(nil)
		if tt.plan {
			st := session.OpenDriver(memdriver.Reopen(drv), nil)
			_ = storetest.Create(t, st, session.Key{Agent: "_erase"}, nil)
		}
		st := session.OpenDriver(failingAt(drv, &tt.call), &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.Equal(t, tt.warns, bytes.Contains(log.Bytes(), []byte("erase.Resume")), tt)
		storetest.Close(t, st)
	}
}

// Every Action names who acts: the owner of a scope, or no one.
func TestAuditOfScopes(t *testing.T) {
	var done []session.Action
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Audit: func(_ context.Context, a session.Action) { done = append(done, a) }})
	defer storetest.Close(t, st)
	scope, err := st.Scope("ann")
	require.NoError(t, err)
	require.Equal(t, []string{"", "ann"}, []string{st.Owner(), scope.Owner()})
	st.Audit(t.Context(), session.Action{Name: "mine", Owner: "somebody"})
	scope.Audit(t.Context(), session.Action{Name: "hers", Owner: "somebody"})
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Owner: "bob"})
	_ = storetest.Create(t, scope, storetest.CLI, nil)
	require.Equal(t, []session.Action{
		{Name: "mine", Owner: "somebody"}, {Name: "hers", Owner: "ann"}, {Name: "owner", Session: s.Ref()},
	}, done)
	done = nil
	require.ErrorIs(t, scope.SetState(t.Context(), s.Ref(), session.Archived, -1), fs.ErrNotExist)
	require.Equal(t, []string{"archive", "ann"}, []string{done[0].Name, done[0].Owner})
	require.ErrorIs(t, done[0].Err, fs.ErrNotExist)
	session.OpenDriver(memdriver.New(nil), nil).Audit(t.Context(), session.Action{}) // nobody listens
}

// Report logs an event with its session, and tells the observer.
func TestReport(t *testing.T) {
	var told []session.Event
	var log bytes.Buffer
	st := session.OpenDriver(memdriver.New(nil), &session.Options{
		Observe: func(ctx context.Context, e session.Event) context.Context { told = append(told, e); return ctx },
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	told = nil
	session.Report(t.Context(), s, session.Event{Kind: session.EventToolPanic, Err: errDisk}, "tool", "run")
	require.Equal(t, []session.Event{{Kind: session.EventToolPanic, Session: s.Ref(), Err: errDisk, Error: errDisk.Error()}}, told)
	for _, word := range []string{"WARN", "tool-panic", "agent=main", "session=" + s.Ref().ID, `err="the disk fails"`, "tool=run"} {
		require.Contains(t, log.String(), word)
	}
}
