package session_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A list reads the index alone: it shows a session whose transcript cannot be
// read any more.
func TestListReadsTheIndexAlone(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("a title"), storetest.Answer("x"))
	want := storetest.Info(t, s)
	storetest.Close(t, st)
	path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
	require.NoError(t, os.WriteFile(path, []byte("spoilt\n"), 0o600))
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 1)
	got := infos[0]
	require.Equal(t, "a title", got.Title)
	require.Equal(t, 1, got.Turns)
	require.Equal(t, 2, got.Messages)
	require.NotZero(t, got.Tokens)
	require.True(t, got.UpdatedAt.Equal(want.UpdatedAt))
	_, err := st.Load(t.Context(), storetest.CLI)
	require.Error(t, err, "the spoilt transcript was loaded")
}

// An index that cannot be read is made again from the transcripts. If another
// program's index is next to it, the folder belongs to that program.
func TestCorruptIndex(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("hi"))
	want := storetest.Info(t, s)
	storetest.Close(t, st)
	index := filepath.Join(dir, "agents/main/sessions.jsonl")
	for _, text := range []string{"", "garbage", "{}\n", "\x00\x00\x00\n"} {
		require.NoError(t, os.WriteFile(index, []byte(text), 0o600))
		st = storetest.Open(t, dir, nil)
		require.Equal(t, s.Ref().ID, storetest.Load(t, st, storetest.CLI).Ref().ID)
		infos := storetest.List(t, st, nil)
		require.Equal(t, []session.Info{want}, infos, "%q", text)
		storetest.Close(t, st)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "agents/main/sessions.json"), []byte(`{"main:cli:user": {"session_id": "0123456789ab"}}`), 0o600))
	_, err := session.Open(dir, nil)
	require.ErrorContains(t, err, "import")
}

// After its index was lost a session belongs to its owner, and so do the sessions
// that it starts.
func TestOwnerWithoutIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Owner: "ada"})
	storetest.Close(t, st)
	for name, find := range map[string]func(t *testing.T, st *session.Store) (*session.Session, error){
		"in its scope": func(t *testing.T, st *session.Store) (*session.Session, error) {
			t.Helper()
			ada, err := st.Scope("ada")
			require.NoError(t, err)
			return ada.Get(t.Context(), s.Ref())
		},
		"by its child": func(t *testing.T, st *session.Store) (*session.Session, error) {
			t.Helper()
			child := session.Key{Agent: "main", Channel: "cli", Peer: "child"}
			return st.Create(t.Context(), child, &session.CreateOptions{Parent: transcript.Link{Session: s.Ref().ID}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "agents/main/sessions.jsonl")))
			st := storetest.Open(t, dir, storetest.Unsynced)
			defer storetest.Close(t, st)
			found, err := find(t, st)
			require.NoError(t, err)
			require.Equal(t, "ada", storetest.Info(t, found).Owner)
		})
	}
}

// A session has the owner of its parent, even if the index lacks the parent's last row.
func TestOwnerThatTheIndexLacks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := filedriver.Open(dir, &filedriver.Options{Sync: session.SyncNever})
	require.NoError(t, err)
	st := session.OpenDriver(&storetest.Between{Driver: d, BeforePut: func(session.Ref) error { return syscall.ENOSPC }}, nil)
	parent := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Owner: "ada"})
	storetest.Add(t, parent, transcript.UserText("hello"))
	storetest.Close(t, st)
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	child := session.Key{Agent: "main", Channel: "cli", Peer: "child"}
	s := storetest.Create(t, st, child, &session.CreateOptions{Parent: transcript.Link{Session: parent.Ref().ID}})
	require.Equal(t, "ada", storetest.Info(t, s).Owner)
}

// A parent that cannot be read is not taken for one in another store: its child
// would get no owner. Only a missing parent may be, and a given owner needs no
// parent.
func TestOwnerOfAParentThatCannotBeRead(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(&storetest.Between{Driver: memdriver.New(nil), BeforeGet: func(ref session.Ref) error {
		if ref.ID == "parent" {
			return fs.ErrPermission
		}
		return nil
	}}, nil)
	defer storetest.Close(t, st)
	child := session.Key{Agent: "main", Channel: "cli", Peer: "child"}
	parent := transcript.Link{Session: "parent"}
	_, err := st.Create(t.Context(), child, &session.CreateOptions{Parent: parent})
	require.ErrorIs(t, err, fs.ErrPermission)
	s := storetest.Create(t, st, child, &session.CreateOptions{Parent: parent, Owner: "ada"})
	require.Equal(t, "ada", storetest.Info(t, s).Owner)

	elsewhere := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, elsewhere)
	_ = storetest.Create(t, elsewhere, child, &session.CreateOptions{Parent: parent})
}

// A transcript that a user puts into the folder, and that one process has found by
// its ID, is in the lists of all others.
func TestFoundByIDIsListed(t *testing.T) {
	t.Parallel()
	from, dir := t.TempDir(), t.TempDir()
	st := storetest.Open(t, from, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	other := session.Key{Agent: "main", Channel: "cli", Peer: "other"}
	storetest.Load(t, st, other)
	name := filepath.Join("agents/main/sessions", s.Ref().ID+".jsonl")
	data, err := os.ReadFile(filepath.Join(from, name))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	_ = mustGet(t, st, s.Ref())
	storetest.Add(t, storetest.Load(t, st, other), transcript.UserText("q"))
	require.NoError(t, storetest.Load(t, st, other).SetMeta(t.Context(), transcript.Meta{Title: new("t")}))
	again := storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, again)
	require.Contains(t, storetest.ListIDs(t, again, nil), s.Ref().ID)
}

// A session whose creator died half way is finished or discarded by
// the next one.
func TestUnfinishedCreation(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	storetest.Load(t, st, session.Key{Agent: "main", Channel: "other", Peer: "x"})
	storetest.Close(t, st)
	folder := filepath.Join(dir, "agents/main")
	storetest.AppendText(t, filepath.Join(folder, "sessions.jsonl"), `{"by":12345678,"busy":"never"}`+"\n"+`{"by":12345678,"busy":"renamed"}`+"\n"+`{"by":12345678,"row":{"id":"tor`)
	header := `{"type":"session","id":"renamed","ts":"2026-11-20T08:00:00Z","v":1,"key":"main:cli:b","gen":1,"created":"2026-11-20T08:00:00Z"}` + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(folder, "sessions/renamed.jsonl"), []byte(header), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "sessions/never.jsonl.tmp-0123456789abcdef"), []byte(header[:9]), 0o600))

	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	_, err := storetest.Current(t.Context(), st, session.Key{Agent: "main", Channel: "cli", Peer: "a"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, "renamed", storetest.Load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "b"}).Ref().ID)
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 2)
}

// Delete removes the file. A transcript that a user puts back is a session
// again.
func TestDeleteRemovesTheFile(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("secret"))
	path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	_, err = os.Stat(path)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = s.Append(t.Context(), transcript.UserText("x"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	other := storetest.Open(t, dir, nil)
	require.Contains(t, storetest.History(t, storetest.Load(t, other, storetest.CLI)), "secret")
	storetest.Close(t, other)
	storetest.Close(t, st)
}

func TestTitles(t *testing.T) {
	for text, want := range map[string]string{
		"hello":                     "hello",
		"\n\n  two \t words \nmore": "two words",
		"<s>x</s>\nhello":           "hello",
		"<s>x</s>":                  "real title",
		"[Previous conversation]\n": "real title",
		"   \n":                     "real title",
		strings.Repeat("é", 70):     strings.Repeat("é", 60) + "…",
	} {
		st := storetest.Open(t, t.TempDir(), nil)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText(text))
		storetest.Add(t, s, transcript.UserText("real title"))
		if got := storetest.Info(t, s).Title; got != want {
			t.Errorf("title of %q = %q, want %q", text, got, want)
		}
		storetest.Close(t, st)
	}
}

// A title is stored without control characters, whoever sets it.
func TestTitleIsClean(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	const given, want = "a\x1b[2J\u202eb\nc", "a[2Jb c"
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Title: given})
	require.Equal(t, want, storetest.Info(t, s).Title)
	listed := storetest.List(t, st, nil)
	require.Equal(t, want, listed[0].Title)
	title := given + "!"
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &title}))
	require.Equal(t, given+"!", title)
	require.Equal(t, want+"!", storetest.Info(t, s).Title)
	line, err := transcript.ParseEntry([]byte(`{"type":"meta","id":"m","ts":"2026-01-01T00:00:00Z","title":"\u001b\u2066x"}`)) // of another program
	require.NoError(t, err)
	var end int64
	for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		end = rec.End
	}
	data, err := os.ReadFile(filepath.Join(dir, "agents", "main", "sessions", s.Ref().ID+".jsonl"))
	require.NoError(t, err)
	require.NotContains(t, string(data), `\u001b`)
	require.NotContains(t, string(data), "\u202e")
	_, err = s.AppendLines(t.Context(), end, line)
	require.NoError(t, err)
	require.Equal(t, "x", storetest.Info(t, s).Title)
	storetest.Close(t, st)
	storetest.Close(t, storetest.Open(t, dir, nil))
}

// Text that is not UTF-8, or half a surrogate pair, is stored readable.
func TestOddText(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	r := storetest.Answer("", "c")
	r.Message.Content = []transcript.Block{
		transcript.TextBlock{Text: "a\xff\xed\xa0\x80b\x00\u2028\u0085"},
		transcript.ToolCallBlock{ID: "c", Name: "f", Input: json.RawMessage("{\"a\": \"\\ud800\",\n \"b\":1}")},
	}
	storetest.Add(t, s, transcript.UserText("x"), r, transcript.ToolResult("c", "\xc0"))
	want := storetest.History(t, s)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	require.Equal(t, want, storetest.History(t, s))
	if h, err := s.Health(t.Context()); err != nil || len(h.Damage)+len(h.Repairs) > 0 {
		t.Errorf("health %+v, %v", h, err)
	}
	storetest.CheckRequest(t, s)
}

// A turn is saved whole and in order.
func TestSaveTurn(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("look", "c"), transcript.ToolResult("c", "r"), storetest.Answer("done"))
	types, n := "", 0
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		types += e.Type() + " "
		if n > 0 && e.ID != ids[n-1] {
			t.Errorf("entry %d has ID %s, want %s", n, e.ID, ids[n-1])
		}
		if n == 1 && e.Batch != len(ids) || n > 1 && e.Part != n {
			t.Errorf("entry %d: batch %d, part %d", n, e.Batch, e.Part)
		}
		n++
	}
	require.Equal(t, "session user assistant tool_use tool_result assistant ", types)
	require.Equal(t, 1, storetest.Info(t, s).Turns)
}

// A summary that nothing follows is a history.
func TestSummaryAlone(t *testing.T) {
	dir := t.TempDir()
	for form, want := range []string{
		`{"messages":[{"role":"user","content":"[Previous conversation summary]\nS"}]}`,
		`{"messages":[{"role":"user","content":"[Previous conversation summary]\nS"},{"role":"assistant","content":"Understood, I have the context from our previous conversation."}]}`,
		`{"system":"[Previous conversation summary]\nS","messages":[]}`,
	} {
		st := storetest.Open(t, dir, &session.Options{Summary: rebuild.SummaryForm(form)})
		s := storetest.Load(t, st, storetest.CLI)
		if form == 0 {
			ids := storetest.Add(t, s, transcript.UserText(strings.Repeat("a long story ", 50)), storetest.Answer("indeed"))
			before := storetest.Info(t, s).Tokens
			storetest.Add(t, s, transcript.Compaction{Summary: "S", CoversTo: ids[1], TurnsBefore: 1})
			if after := storetest.Info(t, s).Tokens; after >= before {
				t.Errorf("the estimate went from %d to %d", before, after)
			}
		}
		if got := storetest.History(t, s); got != want {
			t.Errorf("form %d: %s, want %s", form, got, want)
		}
		if h := storetest.FullHistory(t, s); len(h.Messages) != 2 || !strings.HasPrefix(h.Messages[0].Text(), "a long story a long") {
			t.Errorf("full history %+v", h)
		}
		if storetest.Info(t, s).Turns != 1 {
			t.Errorf("%d turns, want 1", storetest.Info(t, s).Turns)
		}
		storetest.Close(t, st)
	}
}

// The newest sessions are the same, listed alone or among all, whichever driver
// can list them faster.
func TestListTheNewest(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	opts := &session.Options{Sync: session.SyncNever, Now: func() time.Time {
		now = now.Add(100 * time.Millisecond)
		return now
	}}
	dir := t.TempDir()
	for name, st := range map[string]*session.Store{"files": storetest.Open(t, dir, opts), "memory": session.OpenDriver(memdriver.New(nil), opts)} {
		for i := range 60 {
			key := session.Key{Agent: fmt.Sprint("agent", i%2), Channel: "c", Peer: fmt.Sprint(i % 20)}
			s := storetest.Create(t, st, key, nil)
			storetest.Add(t, s, transcript.UserText(fmt.Sprint("number ", i)))
		}
		for range 2 { // before and after a restart
			all := storetest.List(t, st, nil)
			for _, n := range []int{1, 7, 60, 100} {
				some := storetest.List(t, st, &session.ListOptions{Limit: n})
				if a, b := fmt.Sprint(some), fmt.Sprint(all[:min(n, len(all))]); a != b {
					t.Errorf("%s: the %d newest are\n%s\nwant\n%s", name, n, a, b)
				}
			}
			if len(all) != 60 || !all[0].Current || all[0].Title != "number 59" || all[59].Current {
				t.Errorf("%s: %d sessions, %+v", name, len(all), all[0])
			}
			if name == "memory" {
				break
			}
			storetest.Close(t, st)
			st = storetest.Open(t, dir, opts)
		}
		storetest.Close(t, st)
	}
}
