package session_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// watch opens a store that sends its events of some kinds.
func watch(t *testing.T, dir string, sync session.SyncPolicy, kinds ...session.EventKind) (*session.Store, chan session.Event) {
	t.Helper()
	events := make(chan session.Event, 1000)
	var st *session.Store
	st = storetest.Open(t, dir, &session.Options{Sync: sync, Observe: func(ctx context.Context, e session.Event) context.Context {
		if !slices.Contains(kinds, e.Kind) {
			return ctx
		}
		events <- e
		// No lock is held: the observer may use the store.
		if st != nil && ctx.Value(inObserver{}) == nil && e.Kind != session.EventWait {
			ctx = context.WithValue(context.WithoutCancel(ctx), inObserver{}, true)
			if s, err := st.Get(ctx, session.Ref{Agent: "main", ID: e.Session.ID}); err == nil {
				if _, err := s.Append(ctx, transcript.Custom{Name: "seen", Data: []byte(`{}`)}); err != nil && !errors.Is(err, session.ErrClosed) {
					t.Error(err)
				}
			}
		}
		return ctx
	}})
	return st, events
}

type inObserver struct{}

// one returns the next event, if there is one.
func one(events chan session.Event) session.Event {
	select {
	case e := <-events:
		return e
	default:
		return session.Event{}
	}
}

func drain(events chan session.Event) {
	for one(events).Kind != "" {
	}
}

func TestObserveSync(t *testing.T) {
	st, events := watch(t, t.TempDir(), session.SyncAlways, session.EventSync)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	drain(events)
	storetest.Add(t, s, transcript.UserText("hello"))
	e := one(events)
	if e.Session != s.Ref() || e.Took <= 0 || e.Bytes < len("hello") || e.Err != nil {
		t.Errorf("an append told of %+v", e)
	}
}

// A background sync is an event when it has ended.
func TestObserveBackgroundSync(t *testing.T) {
	st, events := watch(t, t.TempDir(), session.SyncInterval(time.Millisecond), session.EventSync)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	drain(events)
	storetest.Add(t, s, transcript.UserText("hello"))
	for e := range events {
		if e.Session == s.Ref() {
			break
		}
	}
}

// Waits for the append lock and for the turn lock are events, short ones not.
func TestObserveWait(t *testing.T) {
	dir := t.TempDir()
	st, events := watch(t, dir, session.SyncNever, session.EventWait)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("short"))
	root, err := os.OpenRoot(filepath.Join(dir, "agents/main/sessions"))
	require.NoError(t, err)
	l, err := filelog.Open(root, s.Ref().ID+".jsonl", nil)
	require.NoError(t, err)

	drain(events) // on a slow machine
	release, err := l.Hold(t.Context())
	require.NoError(t, err)
	// On a slow machine the time may be over before the wait has begun.
	waited := func(lock string, try func(context.Context) error) {
		t.Helper()
		var e session.Event
		for e.Took == 0 && !t.Failed() {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			if err := try(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the call that waited for the %s lock = %v", lock, err)
			}
			cancel()
			e = one(events)
		}
		if e.Session != s.Ref() || e.Lock != lock || e.Took < filelog.LongWait || !errors.Is(e.Err, filelog.ErrBusy) {
			t.Errorf("told of %+v", e)
		}
	}
	waited("append", func(ctx context.Context) error {
		_, err := s.Append(ctx, transcript.UserText("no"))
		return err
	})
	release()
	drain(events)

	other := storetest.Open(t, dir, nil)
	defer storetest.Close(t, other)
	unlock, err := storetest.Load(t, other, storetest.CLI).LockTurn(t.Context(), true)
	require.NoError(t, err)
	waited("turn", func(ctx context.Context) error {
		_, err := s.LockTurn(ctx, true)
		return err
	})
	require.NoError(t, errors.Join(unlock(), l.Close(), root.Close()))
}

// The store repairs an unfinished line, whole or torn, and a cut append that
// its retry replaces.
func TestObserveRepair(t *testing.T) {
	const whole = `{"type":"user","id":"W","ts":"2026-11-20T08:00:00Z","content":"whole"}`
	const cut = `{"type":"user","id":"A","ts":"2026-11-20T08:00:00Z","batch":2,"idem":"k","idemHash":"h","content":"half"}` + "\n"
	for _, tt := range []struct {
		name, tail string
		want       session.Event
	}{
		{"whole", whole, session.Event{Tail: session.Tail{Size: int64(len(whole)), Complete: true}}},
		{"torn", whole[:30], session.Event{Tail: session.Tail{Size: 30}}},
		{"superseded", cut, session.Event{Superseded: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			st := storetest.Open(t, dir, nil)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText("q"))
			storetest.Close(t, st)
			path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			require.NoError(t, err)
			info, err := f.Stat()
			require.NoError(t, err)
			_, err = f.WriteString(tt.tail)
			require.NoError(t, errors.Join(err, f.Close()))

			st, events := watch(t, dir, session.SyncAlways, session.EventRepair)
			defer storetest.Close(t, st)
			s = storetest.Load(t, st, storetest.CLI)
			_, err = s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("half"), storetest.Answer("whole"))
			require.NoError(t, err)
			want := tt.want
			want.Kind, want.Session = session.EventRepair, s.Ref()
			if want.Superseded == 0 {
				want.Tail.Offset = info.Size()
			}
			got := one(events)
			if got.Kind != want.Kind || got.Session != want.Session || got.Tail != want.Tail || got.Superseded != want.Superseded {
				t.Errorf("told of %+v, want %+v", got, want)
			}
			require.Empty(t, one(events).Kind)
			storetest.Add(t, s, transcript.UserText("next"))
			storetest.CheckRequest(t, s)
		})
	}
}

// observeDamage collects the damage that a store reports.
func observeDamage(told *[]transcript.Damage) func(context.Context, session.Event) context.Context {
	return func(ctx context.Context, e session.Event) context.Context {
		if e.Kind == session.EventDamage {
			*told = append(*told, e.Damage)
		}
		return ctx
	}
}

// dawdling refuses writes, and takes an hour to name a path.
type dawdling struct{ driver.Driver }

func (dawdling) Append(context.Context, driver.Ref, []driver.Line, driver.Cursor, func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	return driver.Result{}, fs.ErrPermission
}

func (dawdling) Path(driver.Ref) string {
	time.Sleep(time.Hour)
	return "/somewhere"
}

// An append that fails is observed with its error.
func TestObserveRefusedAppend(t *testing.T) {
	st, events := watch(t, t.TempDir(), session.SyncNever, session.EventAppend)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("hello"))
	drain(events)
	_, err := s.AppendIf(t.Context(), session.Cond{Empty: true}, transcript.UserText("again"))
	require.ErrorIs(t, err, session.ErrConflict)
	e := one(events)
	require.ErrorIs(t, e.Err, session.ErrConflict)
	require.Zero(t, e.Entries)
}

// The time of an append ends when the driver has answered.
func TestObserveAppendTook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var events []session.Event
		st := session.OpenDriver(dawdling{memdriver.New(nil)}, &session.Options{
			Observe: func(ctx context.Context, e session.Event) context.Context { events = append(events, e); return ctx },
		})
		defer storetest.Close(t, st)
		_, err := storetest.Load(t, st, storetest.CLI).Append(t.Context(), transcript.UserText("hello"))
		require.ErrorIs(t, err, fs.ErrPermission)
		require.Len(t, events, 2)
		require.Equal(t, session.EventAppendStart, events[0].Kind)
		require.Equal(t, session.EventAppend, events[1].Kind)
		require.Zero(t, events[1].Took)
	})
}
