package session_test

import (
	"context"
	"errors"
	"io/fs"
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

// No method of a scope shows or changes a session of somebody else. A method
// that is not in the table fails the test.
func TestScope(t *testing.T) {
	t.Parallel()
	for name, opened := range map[string]func(t *testing.T) *session.Store{
		"files":  func(t *testing.T) *session.Store { t.Helper(); return storetest.Open(t, storetest.Scratch(t), nil) },
		"memory": func(*testing.T) *session.Store { return session.OpenDriver(memdriver.New(nil), nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := opened(t)
			defer storetest.Close(t, st)
			ada, err := st.Scope("ada")
			require.NoError(t, err)
			bert, err := st.Scope("bert")
			require.NoError(t, err)
			theirs := storetest.Load(t, bert, storetest.CLI)
			storetest.Add(t, theirs, transcript.UserText("bert says "+storetest.Word), transcript.AssistantText("Yes."))
			require.NoError(t, theirs.SetMeta(t.Context(), transcript.Meta{Title: new("bert's title")}))
			require.Equal(t, "bert", storetest.Info(t, theirs).Owner)
			nobodys := storetest.Load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "nobody"})
			storetest.Add(t, nobodys, transcript.UserText("nobody says "+storetest.Word))
			mine := storetest.Load(t, ada, session.Key{Agent: "main", Channel: "cli", Peer: "ada"})
			storetest.Add(t, mine, transcript.UserText("ada says hello"), transcript.AssistantText("Hello."))
			before := append(storetest.Lines(t, theirs), storetest.Lines(t, nobodys)...)

			methods := scopeMethods()
			for m := range reflect.TypeFor[*session.Store]().Methods() {
				require.Contains(t, methods, m.Name, "what does a scope make of this method?")
			}
			for name, call := range methods {
				for _, s := range []*session.Session{theirs, nobodys} {
					if call != nil {
						call(t, ada, s)
					}
				}
				require.Equal(t, before, append(storetest.Lines(t, theirs), storetest.Lines(t, nobodys)...), name)
			}
			infos, err := st.List(t.Context(), nil)
			require.NoError(t, err)
			require.Len(t, infos, 3, "one was made or deleted")
		})
	}
}

// scopeMethods try each method of a scope on a session of somebody else.
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
	return map[string]func(t *testing.T, scope *session.Store, s *session.Session){
		"Load": func(t *testing.T, scope *session.Store, s *session.Session) {
			_, err := scope.Load(t.Context(), key(t, s))
			absent(t, err)
		},
		"Get": func(t *testing.T, scope *session.Store, s *session.Session) {
			_, err := scope.Get(t.Context(), s.Ref())
			absent(t, err)
			_, none := scope.Get(t.Context(), session.Ref{Agent: "main", ID: strings.Repeat("0", len(s.Ref().ID))})
			require.Equal(t, strings.ReplaceAll(none.Error(), strings.Repeat("0", len(s.Ref().ID)), s.Ref().ID), err.Error(), "one tells that the session is there")
		},
		"Create": func(t *testing.T, scope *session.Store, s *session.Session) {
			_, err := scope.Create(t.Context(), key(t, s), nil)
			absent(t, err)
			free := session.Key{Agent: "main", Channel: "cli", Peer: "free"}
			_, err = scope.Create(t.Context(), free, &session.CreateOptions{Owner: "bert"})
			require.Error(t, err)
			_, err = scope.Create(t.Context(), free, &session.CreateOptions{Parent: parent(s)})
			absent(t, err)
		},
		"Create with a header": func(t *testing.T, scope *session.Store, s *session.Session) {
			header := transcript.Entry{ID: "taken", Time: time.Now(), Body: transcript.Header{}}
			_, err := scope.Create(t.Context(), key(t, s), &session.CreateOptions{Header: &header})
			absent(t, err)
			header.Body = transcript.Header{Meta: transcript.Meta{Owner: new("bert")}}
			_, err = scope.Create(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "free"}, &session.CreateOptions{Header: &header})
			require.Error(t, err)
		},
		"Delete": func(t *testing.T, scope *session.Store, s *session.Session) {
			absent(t, scope.Delete(t.Context(), s.Ref()))
		},
		"List": func(t *testing.T, scope *session.Store, s *session.Session) {
			current, err := scope.List(t.Context(), &session.ListOptions{Key: key(t, s), Current: true})
			require.NoError(t, err)
			require.Empty(t, current)
			for _, opts := range []*session.ListOptions{nil, {Key: session.Key{Agent: "main"}, Limit: 1}, {Owner: "bert"}} {
				infos, err := scope.List(t.Context(), opts)
				require.NoError(t, err)
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
			infos, err := again.List(t.Context(), nil)
			require.NoError(t, err)
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
	require.Error(t, s.SetMeta(ctx, transcript.Meta{Owner: new("bert")}))
	for _, item := range []transcript.Item{transcript.Meta{Owner: new("")}} {
		_, err := s.Append(ctx, item)
		require.Error(t, err)
		require.False(t, errors.Is(err, session.ErrConflict))
	}
	end := int64(0)
	for rec, err := range s.Scan(ctx, session.ScanOptions{}) {
		require.NoError(t, err)
		end = rec.End
	}
	_, err = s.AppendLines(ctx, end, transcript.Entry{ID: "x", Body: transcript.Current{Gen: 9}})
	require.Error(t, err)
	require.Equal(t, lines, storetest.Lines(t, s))
	head, err := storetest.Head(ctx, s)
	require.NoError(t, err)
	_, err = s.Fork(ctx, head, &session.CreateOptions{Owner: "bert"})
	require.Error(t, err)
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err = s.LockTurn(over, true)
	require.ErrorIs(t, err, session.ErrBusy)
	require.ErrorIs(t, err, context.Canceled)
	fork, err := s.Fork(ctx, head, nil)
	require.NoError(t, err)
	require.Equal(t, "ada", storetest.Info(t, fork).Owner)
	child, err := st.Create(ctx, session.Key{Agent: "main", Channel: "sub", Peer: "1"}, &session.CreateOptions{Parent: transcript.Link{Session: s.Ref().ID, Entry: head}})
	require.NoError(t, err)
	require.Equal(t, "ada", storetest.Info(t, child).Owner, "children inherit the owner")
	require.NoError(t, s.MakeCurrent(ctx))
}

// A session that is given to another owner leaves the scope, but for the appends and
// the history of handles that the scope has returned before.
func TestScopedSessionGiven(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	st := storetest.Open(t, storetest.Scratch(t), nil)
	defer storetest.Close(t, st)
	ada, err := st.Scope("ada")
	require.NoError(t, err)
	s := storetest.Load(t, ada, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("hello"), transcript.AssistantText("Hello."))
	other, err := st.Get(ctx, s.Ref())
	require.NoError(t, err)
	require.NoError(t, other.SetMeta(ctx, transcript.Meta{Owner: new("bert")}))

	_, err = ada.Get(ctx, s.Ref())
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, err := range s.Scan(ctx, session.ScanOptions{Backward: true}) {
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
	_, err = s.LockTurn(ctx, false)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, s.MakeCurrent(ctx), fs.ErrNotExist)

	storetest.Add(t, s, transcript.UserText("more"))
	h, err := s.History(ctx)
	require.NoError(t, err)
	require.Len(t, h.Messages, 3)
}

// A deletion that has failed half way is nobody's: a scope does not say whose session
// it was, not even to its owner, and the store finishes it.
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
