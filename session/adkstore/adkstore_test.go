package adkstore_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/adk/v2/model"
	adk "google.golang.org/adk/v2/session"
	"google.golang.org/genai"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/adkstore"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/retain"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// open returns a service over a folder, and its store, which ends with the test.
func open(t *testing.T, dir string, opts *session.Options) (adk.Service, *session.Store) {
	t.Helper()
	st, err := session.Open(dir, opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() }) // it may be closed
	return adkstore.New(st), st
}

func create(t *testing.T, s adk.Service, user, id string, state map[string]any) adk.Session {
	t.Helper()
	made, err := s.Create(t.Context(), &adk.CreateRequest{AppName: "app", UserID: user, SessionID: id, State: state})
	require.NoError(t, err)
	return made.Session
}

func get(t *testing.T, s adk.Service, user, id string) adk.Session {
	t.Helper()
	got, err := s.Get(t.Context(), &adk.GetRequest{AppName: "app", UserID: user, SessionID: id})
	require.NoError(t, err)
	return got.Session
}

func add(t *testing.T, s adk.Service, to adk.Session, events ...*adk.Event) {
	t.Helper()
	for _, e := range events {
		require.NoError(t, s.AppendEvent(t.Context(), to, e))
	}
}

func ids(s adk.Session) (ids []string) {
	for e := range s.Events().All() {
		ids = append(ids, e.ID)
	}
	return ids
}

func stateOf(s adk.Session) map[string]any { return maps.Collect(s.State().All()) }

// Six events with one timestamp stay in order; two handles append to one session; a retry
// by ID writes nothing; and all of it is there after a restart.
func TestOrder(t *testing.T) {
	dir := t.TempDir()
	s, st := open(t, dir, nil)
	first := create(t, s, "user", "s", nil)
	second := get(t, s, "user", "s")
	for i := range 6 {
		add(t, s, first, text(fmt.Sprint("e", i), "user", "same time", nil))
	}
	add(t, s, second, text("s1", "model", "from the second handle", nil))
	retry := text("f1", "user", "again", map[string]any{"n": 1.0, "user:n": 1.0})
	add(t, s, first, retry)
	add(t, s, second, text("s2", "user", "newer", map[string]any{"n": 2.0, "user:n": 2.0}))
	add(t, s, first, retry) // its event, with the state of that time, was stored already
	want := []string{"e0", "e1", "e2", "e3", "e4", "e5", "s1", "f1", "s2"}
	require.Equal(t, want, ids(get(t, s, "user", "s")))
	require.Equal(t, []string{"e0", "e1", "e2", "e3", "e4", "e5", "f1"}, ids(first))
	require.Equal(t, []string{"s1", "s2"}, ids(second))
	require.ErrorIs(t, s.AppendEvent(t.Context(), first, text("f1", "user", "other words", nil)), session.ErrIdemMismatch)
	require.NoError(t, st.Close())

	s, _ = open(t, dir, nil)
	got := get(t, s, "user", "s")
	require.Equal(t, want, ids(got))
	require.Equal(t, map[string]any{"n": 2.0, "user:n": 2.0}, stateOf(got))
	require.Equal(t, retry, got.Events().At(7))
	require.Equal(t, got.Events().At(8).Timestamp, got.LastUpdateTime())
	recent, err := s.Get(t.Context(), &adk.GetRequest{AppName: "app", UserID: "user", SessionID: "s", NumRecentEvents: 2})
	require.NoError(t, err)
	require.Equal(t, want[7:], ids(recent.Session))
	add(t, s, got, &adk.Event{Author: "agent", InvocationID: "run"}, &adk.Event{Author: "agent", InvocationID: "run"})
	require.Equal(t, len(want)+2, get(t, s, "user", "s").Events().Len(), "events without an ID are always appended")
}

// State has the scope of its prefix, in lists as well, after a restart, and if it is too
// large for a row. Temporary state stays in memory.
func TestState(t *testing.T) {
	dir := t.TempDir()
	s, st := open(t, dir, nil)
	large := strings.Repeat("x", 10_000)
	ann := create(t, s, "ann", "1", map[string]any{"app:a": "app", "user:u": "ann", "own": true, "temp:t": 1})
	create(t, s, "ann", "2", nil)
	create(t, s, "bob", "1", map[string]any{"user:u": large, "own": large})
	add(t, s, ann, text("e", "user", "hi", map[string]any{"app:b": []any{"<&>", 1.0}, "own": map[string]any{"deep": nil}, "gone": nil, "temp:t": 2}))
	require.Equal(t, 2, stateOf(ann)["temp:t"])
	require.NotContains(t, ann.Events().At(0).Actions.StateDelta, "temp:t")
	require.NoError(t, ann.State().Set("only", "here"))
	app := map[string]any{"app:a": "app", "app:b": []any{"<&>", 1.0}}
	with := func(more map[string]any) map[string]any {
		all := maps.Clone(app)
		maps.Copy(all, more)
		return all
	}
	want := map[string]map[string]any{
		"ann 1": with(map[string]any{"user:u": "ann", "own": map[string]any{"deep": nil}, "gone": nil}),
		"ann 2": with(map[string]any{"user:u": "ann"}),
		"bob 1": with(map[string]any{"user:u": large, "own": large}),
	}
	for range 2 {
		listed := map[string]map[string]any{}
		for _, user := range []string{"", "ann", "bob", "eve"} {
			list, err := s.List(t.Context(), &adk.ListRequest{AppName: "app", UserID: user})
			require.NoError(t, err)
			for _, got := range list.Sessions {
				require.Contains(t, []string{"", got.UserID()}, user)
				require.Zero(t, got.Events().Len())
				listed[got.UserID()+" "+got.ID()] = stateOf(got)
				require.Equal(t, stateOf(got), stateOf(get(t, s, got.UserID(), got.ID())))
			}
		}
		require.Equal(t, want, listed)
		require.NoError(t, st.Close())
		s, st = open(t, dir, nil)
	}
	_, err := s.Create(t.Context(), &adk.CreateRequest{AppName: "app", UserID: "ann", SessionID: "1", State: map[string]any{"app:a": "changed"}})
	require.ErrorIs(t, err, fs.ErrExist)
	require.Equal(t, "app", stateOf(get(t, s, "bob", "1"))["app:a"])
	require.NoError(t, s.Delete(t.Context(), &adk.DeleteRequest{AppName: "app", UserID: "ann", SessionID: "1"}))
	err = s.AppendEvent(t.Context(), ann, text("late", "user", "hi", map[string]any{"app:a": "changed"}))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "app", stateOf(get(t, s, "bob", "1"))["app:a"], "a deleted session changes no shared state")
	again := create(t, s, "ann", "1", nil)
	require.Equal(t, with(map[string]any{"user:u": "ann"}), stateOf(again))
}

// Retention leaves shared state, which no user message renews.
func TestRetention(t *testing.T) {
	now := time.Now()
	opts := &session.Options{Now: func() time.Time { return now }}
	s, st := open(t, t.TempDir(), opts)
	ann := create(t, s, "ann", "1", map[string]any{"app:a": 1, "user:u": 1})
	now = now.Add(40 * 24 * time.Hour)
	add(t, s, ann, text("e1", "user", "hi", nil))
	now = now.Add(2 * time.Hour)
	create(t, s, "bob", "1", map[string]any{"user:u": 2})
	plan, err := retain.Preview(t.Context(), st, retain.Policy{Default: 30 * 24 * time.Hour, Delete: true, Now: opts.Now, Force: true})
	require.NoError(t, err)
	require.Len(t, plan.Items, 2)
	_, err = retain.Apply(t.Context(), st, plan)
	require.NoError(t, err)
	require.Equal(t, map[string]any{"app:a": 1.0, "user:u": 1.0}, stateOf(get(t, s, "ann", "1")))
}

// A session that was deleted and made again takes events with the IDs of the earlier one.
func TestRecreated(t *testing.T) {
	s, _ := open(t, t.TempDir(), nil)
	for n := range 3 {
		made := create(t, s, "ann", "1", nil)
		add(t, s, made, text("e1", "user", "hi", map[string]any{"user:u": n % 2}))
		require.Equal(t, float64(n%2), stateOf(get(t, s, "ann", "1"))["user:u"])
		require.NoError(t, s.Delete(t.Context(), &adk.DeleteRequest{AppName: "app", UserID: "ann", SessionID: "1"}))
	}
}

// Names of any form are kept apart.
func TestNames(t *testing.T) {
	s, _ := open(t, t.TempDir(), nil)
	names := [][2]string{{"u", "1"}, {"u1", ""}, {"u", "../x"}, {"u", "a:b%"}, {"u:a", "b"}, {"汉字@example.org", "会话 1"}, {"u", strings.Repeat("é", 200)}}
	for _, n := range names[:1] {
		require.Equal(t, "1", create(t, s, n[0], n[1], nil).ID())
	}
	for _, n := range names[2:] {
		add(t, s, create(t, s, n[0], n[1], nil), text(n[0]+n[1], "user", "hi", nil))
	}
	generated := create(t, s, names[1][0], "", nil)
	require.NotEmpty(t, generated.ID())
	for _, n := range names[2:] {
		require.Equal(t, []string{n[0] + n[1]}, ids(get(t, s, n[0], n[1])))
	}
	list, err := s.List(t.Context(), &adk.ListRequest{AppName: "app"})
	require.NoError(t, err)
	require.Len(t, list.Sessions, len(names))
	for _, user := range []string{"", strings.Repeat("u", 600), "\xff"} {
		_, err := s.Create(t.Context(), &adk.CreateRequest{AppName: "app", UserID: user, SessionID: "s"})
		require.Error(t, err)
	}
	bad := map[string]any{"\xff": 1, "user:u": 1}
	_, err = s.Create(t.Context(), &adk.CreateRequest{AppName: "app", UserID: "u", SessionID: "bad", State: bad})
	require.ErrorContains(t, err, "UTF-8")
	require.ErrorContains(t, s.AppendEvent(t.Context(), generated, text("bad", "user", "hi", bad)), "UTF-8")
	require.Empty(t, stateOf(get(t, s, "u", "a:b%")))
	_, err = s.Create(t.Context(), &adk.CreateRequest{AppName: "_app", UserID: "u", SessionID: "s"})
	require.ErrorIs(t, err, session.ErrKey)
}

// An event is a message of the store: with calls, results, usage, a title, and words that a
// search finds, a filter masks and an erase of the user removes.
func TestMessages(t *testing.T) {
	s, st := open(t, t.TempDir(), &session.Options{Filters: []session.Filter{session.Redact(redact.Secrets)}})
	made := create(t, s, "ann", "s", map[string]any{"user:name": "Ann Example"})
	call := &genai.FunctionCall{ID: "adk-1", Name: "find", Args: map[string]any{"city": "Porto"}}
	answer := text("e2", "model", "", nil)
	answer.Content = &genai.Content{Role: "model", Parts: []*genai.Part{{Text: "Let me see.", ThoughtSignature: []byte("sig")}, {FunctionCall: call}}}
	answer.ModelVersion, answer.UsageMetadata = "gemini-3-pro", &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 7, CandidatesTokenCount: 3}
	result := text("e3", "user", "", nil)
	result.Content.Parts = []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "adk-1", Name: "find", Response: map[string]any{"output": "41.15 N"}}}}
	odd := text("e5", "user", "", nil)
	odd.Content.Parts = []*genai.Part{{FunctionResponse: &genai.FunctionResponse{Response: map[string]any{}}}}
	secret := "sk-ant-api03-" + strings.Repeat("Ab1_", 20)
	all := []*adk.Event{text("e1", "user", "Where is Porto?", nil), answer, result, text("e4", "model", "In the north.", nil), odd, text("e6", "user", "", nil)}
	add(t, s, made, all...)
	add(t, s, made, text("e7", "user", "the key is "+secret, map[string]any{"key": secret}))
	got := get(t, s, "ann", "s")
	for i, e := range all {
		want, err := json.Marshal(e)
		require.NoError(t, err)
		have, err := json.Marshal(got.Events().At(i))
		require.NoError(t, err)
		require.Equal(t, string(want), string(have))
	}
	masked, err := json.Marshal([]any{got.Events().At(6), stateOf(got)})
	require.NoError(t, err)
	require.NotContains(t, string(masked), secret)

	infos, err := st.List(t.Context(), &session.ListOptions{Key: session.Key{Agent: "app", Channel: "adk"}})
	require.NoError(t, err)
	require.Len(t, infos, 1)
	require.Equal(t, []string{"ann", "app:adk:s", "Where is Porto?"}, []string{infos[0].Owner, infos[0].Key, infos[0].Title})
	require.Equal(t, 7, infos[0].Usage["gemini-3-pro"].Input)
	kept, err := st.Get(t.Context(), infos[0].Ref)
	require.NoError(t, err)
	h, err := kept.History(t.Context())
	require.NoError(t, err)
	require.Equal(t, []transcript.Role{"user", "assistant", "user", "assistant", "user"}, roles(h.Messages))
	require.Equal(t, "adk-1", h.Messages[1].ToolCalls()[0].ID)
	pending, err := kept.Pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, pending.Calls)
	hits := 0
	for hit, err := range search.Store(t.Context(), st, search.Query{Text: "Porto"}) {
		require.NoError(t, err)
		require.Equal(t, infos[0].Ref, hit.Session)
		hits++
	}
	require.NotZero(t, hits)

	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Owner: "ann"})
	require.NoError(t, err)
	_, err = erase.Run(t.Context(), st, plan)
	require.NoError(t, err)
	require.Empty(t, stateOf(create(t, s, "ann", "new", nil)), "the state of the user is gone as well")
	_, err = s.Get(t.Context(), &adk.GetRequest{AppName: "app", UserID: "ann", SessionID: "s"})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func roles(messages []transcript.Message) (roles []transcript.Role) {
	for _, m := range messages {
		roles = append(roles, m.Role)
	}
	return roles
}

// Goroutines share a session object and a service, and a service takes the session of
// another one.
func TestConcurrent(t *testing.T) {
	store := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { require.NoError(t, store.Close()) }()
	s, other := adkstore.New(store), adkstore.New(store)
	made := create(t, s, "user", "s", nil)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			by := s
			if i%2 == 1 {
				by = other
			}
			for n := range 10 {
				e := text(fmt.Sprint(i, "-", n), "user", "hi", map[string]any{fmt.Sprint(i): n, "app:n": n})
				if err := by.AppendEvent(t.Context(), made, e); err != nil {
					t.Error(err)
				}
				_ = stateOf(made)
				_, _ = made.State().Get("x")
				_ = made.State().Set("x", n)
				_ = made.LastUpdateTime().Before(time.Now())
			}
		})
	}
	group.Wait()
	require.Len(t, ids(made), 80)
	got := get(t, s, "user", "s")
	require.Len(t, ids(got), 80)
	next := map[byte]int{}
	for _, id := range ids(got) {
		require.Equal(t, fmt.Sprint(string(id[0]), "-", next[id[0]]), id)
		next[id[0]]++
	}
	require.Equal(t, 9.0, stateOf(got)["3"])
}

// Partial events are not stored, and neither are nil ones and those that are not JSON.
func TestNotStored(t *testing.T) {
	s, _ := open(t, t.TempDir(), nil)
	made := create(t, s, "user", "s", nil)
	add(t, s, made, &adk.Event{ID: "p", LLMResponse: model.LLMResponse{Partial: true}})
	require.Error(t, s.AppendEvent(t.Context(), nil, text("e", "user", "hi", nil)))
	require.Error(t, s.AppendEvent(t.Context(), made, nil))
	require.Error(t, s.AppendEvent(t.Context(), made, text("e", "user", "hi", map[string]any{"f": func() {}})))
	require.Empty(t, ids(made))
	require.Empty(t, ids(get(t, s, "user", "s")))
	require.Nil(t, made.Events().At(0))
	_, err := made.State().Get("f")
	require.ErrorIs(t, err, adk.ErrStateKeyNotExist)
}
