package session_test

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

type rewriting = func(iter.Seq2[transcript.Record, error], func(transcript.Entry) error) error

// mapped returns a change that writes the entries that f returns.
func mapped(f func(e transcript.Entry) transcript.Entry) rewriting {
	return func(records iter.Seq2[transcript.Record, error], write func(transcript.Entry) error) error {
		for rec, err := range records {
			if err == nil {
				err = write(f(rec.Entry))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// A rewrite keeps the lines that it does not change, raises the rev, and leaves a session
// that can be used.
func TestRewrite(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	before := storetest.Lines(t, s)
	require.NoError(t, s.Rewrite(t.Context(), mapped(func(e transcript.Entry) transcript.Entry {
		if e.ID == ids[0] {
			return e.Erase()
		}
		return e
	})))
	after := storetest.Lines(t, s)
	require.Equal(t, before[2], after[2])
	require.Contains(t, after[0], `"rev":1`)
	require.Contains(t, after[1], `"crc"`)
	require.Empty(t, storetest.FilesWith(t, dir))
	storetest.Add(t, s, transcript.UserText("Well."))
	storetest.CheckSound(t, st, s.Ref())
}

// A change that fails, or writes nothing, leaves the lines as they are. The
// filters sweep only after success.
func TestRewriteNothing(t *testing.T) {
	t.Parallel()
	swept := 0
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{{
		Sweep: func(_ context.Context, _ session.Ref, _ iter.Seq2[transcript.Entry, error]) error {
			swept++
			return nil
		},
	}}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("Hello."))
	before := storetest.Lines(t, s)
	refused := errors.New("refused")
	err := s.Rewrite(t.Context(), func(iter.Seq2[transcript.Record, error], func(transcript.Entry) error) error { return refused })
	require.ErrorIs(t, err, refused)
	require.Zero(t, swept)
	require.NoError(t, s.Rewrite(t.Context(), func(iter.Seq2[transcript.Record, error], func(transcript.Entry) error) error { return nil }))
	require.Equal(t, 1, swept)
	require.Equal(t, before, storetest.Lines(t, s))
}

func TestRewriteRefuses(t *testing.T) {
	t.Parallel()
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, nil)
	defer storetest.Close(t, st)
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	require.Equal(t, "ada", ada.Owner())
	require.Empty(t, st.Owner())
	s := storetest.Create(t, ada, storetest.CLI, nil)
	storetest.Add(t, s, transcript.UserText("Hello."))
	before := storetest.Lines(t, s)
	given := mapped(func(e transcript.Entry) transcript.Entry {
		if h, ok := e.Body.(transcript.Header); ok {
			h.Owner = "bert"
			e.Body = h
			e = e.WithLine(nil)
		}
		return e
	})
	require.ErrorContains(t, s.Rewrite(t.Context(), given), "another owner")
	require.Equal(t, before, storetest.Lines(t, s))
	same := mapped(func(e transcript.Entry) transcript.Entry { return e })
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
	require.ErrorIs(t, s.Rewrite(t.Context(), same), session.ErrArchived)
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Live, -1))
	plain := session.OpenDriver(struct{ driver.Driver }{mem}, nil)
	there := mustGet(t, plain, s.Ref())
	require.ErrorIs(t, there.Rewrite(t.Context(), same), errors.ErrUnsupported)
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	require.ErrorIs(t, s.Rewrite(t.Context(), same), fs.ErrNotExist)
}

// Agents whose names begin with '_' belong to the library: no key leads to one, and only
// a list of that agent shows its sessions.
func TestAgentsOfTheLibrary(t *testing.T) {
	t.Parallel()
	hook := session.Filter{Write: func(_ context.Context, ref session.Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
		if ref.Agent != "main" {
			return nil, errors.New("a filter sees an entry of the library")
		}
		return entries, nil
	}}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Filters: []session.Filter{hook}})
	defer storetest.Close(t, st)
	ctx := t.Context()
	key := session.Key{Agent: "_erase", Channel: "cli", Peer: "user"}
	_, err := st.Load(ctx, key)
	require.ErrorIs(t, err, session.ErrKey)
	_, err = st.Create(ctx, key, nil)
	require.ErrorIs(t, err, session.ErrKey)
	_, err = session.ParseKey(key.String())
	require.ErrorIs(t, err, session.ErrKey)
	var refs []session.Ref
	for _, owner := range []string{"ada", "bert"} {
		scope, err := st.Scope(owner)
		require.NoError(t, err)
		s := storetest.Create(t, scope, session.Key{Agent: "_erase"}, &session.CreateOptions{ID: owner})
		storetest.Add(t, s, transcript.Custom{Name: "erase", Data: []byte(`{}`)})
		refs = append(refs, s.Ref())
		_, err = scope.Create(ctx, session.Key{Agent: "_erase"}, &session.CreateOptions{ID: owner})
		require.ErrorIs(t, err, fs.ErrExist)
	}
	own := storetest.Load(t, st, storetest.CLI)
	infos := storetest.List(t, st, &session.ListOptions{State: session.AnyState})
	require.Len(t, infos, 1)
	infos = storetest.List(t, st, &session.ListOptions{Key: session.Key{Agent: "_erase"}})
	require.Len(t, infos, 2)
	for _, info := range infos {
		require.True(t, slices.Contains(refs, info.Ref))
	}
	for ref, err := range st.Follow(ctx) {
		require.NoError(t, err)
		if ref == own.Ref() {
			break
		}
		require.Equal(t, session.Ref{}, ref)
		storetest.Add(t, mustGet(t, st, refs[0]), transcript.Custom{Name: "erase", Data: []byte(`{}`)})
		storetest.Add(t, own, transcript.UserText("Hello."))
	}
}

func mustGet(t *testing.T, st *session.Store, ref session.Ref) *session.Session {
	t.Helper()
	s, err := st.Get(t.Context(), ref)
	require.NoError(t, err)
	return s
}

// The context of a repair outlives the locks of the call that has made it.
func TestContextOfARepair(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, s *session.Session) error{
		"rewrite": func(ctx context.Context, s *session.Session) error { return s.Rewrite(ctx, eraseWord) },
		"archive": func(ctx context.Context, s *session.Session) error {
			return s.Store().SetState(ctx, s.Ref(), session.Archived, -1)
		},
		"make current": func(ctx context.Context, s *session.Session) error { return s.MakeCurrent(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, repairs := t.TempDir(), 0
			st := storetest.Open(t, dir, &session.Options{Observe: func(ctx context.Context, e session.Event) context.Context {
				if e.Kind == session.EventRepair && e.Tail.Size > 0 {
					repairs++
					require.NoError(t, ctx.Err())
				}
				return ctx
			}})
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText(storetest.Word), storetest.Answer("ok"))
			require.NoError(t, storetest.ErrOf(st.Create(t.Context(), storetest.CLI, nil)))
			storetest.AppendText(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), `{"type":"us`)
			require.NoError(t, call(t.Context(), s))
			require.Equal(t, 1, repairs)
			storetest.Close(t, st)
		})
	}
}

// The observer is told of a repair without a lock: it may append to the session.
func TestRewriteTellsWithoutALock(t *testing.T) {
	dir := t.TempDir()
	var s *session.Session
	appended := 0
	st := storetest.Open(t, dir, &session.Options{Observe: func(ctx context.Context, e session.Event) context.Context {
		if s != nil && e.Kind == session.EventRepair && e.Tail.Size > 0 {
			appended++
			require.NoError(t, storetest.ErrOf(s.Append(ctx, transcript.Custom{Name: "seen"})))
		}
		return ctx
	}})
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText(storetest.Word), storetest.Answer("ok"))
	storetest.AppendText(t, filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl"), `{"type":"us`)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.Rewrite(ctx, eraseWord))
	require.Equal(t, 1, appended)
}
