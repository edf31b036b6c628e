package exchange_test

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// A file is a file of an exported folder.
type file struct{ *fstest.MapFile }

func (f file) Write(p []byte) (int, error) {
	f.Data = append(f.Data, p...)
	return len(p), nil
}

func (file) Close() error { return nil }

// exportAll writes sessions as files of a program.
func exportAll(t *testing.T, to dialect.Dialect, as dialect.Session, sessions ...*session.Session) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	w, err := dialect.NewWriter(to, func(name string) (io.WriteCloser, error) {
		files[name] = &fstest.MapFile{}
		return file{files[name]}, nil
	})
	require.NoError(t, err)
	for _, s := range sessions {
		_, err := exchange.Export(t.Context(), s, w, as)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return files
}

// Sessions that go back to their program keep their IDs, or name the session here, and importing them again adds
// nothing.
func TestImportRoundTrip(t *testing.T) {
	for _, program := range writable {
		st := inMemory()
		var sessions []*session.Session
		ids := map[string]bool{}
		for _, im := range importAll(t, st, sessionsIn(t, os.DirFS(samples+string(program))), nil) {
			if im.Err == nil {
				s, err := st.Get(t.Context(), im.Session)
				require.NoError(t, err)
				if !ids[im.Source.ID] && im.Source.ID != "" {
					sessions, ids[im.Source.ID] = append(sessions, s), true
				}
			}
		}
		require.NotEmpty(t, sessions)
		before, err := st.List(t.Context(), nil)
		require.NoError(t, err)
		for _, im := range importAll(t, st, sessionsIn(t, exportAll(t, program, dialect.Session{}, sessions...)), nil) {
			require.True(t, ids[im.Source.ID] || im.Source.Origin == im.Session.ID, "%s: a new ID %s", program, im.Source.ID)
			require.False(t, im.Created, "%s: %s", program, im.Source.ID)
			require.Zero(t, im.Appended, "%s: %s", program, im.Source.ID)
		}
		after, err := st.List(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, before, after, program)
	}
}

// A session of the store that was exported is the same when it comes back; one of the same
// ID with other texts is another session.
func TestImportExportOfOwn(t *testing.T) {
	st := inMemory()
	s, err := st.Create(t.Context(), cli, &session.CreateOptions{ID: "00aa11bb22cc"})
	require.NoError(t, err)
	add(t, s, transcript.UserText("Where were we?"), transcript.AssistantText("At the imports."))
	files := exportAll(t, dialect.MiniClaw, dialect.Session{}, s)
	add(t, s, transcript.UserText("And now?"))
	im := importAll(t, st, sessionsIn(t, files), nil)[0]
	require.Equal(t, s.Ref(), im.Session)
	require.False(t, im.Created)
	require.Zero(t, im.Appended)
	for _, f := range files {
		f.Data = bytes.ReplaceAll(f.Data, []byte("imports"), []byte("exports"))
	}
	for range 2 {
		im = importAll(t, st, sessionsIn(t, files), nil)[0]
		require.NotEqual(t, s.Ref(), im.Session)
		history, _ := importedHistory(t, st, im.Session)
		require.Contains(t, history, "At the exports.")
	}
	all, err := st.List(t.Context(), nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
}

// Entries keep the IDs that are valid. A native line with the ID of an earlier line is
// skipped, and counted: as a repetition, or as different if its content is another.
func TestImportKeepsEntryIDs(t *testing.T) {
	text := `{"type":"session","id":"s","ts":"2026-03-01T09:00:00Z","v":1,"key":"main:cli:a","gen":1}
{"type":"user","id":"a","ts":"2026-03-01T09:00:00Z","content":"one"}
{"type":"assistant","id":"a","ts":"2026-03-01T09:00:00Z","content":"two"}
{"type":"user","id":"a","ts":"2026-03-01T09:00:00Z","content":"one"}
{"type":"user","id":"not valid","ts":"2026-03-01T09:00:00Z","content":"three"}
{"type":"user","id":"s","ts":"2026-03-01T09:00:00Z","content":"four"}
{"type":"assistant","id":"b.1","ts":"2026-03-01T09:00:00Z","content":"five"}
{"type":"rewind","id":"c","ts":"2026-03-01T09:00:00Z","to":"b.1"}
`
	st := inMemory()
	im := importAll(t, st, sessionsIn(t, fstest.MapFS{"s.jsonl": {Data: []byte(text)}}), nil)[0]
	require.Equal(t, "s", im.Session.ID)
	s, err := st.Get(t.Context(), im.Session)
	require.NoError(t, err)
	var ids []string
	made := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7`)
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		ids = append(ids, made.ReplaceAllString(e.ID, "new ")[:min(4, len(e.ID))])
	}
	require.Equal(t, []string{"s", "a", "new ", "new ", "b.1", "c"}, ids)
	require.Equal(t, dialect.Losses{"repeated": 1, "different": 1}, im.Lost)
}

// Lines name the entries by the IDs that these have in the store.
func TestImportedReferences(t *testing.T) {
	text := `{"type":"session","id":"s","ts":"2026-03-01T09:00:00Z","v":1,"key":"main:cli:a","gen":1}
{"type":"user","id":"not valid","ts":"2026-03-01T09:00:00Z","content":"one"}
{"type":"assistant","id":"b","ts":"2026-03-01T09:00:00Z","content":"two"}
{"type":"user","id":"not/valid","ts":"2026-03-01T09:00:00Z","content":"three"}
{"type":"hide","id":"h","ts":"2026-03-01T09:00:00Z","entries":["b","not/valid"]}
{"type":"compaction","id":"c","ts":"2026-03-01T09:00:00Z","summary":"S","coversTo":"b","read":["not valid"]}
`
	st := inMemory()
	im := importAll(t, st, sessionsIn(t, fstest.MapFS{"s.jsonl": {Data: []byte(text)}}), nil)[0]
	s, err := st.Get(t.Context(), im.Session)
	require.NoError(t, err)
	var ids []string
	var hide transcript.Hide
	var done transcript.Compaction
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		ids = append(ids, e.ID)
		switch b := e.Body.(type) {
		case transcript.Hide:
			hide = b
		case transcript.Compaction:
			done = b
		}
	}
	require.Equal(t, ids[2:4], hide.Entries)
	require.Equal(t, []any{ids[2], ids[1:2]}, []any{done.CoversTo, done.Read})
}

// A session whose ID is not valid is found by it, and comes back from an export, in a scope
// as well.
func TestFindByOldID(t *testing.T) {
	files := fstest.MapFS{"my chat.jsonl": {Data: []byte(`{"type":"user","content":"hi","ts":1772355600}
{"type":"assistant","content":[{"type":"text","text":"hello"}],"ts":1772355601}
`)}}
	scope, err := inMemory().Scope("ada")
	require.NoError(t, err)
	for _, st := range []*session.Store{inMemory(), scope} {
		im := importAll(t, st, sessionsIn(t, files), nil)[0]
		old := session.Ref{Agent: im.Session.Agent, ID: "my chat"}
		require.NotEqual(t, old, im.Session)
		s, err := exchange.Find(t.Context(), st, old)
		require.NoError(t, err)
		require.Equal(t, im.Session, s.Ref())
		_, err = exchange.Find(t.Context(), st, session.Ref{ID: "another chat"})
		require.ErrorIs(t, err, os.ErrNotExist)
		for _, program := range writable {
			back := importAll(t, st, sessionsIn(t, exportAll(t, program, dialect.Session{}, s)), nil)
			require.Len(t, back, 1)
			require.Equal(t, im.Session, back[0].Session, program)
			require.Zero(t, back[0].Appended, program)
		}
	}
}

// The programs of Find are the dialects that can be read, and the five forms of arrays.
func TestFindKnowsDialects(t *testing.T) {
	api, err := os.ReadFile("../../testdata/api.txt")
	require.NoError(t, err)
	all := regexp.MustCompile(`(?m)^transcript/dialect\.\w+ const$`).FindAll(api, -1)
	require.Len(t, exchange.Programs, len(all)-1+5, "%s, without ZyHiveLog", all)
}

// Owners come from the path of a source, or from the options.
func TestImportOwners(t *testing.T) {
	message := []byte(`{"id":"msg_1","role":"user","parts":[{"type":"text","text":"hi"}],"created_at":"2026-03-01T09:00:00Z"}` + "\n")
	files := fstest.MapFS{}
	for _, dir := range []string{"user/alice/sessions/s1", "data/user/bob/session/s2", "user/default/sessions/s3", "session/s4"} {
		files[dir+"/messages.jsonl"] = &fstest.MapFile{Data: message}
	}
	for given, want := range map[string]map[string]string{
		"":     {"s1": "alice", "s2": "bob", "s3": "", "s4": ""},
		"carl": {"s1": "carl", "s2": "carl", "s3": "carl", "s4": "carl"},
	} {
		st := inMemory()
		got := map[string]string{}
		for range 2 {
			for _, im := range importAll(t, st, sessionsIn(t, files), &exchange.ImportOptions{For: given}) {
				s, err := st.Get(t.Context(), im.Session)
				require.NoError(t, err)
				got[im.Session.ID] = storetest.Info(t, s).Owner
			}
		}
		require.Equal(t, want, got)
	}
	scope, err := inMemory().Scope("dora")
	require.NoError(t, err)
	for _, im := range importAll(t, scope, sessionsIn(t, files), nil) {
		s, err := scope.Get(t.Context(), im.Session)
		require.NoError(t, err)
		require.Equal(t, "dora", storetest.Info(t, s).Owner)
	}
	scope, err = inMemory().Scope("dora")
	require.NoError(t, err)
	_, err = exchange.Import(t.Context(), scope, sessionsIn(t, files), &exchange.ImportOptions{For: "carl"})
	require.Error(t, err, "the scope is dora's")
}
