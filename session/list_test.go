package session_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// The session with the newest message comes first. Other entries move nothing.
func TestListNewestFirst(t *testing.T) {
	c := &storetest.Clock{Now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: c.Tick})
	defer storetest.Close(t, st)
	made := map[string]*session.Session{}
	for _, id := range []string{"a", "b", "c"} {
		s := storetest.Create(t, st, session.Key{Agent: id, Channel: "c", Peer: "p"}, &session.CreateOptions{ID: id})
		made[id] = s
	}
	require.Equal(t, []string{"c", "b", "a"}, storetest.ListIDs(t, st, nil))
	storetest.Add(t, made["a"], transcript.UserText("q"))
	require.Equal(t, []string{"a", "c", "b"}, storetest.ListIDs(t, st, nil))
	require.NoError(t, made["b"].SetMeta(t.Context(), transcript.Meta{Keep: new(true)}))
	require.Equal(t, []string{"a", "c", "b"}, storetest.ListIDs(t, st, nil))
	storetest.Add(t, made["b"], storetest.Answer("x"))
	require.Equal(t, []string{"b", "a", "c"}, storetest.ListIDs(t, st, nil))
	require.Equal(t, c.Now.Truncate(time.Microsecond), storetest.Info(t, made["b"]).UpdatedAt)
}

func TestListFilters(t *testing.T) {
	c := &storetest.Clock{Now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: c.Tick})
	defer storetest.Close(t, st)
	times := map[string]time.Time{}
	for i, key := range []session.Key{
		{Agent: "x", Channel: "cli", Peer: "ann"},
		{Agent: "x", Channel: "mail", Kind: "direct", Peer: "ann"},
		{Agent: "y", Channel: "mail", Account: "work", Kind: "group", Peer: "bob", Thread: "7"},
	} {
		id := fmt.Sprint("s", i)
		s := storetest.Create(t, st, key, &session.CreateOptions{ID: id, Owner: key.Peer, Labels: []string{"l", id}})
		times[id] = storetest.Info(t, s).UpdatedAt
	}
	for _, tt := range []struct {
		opts session.ListOptions
		want []string
	}{
		{session.ListOptions{}, []string{"s2", "s1", "s0"}},
		{session.ListOptions{Key: session.Key{Agent: "x"}}, []string{"s1", "s0"}},
		{session.ListOptions{Key: session.Key{Agent: "none"}}, nil},
		{session.ListOptions{Key: session.Key{Channel: "mail"}}, []string{"s2", "s1"}},
		{session.ListOptions{Key: session.Key{Channel: "mail", Kind: "direct"}}, []string{"s1"}},
		{session.ListOptions{Key: session.Key{Account: "work"}}, []string{"s2"}},
		{session.ListOptions{Key: session.Key{Thread: "7", Peer: "ann"}}, nil},
		{session.ListOptions{Key: session.Key{Peer: "ann"}}, []string{"s1", "s0"}},
		{session.ListOptions{Current: true, Limit: 2}, []string{"s2", "s1"}},
		{session.ListOptions{Key: session.Key{Agent: "x", Channel: "cli", Peer: "ann"}, Current: true, Owner: "ann"}, []string{"s0"}},
		{session.ListOptions{Key: session.Key{Agent: "x", Channel: "cli", Peer: "ann"}, Current: true}, nil},
		{session.ListOptions{Key: session.Key{Agent: "x", Channel: "cli", Peer: "ann"}, Current: true, Owner: "bob"}, nil},
		{session.ListOptions{Key: session.Key{Agent: "x", Channel: "cli", Peer: "eve"}, Current: true}, nil},
		{session.ListOptions{Owner: "bob"}, []string{"s2"}},
		{session.ListOptions{Owner: "bo"}, nil},
		{session.ListOptions{Label: "l", Limit: 2}, []string{"s2", "s1"}},
		{session.ListOptions{Label: "s0", Limit: 1}, []string{"s0"}},
		{session.ListOptions{Since: times["s1"]}, []string{"s2", "s1"}},
		{session.ListOptions{Until: times["s1"]}, []string{"s0"}},
		{session.ListOptions{Since: times["s1"], Until: times["s2"]}, []string{"s1"}},
	} {
		require.Equal(t, tt.want, storetest.ListIDs(t, st, &tt.opts), "%+v", tt.opts)
	}
}

// Pages show every untouched session exactly once, whatever happens to others, even
// if sessions of several agents share a time and an ID. The current session of a
// whole key belongs to this key, not to one with more parts.
func TestListCurrentOfAKey(t *testing.T) {
	for name, st := range map[string]*session.Store{
		"memory": session.OpenDriver(memdriver.New(nil), nil),
		"files":  storetest.Open(t, t.TempDir(), storetest.Unsynced),
	} {
		t.Run(name, func(t *testing.T) {
			group := session.Key{Agent: "main", Channel: "telegram", Kind: "group", Peer: "42"}
			thread := group
			thread.Thread = "7"
			for _, key := range []session.Key{group, thread, group} {
				storetest.Add(t, storetest.Load(t, st, key), transcript.UserText(key.String()))
			}
			storetest.Add(t, storetest.Load(t, st, thread), transcript.UserText("the newest"))
			for _, key := range []session.Key{group, thread} {
				infos := storetest.List(t, st, &session.ListOptions{Key: key, Current: true})
				require.Len(t, infos, 1)
				want := storetest.Load(t, st, key)
				require.Equal(t, storetest.Info(t, want), infos[0])
				for _, none := range []session.ListOptions{
					{After: infos[0].Cursor}, {Until: infos[0].UpdatedAt}, {Since: infos[0].UpdatedAt.Add(1)}, {State: session.Archived},
				} {
					none.Key, none.Current = key, true
					infos = storetest.List(t, st, &none)
					require.Empty(t, infos)
				}
			}
			infos := storetest.List(t, st, &session.ListOptions{Key: group})
			require.Len(t, infos, 2, "without Current empty parts match all")
			require.NoError(t, st.Close())
		})
	}
}

func TestListPages(t *testing.T) {
	for seed := range uint64(storetest.Few(30)) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		c := &storetest.Clock{Now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
		still := seed%2 == 0 // the clock
		st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: func() time.Time {
			if still {
				return c.Now
			}
			return c.Tick()
		}})
		make := func(i int) *session.Session {
			s, err := st.Create(t.Context(), session.Key{Agent: fmt.Sprint("agent", i%3), Channel: "c", Peer: "p"},
				&session.CreateOptions{ID: fmt.Sprint("s", i/3), Owner: fmt.Sprint(i % 2)})
			require.NoError(t, err)
			return s
		}
		untouched, busy := map[session.Ref]bool{}, []*session.Session{}
		for i := range 40 {
			if s := make(i); i%7 == 0 {
				busy = append(busy, s)
			} else {
				untouched[s.Ref()] = true
			}
		}
		opts := session.ListOptions{Limit: 1 + rnd.IntN(9)}
		if seed%5 == 0 {
			opts.Owner = "1"
		}
		still = false
		seen := map[session.Ref]int{}
		for page := 0; ; page++ {
			infos := storetest.List(t, st, &opts)
			for _, i := range infos {
				seen[i.Ref]++
			}
			if len(infos) < opts.Limit {
				break
			}
			opts.After = infos[len(infos)-1].Cursor
			switch s := busy[rnd.IntN(len(busy))]; rnd.IntN(3) {
			case 0:
				_, _ = s.Append(t.Context(), transcript.UserText("q")) // it may be deleted
			case 1:
				require.NoError(t, errors.Join(nil, ignoreMissing(st.Delete(t.Context(), s.Ref()))))
			case 2:
				make(1000 + 3*page)
			}
		}
		for ref := range untouched {
			want := 1
			if opts.Owner != "" {
				var i int
				_, _ = fmt.Sscanf(ref.ID, "s%d", &i)
				var a int
				_, _ = fmt.Sscanf(ref.Agent, "agent%d", &a)
				want = (3*i + a) % 2
			}
			require.Equal(t, want, seen[ref], "seed %d: %v", seed, ref)
		}
		storetest.Close(t, st)
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func TestListCursorIsChecked(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	good := storetest.Info(t, storetest.Load(t, st, storetest.CLI)).Cursor
	for _, bad := range []string{
		"x", good[1:], "!", base64.RawURLEncoding.EncodeToString([]byte("2\n2026-11-20T08:00:00Z\na\nb")),
		base64.RawURLEncoding.EncodeToString([]byte("1\nyesterday\na\nb")),
		base64.RawURLEncoding.EncodeToString([]byte("1\n2026-11-20T08:00:00Z\na\x00\nb")),
		base64.RawURLEncoding.EncodeToString([]byte("1\n2026-11-20T08:00:00Z\n\xff\nb")),
		base64.RawURLEncoding.EncodeToString([]byte("1\n2026-11-20T08:00:00Z\n\nb")),
	} {
		_, err := st.List(t.Context(), &session.ListOptions{After: bad})
		require.ErrorIs(t, err, fs.ErrInvalid, bad)
	}
	require.Empty(t, storetest.ListIDs(t, st, &session.ListOptions{After: good}))
}

// A list continues after every session that it shows, even after one of which only the
// name of the file is known.
func TestListGoesOnBehindAnUnreadableHeader(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	hashed := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: strings.Repeat("A", 100)})
	storetest.Add(t, hashed, transcript.UserText("hello"))
	_ = storetest.Create(t, st, storetest.CLI, nil)
	storetest.Close(t, st)
	files, err := filepath.Glob(filepath.Join(dir, "agents/main/sessions/%41*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	text, err := os.ReadFile(files[0])
	require.NoError(t, err)
	text[0] = 'x'
	require.NoError(t, os.WriteFile(files[0], text, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "agents/main/sessions.jsonl")))

	st = storetest.Open(t, dir, nil)
	all := storetest.ListIDs(t, st, nil)
	require.Contains(t, all, filepath.Base(files[0]))
	var paged []string
	for after := ""; ; {
		page := storetest.List(t, st, &session.ListOptions{After: after, Limit: 1})
		if len(page) == 0 {
			break
		}
		paged, after = append(paged, page[0].ID), page[0].Cursor
	}
	require.Equal(t, all, paged)
	storetest.Close(t, st)
}

func TestInfoJSON(t *testing.T) {
	var e session.Event
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Observe: func(ctx context.Context, got session.Event) context.Context { e = got; return ctx }})
	defer storetest.Close(t, st)
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{ID: "x", Owner: "o", Labels: []string{"l"}, TTL: time.Second})
	storetest.Add(t, s, transcript.UserText("q"))
	var names map[string]any
	require.NoError(t, json.Unmarshal([]byte(storetest.JSON(t, storetest.Info(t, s))), &names))
	for _, name := range []string{"agent", "id", "key", "current", "title", "owner", "labels", "createdAt", "updatedAt", "lastUserAt", "messages", "turns", "tokens", "size", "ttl"} {
		require.Contains(t, names, name)
	}
	_, err := s.AppendIf(t.Context(), session.Cond{Empty: true}, transcript.UserText("q"))
	require.ErrorIs(t, err, session.ErrConflict)
	e.Took = 0
	require.JSONEq(t, fmt.Sprintf(`{"kind":"append","session":{"agent":"main","id":"x"},"error":%q}`, err.Error()), storetest.JSON(t, e))
}

// An owner or a label that is not UTF-8 is refused. A line would hold another one,
// so that the session was listed and erased with those of another owner.
func TestNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	st := storetest.Open(t, storetest.Scratch(t), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	owner := "jos\xe9"
	for _, o := range []session.CreateOptions{{Owner: owner}, {Labels: []string{"a", owner}}} {
		_, err := st.Create(t.Context(), storetest.CLI, &o)
		require.ErrorContains(t, err, `"jos\xe9" is not valid UTF-8`)
	}
	for _, m := range []transcript.Meta{{Labels: []string{owner}}} {
		require.ErrorContains(t, s.SetMeta(t.Context(), m), `"jos\xe9" is not valid UTF-8`)
		for _, item := range []transcript.Item{m, transcript.WithApp(m, nil)} {
			_, err := s.Append(t.Context(), item)
			require.ErrorContains(t, err, `"jos\xe9" is not valid UTF-8`)
		}
	}
	all := storetest.List(t, st, nil)
	require.Len(t, all, 1)
	require.Empty(t, all[0].Owner)
}

// A key without an agent is a key of the agent main in a list, as it is for Load.
func TestListOfAKeyWithoutAnAgent(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		key := session.Key{Channel: "cli", Peer: "u"}
		s := storetest.Load(t, st, key)
		require.Equal(t, []string{s.Ref().ID}, storetest.ListIDs(t, st, &session.ListOptions{Key: key, Current: true}))
	})
}

// A reference without an agent names a session of the agent main in every method of a store.
func TestReferenceWithoutAnAgent(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		id := storetest.Add(t, s, transcript.UserText("hi"))[0]
		ref := session.Ref{ID: s.Ref().ID}
		child := storetest.Create(t, st, session.Key{Channel: "sub", Peer: "1"}, &session.CreateOptions{Parent: transcript.Link{Session: ref.ID}})
		fork := storetest.Fork(t, s, id, &session.CreateOptions{Aside: true})
		require.Equal(t, []string{child.Ref().ID}, storetest.ListIDs(t, st, &session.ListOptions{Parent: ref}))
		require.Equal(t, []string{fork.Ref().ID}, storetest.ListIDs(t, st, &session.ListOptions{Base: ref}))
		for _, err := range st.Scan(t.Context(), ref, session.ScanOptions{}) {
			require.NoError(t, err)
		}
		require.NoError(t, storetest.ErrOf(st.Get(t.Context(), ref)))
		require.NoError(t, st.SetState(t.Context(), ref, session.Archived, -1))
		require.NoError(t, st.SetState(t.Context(), ref, session.Live, -1))
		require.NoError(t, st.DeleteAt(t.Context(), ref, storetest.Info(t, s).End))
		require.NoError(t, st.Delete(t.Context(), session.Ref{ID: fork.Ref().ID}))
	})
}
