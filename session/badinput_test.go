package session_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// snapshotTree reads every file below dir.
func snapshotTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || strings.HasPrefix(filepath.Base(path), "sessions.") {
			return err
		}
		data, err := os.ReadFile(path)
		files[path] = string(data)
		return err
	})
	require.NoError(t, err)
	return files
}

// Whatever is in the place of a transcript, the error names the file and the
// remedy, and nothing is changed.
func TestBadTranscripts(t *testing.T) {
	header := `{"type":"session","id":"s1","ts":"2026-11-20T08:00:00Z","v":1,"key":"main:cli:user","gen":1}` + "\n"
	const text = `{"type":"user","id":"u","ts":"2026-11-20T08:00:00Z","content":"hi"}` + "\n"
	for _, tt := range []struct {
		name  string
		place func(t *testing.T, path string)
		read  bool  // it can still be read
		is    error // the error that an append matches, if special
	}{
		{name: "empty", place: content("")},
		{name: "garbage", place: content("\x00\x01 not a transcript\n")},
		{name: "JSON of something else", place: content("{\"a\":1}\n[1,2]\n")},
		{name: "newer version", place: content(strings.Replace(header, `"v":1`, `"v":2`, 1) + text), read: true, is: session.ErrNewerFormat},
		{name: "newer version, behind a compaction", place: content(strings.Replace(header, `"v":1`, `"v":2`, 1) + text + strings.Replace(text, `"u"`, `"kept"`, 1) +
			`{"type":"compaction","id":"c","ts":"2026-11-20T08:00:00Z","summary":"s","firstKeptEntryId":"kept","coversTo":"u","turnsBefore":1}` + "\n"), read: true, is: session.ErrNewerFormat},
		{name: "newer critical entry", place: content(header + text + `{"type":"fork","id":"x","critical":true}` + "\n"), is: session.ErrNewerFormat},
		{name: "the header of another session", place: content(strings.Replace(header, `"s1"`, `"s2"`, 1))},
		{name: "the header and a text of another session", place: content(strings.Replace(header, `"s1"`, `"s2"`, 1) + text)},
		{name: "a folder", place: func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }},
		{name: "a link out", place: func(t *testing.T, path string) {
			out := filepath.Join(t.TempDir(), "out")
			require.NoError(t, os.WriteFile(out, []byte(header), 0o600))
			require.NoError(t, os.Symlink(out, path))
		}},
		{name: "a link within", place: func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(path), "real"), []byte(header), 0o600))
			require.NoError(t, os.Symlink("real", path))
		}},
		{name: "a FIFO", place: fifo},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "a FIFO" && runtime.GOOS == "windows" {
				t.Skip("no FIFOs here")
			}
			dir := t.TempDir()
			path := filepath.Join(dir, "agents/main/sessions/s1.jsonl")
			require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
			tt.place(t, path)
			before := snapshotTree(t, dir)
			st := storetest.Open(t, dir, nil)
			s, err := st.Get(t.Context(), session.Ref{Agent: "main", ID: "s1"})
			switch {
			case tt.read:
				require.NoError(t, err)
				_, err = s.Append(t.Context(), transcript.UserText("x"))
			case err == nil: // the row is there
				_, err = s.History(t.Context())
			}
			require.Error(t, err)
			t.Log(err)
			require.Contains(t, err.Error(), "s1.jsonl")
			if se, ok := errors.AsType[*session.Error](err); !ok || se.Session.ID != "s1" {
				t.Errorf("the error does not name the session: %v", err)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("error %v does not match %v", err, tt.is)
			}
			infos := storetest.List(t, st, nil)
			for _, info := range infos {
				if tt.read != (info.Messages > 0) || tt.read != (info.Title != "") {
					t.Errorf("it can be read: %v, and the list says %+v", tt.read, info)
				}
			}
			// A Load by its key does not take it for missing.
			if s, err := st.Load(t.Context(), storetest.CLI); err == nil && (s.Ref().ID != "s1" || !tt.read) {
				t.Errorf("Load made session %s in its place", s.Ref().ID)
			}
			storetest.Close(t, st)
			for path, data := range snapshotTree(t, dir) {
				if was, ok := before[path]; !ok || was != data {
					t.Errorf("%s was changed", path)
				}
			}
		})
	}
}

func content(s string) func(*testing.T, string) {
	return func(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, []byte(s), 0o600)) }
}

// Names that try to leave the store make an error and nothing else.
func TestBadNames(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	before := listTree(t, dir)
	for _, id := range []string{"../../x", "..", ".", "a/b", `a\b`, "a\x00", "", "-x", strings.Repeat("a", 129), "x y", "é"} {
		if _, err := st.Get(t.Context(), session.Ref{Agent: "main", ID: id}); err == nil {
			t.Errorf("Get(%q) found something", id)
		}
		if err := st.Delete(t.Context(), session.Ref{Agent: "main", ID: id}); err == nil {
			t.Errorf("Delete(%q) succeeded", id)
		}
		if id == "" {
			continue
		}
		if _, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{ID: id}); err == nil || !strings.Contains(err.Error(), "session ID") {
			t.Errorf("Create(%q) = %v", id, err)
		}
	}
	for _, key := range []session.Key{{}, {Agent: "a"}, {Agent: "a\xff", Channel: "c", Peer: "p"}, {Agent: "a", Channel: "c", Peer: "p", Thread: "t"}} {
		if _, err := st.Load(t.Context(), key); err == nil {
			t.Errorf("Load(%+v) succeeded", key)
		}
	}
	require.Equal(t, before, listTree(t, dir))
	for _, agent := range []string{"..", "../..", "/", "A", "a", strings.Repeat("x", 300), "日本", "con", "a.b"} {
		storetest.Load(t, st, session.Key{Agent: agent, Channel: "c", Peer: "p"})
	}
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 9)
	if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
		t.Errorf("beside the store: %v, %v", entries, err)
	}
}

func listTree(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	return strings.Join(names, "\n")
}

// A store that is opened read-only writes nothing, and reads what a dead
// writer left.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	if _, err := session.Open(filepath.Join(dir, "none"), &session.Options{ReadOnly: true}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening nothing read-only = %v, want fs.ErrNotExist", err)
	}
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("two", "c"))
	storetest.Close(t, st)
	path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data[:len(data)-5], 0o600)) // torn
	before := listTree(t, dir)

	ro := storetest.Open(t, dir, &session.Options{ReadOnly: true})
	defer storetest.Close(t, ro)
	r, err := storetest.Current(t.Context(), ro, storetest.CLI)
	require.NoError(t, err)
	require.Equal(t, `{"messages":[{"role":"user","content":"one"},{"role":"assistant","content":[{"type":"text","text":"two"}]}]}`, storetest.History(t, r))
	h, err := r.Health(t.Context())
	require.NoError(t, err)
	require.Len(t, h.Damage, 1)
	require.Equal(t, transcript.DamageTorn, h.Damage[0].Kind)
	for name, err := range map[string]error{
		"append": storetest.ErrOf(r.Append(t.Context(), transcript.UserText("x"))),
		"create": storetest.ErrOf(ro.Create(t.Context(), storetest.CLI, nil)),
		"load":   storetest.ErrOf(ro.Load(t.Context(), session.Key{Agent: "new", Channel: "c", Peer: "p"})),
		"delete": ro.Delete(t.Context(), r.Ref()),
		"turn":   storetest.ErrOf(r.LockTurn(t.Context(), false)),
	} {
		if !errors.Is(err, session.ErrReadOnly) {
			t.Errorf("%s = %v, want ErrReadOnly", name, err)
		}
	}
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Len(t, now, len(data)-5)
	require.Equal(t, before, listTree(t, dir))
}
