package session_test

import (
	"context"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// No method of a scope shows or changes a session of another owner. A method
// that is not in the table fails the test.
func TestScope(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ada, theirs, unowned := storetest.Owned(t, st)
		before := append(storetest.Lines(t, theirs), storetest.Lines(t, unowned)...)

		methods := scopeMethods()
		for m := range reflect.TypeFor[*session.Store]().Methods() {
			require.Contains(t, methods, m.Name, "what does a scope make of this method?")
		}
		for name, call := range methods {
			for _, s := range []*session.Session{theirs, unowned} {
				if call != nil {
					call(t, ada, s)
				}
			}
			require.Equal(t, before, append(storetest.Lines(t, theirs), storetest.Lines(t, unowned)...), name)
			require.Equal(t, theirs.Ref(), storetest.Load(t, theirs.Store(), storetest.CLI).Ref(), name)
			require.True(t, storetest.Info(t, unowned).Current, name)
		}
		infos := storetest.List(t, st, nil)
		require.Len(t, infos, 3, "one was made or deleted")
	})
}

// scopeMethods try each method of a scope on another owner's session.
func scopeMethods() map[string]func(t *testing.T, scope *session.Store, s *session.Session) {
	absent := func(t *testing.T, err error) {
		t.Helper()
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.NotContains(t, err.Error(), "bert")
	}
	key := func(t *testing.T, s *session.Session) session.Key {
		t.Helper()
		k, err := session.ParseKey(storetest.Info(t, s).Key)
		require.NoError(t, err)
		return k
	}
	parent := func(s *session.Session) transcript.Link {
		return transcript.Link{Agent: s.Ref().Agent, Session: s.Ref().ID, Entry: "x"}
	}
	// A session made under the key of another owner's is new, and is deleted again.
	ownKey := func(t *testing.T, scope *session.Store, s *session.Session, mine *session.Session, err error) {
		t.Helper()
		require.NoError(t, err)
		require.NotEqual(t, s.Ref(), mine.Ref())
		info := storetest.Info(t, mine)
		require.Equal(t, "ada", info.Owner)
		require.Equal(t, storetest.Info(t, s).Key, info.Key)
		require.True(t, info.Current)
		require.Zero(t, info.Messages)
		for _, line := range storetest.Lines(t, mine) {
			require.NotContains(t, line, storetest.Word)
			require.NotContains(t, line, "bert")
		}
		require.True(t, storetest.Info(t, s).Current)
		require.NoError(t, mine.MakeCurrent(t.Context()))
		require.NoError(t, scope.Delete(t.Context(), mine.Ref()))
	}
	return map[string]func(t *testing.T, scope *session.Store, s *session.Session){
		"Load": func(t *testing.T, scope *session.Store, s *session.Session) {
			mine, err := scope.Load(t.Context(), key(t, s))
			ownKey(t, scope, s, mine, err)
		},
		"Get": func(t *testing.T, scope *session.Store, s *session.Session) {
			_, err := scope.Get(t.Context(), s.Ref())
			absent(t, err)
			_, none := scope.Get(t.Context(), session.Ref{Agent: "main", ID: strings.Repeat("0", len(s.Ref().ID))})
			require.Equal(t, strings.ReplaceAll(none.Error(), strings.Repeat("0", len(s.Ref().ID)), s.Ref().ID), err.Error(), "one tells that the session is there")
		},
		"Create": func(t *testing.T, scope *session.Store, s *session.Session) {
			mine, err := scope.Create(t.Context(), key(t, s), nil)
			ownKey(t, scope, s, mine, err)
			_, err = scope.Create(t.Context(), key(t, s), &session.CreateOptions{ID: s.Ref().ID})
			require.ErrorIs(t, err, fs.ErrExist)
			require.NotContains(t, err.Error(), "bert")
			free := session.Key{Agent: "main", Channel: "cli", Peer: "free"}
			_, err = scope.Create(t.Context(), free, &session.CreateOptions{Owner: "bert"})
			require.Error(t, err)
			_, err = scope.Create(t.Context(), free, &session.CreateOptions{Parent: parent(s)})
			absent(t, err)
		},
		"Create with a header": func(t *testing.T, scope *session.Store, s *session.Session) {
			header := transcript.Entry{ID: "taken", Time: time.Now(), Body: transcript.Header{}}
			mine, err := scope.Create(t.Context(), key(t, s), &session.CreateOptions{Header: &header})
			ownKey(t, scope, s, mine, err)
			for _, h := range []transcript.Header{
				{Owner: "bert"},
				{Owner: "bert", Key: key(t, s).String(), Gen: 99},
				{Key: key(t, s).String(), Gen: 99}, // of no owner
			} {
				header.Body = h
				_, err = scope.Create(t.Context(), key(t, s), &session.CreateOptions{Header: &header})
				require.ErrorContains(t, err, "another owner")
			}
			header.Body = transcript.Header{Version: transcript.Version, Owner: "ada", Key: key(t, s).String(), Gen: 99}
			mine, err = scope.Create(t.Context(), key(t, s), &session.CreateOptions{Header: &header})
			ownKey(t, scope, s, mine, err)
		},
		"Delete": func(t *testing.T, scope *session.Store, s *session.Session) {
			absent(t, scope.Delete(t.Context(), s.Ref()))
		},
		"List": func(t *testing.T, scope *session.Store, s *session.Session) {
			current := storetest.List(t, scope, &session.ListOptions{Key: key(t, s), Current: true})
			require.Empty(t, current)
			for _, opts := range []*session.ListOptions{nil, {Key: session.Key{Agent: "main"}, Limit: 1}, {Owner: "bert"}} {
				infos := storetest.List(t, scope, opts)
				for _, info := range infos {
					require.Equal(t, "ada", info.Owner)
				}
			}
		},
		"Scan": func(t *testing.T, scope *session.Store, s *session.Session) {
			for rec, err := range scope.Scan(t.Context(), s.Ref(), session.ScanOptions{}) {
				require.ErrorIs(t, err, fs.ErrNotExist, "%+v", rec)
			}
		},
		"Follow": func(t *testing.T, scope *session.Store, s *session.Session) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			for ref, err := range scope.Follow(ctx) {
				require.NotEqual(t, s.Ref(), ref)
				if err != nil {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			}
		},
		"Scope": func(t *testing.T, scope *session.Store, _ *session.Session) {
			_, err := scope.Scope("bert")
			require.ErrorIs(t, err, fs.ErrNotExist)
			again, err := scope.Scope("ada")
			require.NoError(t, err)
			infos := storetest.List(t, again, nil)
			require.Len(t, infos, 1)
			for _, owner := range []string{"", "\xff", strings.Repeat("x", 513)} {
				_, err := scope.Scope(owner)
				require.ErrorIs(t, err, fs.ErrInvalid)
			}
		},
		"SetState": func(t *testing.T, scope *session.Store, s *session.Session) {
			for _, to := range []session.State{session.Archived, session.Live} {
				absent(t, scope.SetState(t.Context(), s.Ref(), to, -1))
				absent(t, scope.SetState(t.Context(), s.Ref(), to, storetest.Info(t, s).End))
			}
		},
		"DeleteAt": func(t *testing.T, scope *session.Store, s *session.Session) {
			absent(t, scope.DeleteAt(t.Context(), s.Ref(), storetest.Info(t, s).End))
		},
		"Audit": func(t *testing.T, scope *session.Store, _ *session.Session) {
			scope.Audit(t.Context(), session.Action{Name: "export"}) // without Options.Audit
		},
		"Beyond": func(_ *testing.T, scope *session.Store, _ *session.Session) { scope.Beyond() },
		"Owner": func(t *testing.T, scope *session.Store, _ *session.Session) {
			require.Equal(t, "ada", scope.Owner())
		},
		"Close": func(t *testing.T, scope *session.Store, s *session.Session) {
			require.NoError(t, scope.Close())
			_, err := s.History(t.Context())
			require.NoError(t, err)
		},
	}
}

// A session of a scope stays its owner's.
func TestScopedSession(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := storetest.Open(t, storetest.Scratch(t), nil)
	defer storetest.Close(t, st)
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	s := storetest.Load(t, ada, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("hello"), transcript.AssistantText("Hello."))
	lines := storetest.Lines(t, s)
	theirs := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Owner: "bert"})
	end := int64(0)
	for rec, err := range s.Scan(ctx, session.ScanOptions{}) {
		require.NoError(t, err)
		end = rec.End
	}
	_, err = s.AppendLines(ctx, end, transcript.Entry{ID: "x", Body: transcript.Header{Owner: "bert"}})
	require.Error(t, err)
	require.Equal(t, lines, storetest.Lines(t, s))
	// An owner in another line has no effect, and a gen belongs to the owner's
	// key.
	line, err := transcript.ParseEntry([]byte(`{"type":"meta","id":"y","ts":"2026-11-20T08:00:00Z","owner":"bert"}`))
	require.NoError(t, err)
	end, err = s.AppendLines(ctx, end, line)
	require.NoError(t, err)
	require.Equal(t, "ada", storetest.Info(t, s).Owner)
	_, err = s.AppendLines(ctx, end, transcript.Entry{ID: "z", Body: transcript.Current{Gen: 9}})
	require.NoError(t, err)
	require.True(t, storetest.Info(t, theirs).Current)
	require.Equal(t, s.Ref(), storetest.Load(t, ada, storetest.CLI).Ref())
	require.NotContains(t, []session.Ref{s.Ref(), theirs.Ref()}, storetest.Load(t, st, storetest.CLI).Ref(), "the keys of the Store are of no owner")
	head, err := storetest.Head(ctx, s)
	require.NoError(t, err)
	_, err = s.Fork(ctx, head, &session.CreateOptions{Owner: "bert"})
	require.Error(t, err)
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.LockTurn(over, true)
	require.ErrorIs(t, err, session.ErrBusy)
	require.ErrorIs(t, err, context.Canceled)
	fork := storetest.Fork(t, s, head, nil)
	require.Equal(t, "ada", storetest.Info(t, fork).Owner)
	child := storetest.Create(t, st, session.Key{Agent: "main", Channel: "sub", Peer: "1"}, &session.CreateOptions{Parent: transcript.Link{Session: s.Ref().ID, Entry: head}})
	require.Equal(t, "ada", storetest.Info(t, child).Owner, "children inherit the owner")
	require.NoError(t, s.MakeCurrent(ctx))
}

// A handle of a scope does not reach a session of another owner that now has its ID.
func TestScopedHandleOfAnID(t *testing.T) {
	t.Parallel()
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		ctx := t.Context()
		ada, err := st.Scope("ada")
		require.NoError(t, err)
		s := storetest.Create(t, ada, storetest.CLI, &session.CreateOptions{ID: "x"})
		storetest.Add(t, s, transcript.UserText("hello"))
		require.NoError(t, ada.Delete(ctx, s.Ref()))
		theirs := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: "x", Owner: "bert"})
		ids := storetest.Add(t, theirs, transcript.UserText("bert says "+storetest.Word))
		want := storetest.Lines(t, theirs)
		tail := func(seq iter.Seq2[transcript.Entry, error]) error {
			for _, err := range seq {
				return err
			}
			return nil
		}
		none := func(iter.Seq2[transcript.Record, error], func(transcript.Entry) error) error { return nil }
		for call, try := range map[string]func() error{
			"History":    func() error { return storetest.ErrOf(s.History(ctx)) },
			"Info":       func() error { return storetest.ErrOf(s.Info(ctx)) },
			"View":       func() error { return s.View(ctx, func(*session.View) error { return nil }) },
			"Pending":    func() error { return storetest.ErrOf(s.Pending(ctx)) },
			"Health":     func() error { return storetest.ErrOf(s.Health(ctx)) },
			"Where":      func() error { return storetest.ErrOf(s.Where(ctx, ids[0])) },
			"Entries":    func() error { return tail(s.Entries(ctx, "")) },
			"Entries on": func() error { return tail(s.Entries(ctx, ids[0])) },
			"Follow":     func() error { return tail(s.Follow(ctx, "")) },
			"Append":     func() error { return storetest.ErrOf(s.Append(ctx, transcript.UserText("mine"))) },
			"AppendIf": func() error {
				return storetest.ErrOf(s.AppendIf(ctx, session.Cond{Head: ids[0]}, transcript.UserText("mine")))
			},
			"AppendLines of a gen": func() error {
				return storetest.ErrOf(s.AppendLines(ctx, 0, transcript.Entry{ID: "c", Body: transcript.Current{Gen: 9}}))
			},
			"AppendLines": func() error { return storetest.ErrOf(s.AppendLines(ctx, 0)) },
			"SetMeta":     func() error { return s.SetMeta(ctx, transcript.Meta{Title: new("mine")}) },
			"Rewind":      func() error { return s.Rewind(ctx, s.Ref().ID) },
			"Fork":        func() error { return storetest.ErrOf(s.Fork(ctx, ids[0], nil)) },
			"Compact":     func() error { return storetest.ErrOf(s.Compact(ctx, nil)) },
			"Rewrite":     func() error { return s.Rewrite(ctx, none) },
			"MakeCurrent": func() error { return s.MakeCurrent(ctx) },
			"Flush":       func() error { return s.Flush(ctx) },
			"Recover":     func() error { return s.Recover(ctx) },
			"LockTurn":    func() error { return storetest.ErrOf(s.LockTurn(ctx, false)) },
			"Delete":      func() error { return ada.Delete(ctx, s.Ref()) },
			"DeleteAt":    func() error { return ada.DeleteAt(ctx, s.Ref(), storetest.Info(t, theirs).End) },
			"SetState":    func() error { return ada.SetState(ctx, s.Ref(), session.Archived, -1) },
		} {
			err := try()
			require.ErrorIs(t, err, fs.ErrNotExist, call)
			require.NotContains(t, err.Error(), "bert", call)
			require.Equal(t, want, storetest.Lines(t, theirs), call)
		}
	})
}

// A session whose deletion has failed half way is in no scope, not even its owner's,
// and the store finishes the deletion.
func TestScopeOfAHalfDeletedSession(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	bert, err := st.Scope("bert")
	require.NoError(t, err)
	ref := storetest.Load(t, ada, storetest.CLI).Ref()
	inTheWay := filepath.Join(dir, "agents/main/archive", ref.ID+".jsonl.gz")
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700))
	require.ErrorContains(t, ada.Delete(t.Context(), ref), "delete it again")
	mine, theirs := ada.Delete(t.Context(), ref), bert.Delete(t.Context(), ref)
	require.ErrorIs(t, mine, fs.ErrNotExist)
	require.EqualError(t, theirs, mine.Error())
	require.ErrorContains(t, st.Delete(t.Context(), ref), "delete it again")
	require.NoError(t, os.RemoveAll(inTheWay))
	require.NoError(t, st.Delete(t.Context(), ref))
	require.NoFileExists(t, filepath.Join(dir, "agents/main/sessions", ref.ID+".jsonl"))
}

// A scope follows its own sessions. A missing session could have been one of them, so the
// hint is that anything may have changed.
func TestFollowOfAScope(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	ann, err := st.Scope("ann")
	require.NoError(t, err)
	create := func(owner string) *session.Session {
		s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: owner, Owner: owner})
		return s
	}
	hers, his := create("ann"), create("bob")
	next, stop := iter.Pull2(ann.Follow(t.Context()))
	defer stop()
	want := func(ref session.Ref) {
		t.Helper()
		got, err, ok := next()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, ref, got)
	}
	want(session.Ref{})
	storetest.Add(t, his, transcript.UserText("not hers"))
	storetest.Add(t, hers, transcript.UserText("hers"))
	want(hers.Ref())
	require.NoError(t, st.Delete(t.Context(), his.Ref()))
	want(session.Ref{})
}
