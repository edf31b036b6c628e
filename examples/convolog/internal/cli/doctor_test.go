package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// snapshot returns all files below a folder, with their modes.
func snapshot(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil || d.IsDir() {
			all[name] = info.Mode().String()
			return err
		}
		data, err := os.ReadFile(name)
		all[name] = info.Mode().String() + " " + string(data)
		return err
	}))
	return all
}

// diagnose runs doctor, and returns its findings in short: the kinds, notes in
// brackets.
func (sh *shell) diagnose(args ...string) (found, repaired []string) {
	sh.Helper()
	out, errs, code := sh.run(append([]string{"doctor", "--json"}, args...)...)
	require.Empty(sh, errs)
	var d diagnosis
	require.NoError(sh, json.Unmarshal([]byte(out), &d))
	bad := false
	for _, f := range d.Findings {
		require.NotEmpty(sh, f.Text+f.Way, "%+v", f)
		if f.File != "" && f.Agent != "" {
			_, err := os.Stat(f.File)
			require.NoError(sh, err)
		}
		if f.Note {
			f.Kind = "(" + f.Kind + ")"
		}
		bad = bad || !f.Note
		found = append(found, f.Kind)
	}
	require.Equal(sh, map[bool]int{true: exitFound}[bad], code, "%+v", d)
	for _, f := range d.Repaired {
		repaired = append(repaired, f.Kind)
	}
	return found, repaired
}

// said returns the conversation of each session, the index aside.
func (sh *shell) said(id string) string {
	sh.Helper()
	return sh.must(0, "session", "show", id, "--json")
}

// Doctor explains stores as crashes leave them and changes nothing. A repair loses
// nothing that was acknowledged, and the next look lists the rest.
func TestDoctorOnCrashes(t *testing.T) {
	const half = `{"type":"user","id":"01900000-0000-7000-8000-000000000001","ts":"2026-11-`
	appended := func(text string) func(t testing.TB, agent, file string) {
		return func(t testing.TB, _, file string) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, append(data, text...), 0o600))
		}
	}
	changed := func(old, with string) func(t testing.TB, agent, file string) {
		return func(t testing.TB, _, file string) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Contains(t, string(data), old)
			require.NoError(t, os.WriteFile(file, []byte(strings.Replace(string(data), old, with, 1)), 0o600))
		}
	}
	beside := func(name string) func(t testing.TB, agent, file string) {
		return func(t testing.TB, agent, file string) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(agent, name)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(agent, name), data, 0o600))
		}
	}
	whole := overFolder(t)
	for _, id := range []string{"alpha", "other"} {
		whole.must(0, "session", "new", "--id", id)
		whole.must(0, "session", "add-message", id, "--role", "user", "--content", "one")
		whole.must(0, "session", "add-message", id, "--role", "assistant", "--content", "two")
	}
	whole.must(0, "session", "fork", "other", "--id", "old")
	whole.must(0, "session", "archive", "old")
	said := whole.said("other") + whole.said("alpha")
	for _, c := range []struct {
		name         string
		damage       func(t testing.TB, agent, file string)
		found, after []string
		repaired     []string
	}{
		{"nothing", func(testing.TB, string, string) {}, nil, nil, nil},
		{"torn line", appended(half), []string{"(torn)", "unfinished"}, []string{"(torn)"}, []string{"unfinished"}},
		{"torn line in front of others", appended(half + "\n"), []string{"(torn)"}, []string{"(torn)"}, nil},
		{"a record without its end", appended(`{"type":"user","id":"01900000-0000-7000-8000-000000000001","ts":"2026-11-20T08:00:00Z","content":"x"}`), []string{"unfinished"}, nil, []string{"unfinished"}},
		{"NULs at the end", appended(strings.Repeat("\x00", 100)), []string{"nul", "unfinished"}, []string{"nul"}, []string{"unfinished"}},
		{"NULs between lines", changed("\n", "\n\x00\x00\n"), []string{"nul"}, []string{"nul"}, nil},
		{"glued lines", changed("}\n{\"type\":\"assistant\"", "}{\"type\":\"assistant\""), nil, nil, nil},
		{"a line glued to a torn one", appended(half + `{"type":"title","id":"01900000-0000-7000-8000-000000000002","ts":"2026-11-20T08:00:00Z"}` + "\n"), []string{"not-json"}, []string{"not-json"}, nil},
		{"a letter that has changed", changed("one", "ons"), []string{"crc"}, []string{"crc"}, nil},
		{"a quote that has changed", changed(`"two"`, `"two`), []string{"not-json"}, []string{"not-json"}, nil},
		{"text of somebody", appended("hello\n"), []string{"not-json"}, []string{"not-json"}, nil},
		{"lost header", changed(`{"type":"session"`, `{"type":"sess`), []string{"not-json"}, []string{"not-json"}, nil},
		{"another file in its place", func(t testing.TB, _, file string) { require.NoError(t, os.WriteFile(file, []byte("a,b\n"), 0o600)) }, []string{"unreadable"}, []string{"unreadable"}, nil},
		{"another file in its place, and a lost index", func(t testing.TB, agent, file string) {
			require.NoError(t, os.WriteFile(file, []byte("a,b\n"), 0o600))
			require.NoError(t, os.Remove(filepath.Join(agent, "sessions.jsonl")))
		}, []string{"index-lost", "not-listed"}, []string{"not-listed"}, []string{"index-lost"}},
		{"damaged archive, and a lost index", func(t testing.TB, agent, _ string) {
			require.NoError(t, os.WriteFile(filepath.Join(agent, "archive", "old.jsonl.gz"), []byte("a,b\n"), 0o600))
			require.NoError(t, os.Remove(filepath.Join(agent, "sessions.jsonl")))
		}, []string{"index-lost", "not-listed"}, []string{"not-listed"}, []string{"index-lost"}},
		{"copy under another name", beside("sessions/copy.jsonl"), []string{"conflict-copy"}, []string{"conflict-copy"}, nil},
		{"lost index", func(t testing.TB, agent, _ string) {
			require.NoError(t, os.Remove(filepath.Join(agent, "sessions.jsonl")))
		}, []string{"index-lost"}, nil, []string{"index-lost"}},
		{"index of NULs", func(t testing.TB, agent, _ string) {
			require.NoError(t, os.WriteFile(filepath.Join(agent, "sessions.jsonl"), make([]byte, 500), 0o600))
		}, []string{"index-damaged"}, nil, []string{"index-damaged"}},
		{"index that is cut", func(t testing.TB, agent, _ string) {
			require.NoError(t, os.Truncate(filepath.Join(agent, "sessions.jsonl"), 150))
		}, []string{"index-damaged"}, nil, []string{"index-damaged"}},
		{"older index", func(t testing.TB, agent, _ string) {
			name := filepath.Join(agent, "sessions.jsonl")
			data, err := os.ReadFile(name)
			require.NoError(t, err)
			first, _, _ := bytes.Cut(data, []byte("\n"))
			require.NoError(t, os.WriteFile(name, append(first, '\n'), 0o600))
			ahead := time.Now().Add(1000 * time.Hour)
			require.NoError(t, os.Chtimes(name, ahead, ahead))
		}, nil, nil, nil},
		{"damaged index of an agent without sessions", func(t testing.TB, agent, _ string) {
			nobody := filepath.Join(filepath.Dir(agent), "nobody")
			require.NoError(t, os.MkdirAll(filepath.Join(nobody, "sessions"), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(nobody, "sessions.jsonl"), []byte("hello\n"), 0o600))
		}, []string{"index-damaged"}, nil, []string{"index-damaged"}},
		{"copy in the making", beside("sessions/alpha.jsonl.tmp-0123456789abcdef"), []string{"leftover"}, nil, []string{"leftover"}},
		{"index in the making", beside("sessions.jsonl.tmp-0123456789abcdef"), []string{"leftover"}, nil, []string{"leftover"}},
		{"copy by hand", beside("sessions/alpha.jsonl.bak"), []string{"(conflict-copy)"}, []string{"(conflict-copy)"}, nil},
		{"archive beside the transcript", func(t testing.TB, agent, file string) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			var packed bytes.Buffer
			zip := gzip.NewWriter(&packed)
			_, err = zip.Write(data)
			require.NoError(t, errors.Join(err, zip.Close()))
			require.NoError(t, os.WriteFile(filepath.Join(agent, "archive", "alpha.jsonl.gz"), packed.Bytes(), 0o600))
		}, []string{"(archived-twice)"}, []string{"(archived-twice)"}, nil},
		{"media of nobody", beside("blobs/nobody/0000"), []string{"(blobs-without-session)"}, []string{"(blobs-without-session)"}, nil},
		{"failed sync", func(t testing.TB, _, file string) { require.NoError(t, os.Chmod(file, 0o600|os.ModeSticky)) }, []string{"not-durable"}, nil, []string{"not-durable"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			sh := overFolder(t)
			require.NoError(t, os.CopyFS(sh.dir, os.DirFS(whole.dir)))
			agent := filepath.Join(sh.dir, "agents", "main")
			c.damage(t, agent, filepath.Join(agent, "sessions", "alpha.jsonl"))
			before := snapshot(t, sh.dir)
			found, _ := sh.diagnose()
			require.Equal(t, c.found, found)
			require.Equal(t, before, snapshot(t, sh.dir), "doctor has changed something")

			found, repaired := sh.diagnose("--repair")
			require.Equal(t, [][]string{c.after, c.repaired}, [][]string{found, repaired})
			found, _ = sh.diagnose()
			require.Equal(t, c.after, found)
			listed := 0
			for _, id := range []string{"alpha", "other", "old"} {
				listed += strings.Count(sh.must(0, "session", "list", "--json", "--state", "any"), fmt.Sprintf(`"id":%q,"key"`, id))
			}
			notListed := strings.Count(strings.Join(c.after, " "), "not-listed")
			require.Equal(t, 3, listed+notListed, "%v", found)
			if !slices.Contains(c.found, "crc") && c.name != "a quote that has changed" && !strings.HasPrefix(c.name, "another file in its place") {
				require.True(t, strings.HasPrefix(sh.said("other")+sh.said("alpha"), said), "something is lost:\n%s", sh.said("alpha"))
			}
			after, err := os.ReadFile(filepath.Join(agent, "sessions", "alpha.jsonl"))
			require.NoError(t, err)
			_, was, _ := strings.Cut(before[filepath.Join(agent, "sessions", "alpha.jsonl")], " ")
			require.True(t, bytes.HasPrefix(after, []byte(was)), "a line has changed")
		})
	}
}

// A repair mends what keeps doctor from looking: archives without the folder of
// transcripts.
func TestDoctorWithoutAFolderOfTranscripts(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	sh.must(0, "session", "archive", "alpha")
	sessions := filepath.Join(sh.dir, "agents", "main", "sessions")
	require.NoError(t, os.Remove(sessions))
	_, errs, code := sh.run("doctor")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, sessions)
	found, _ := sh.diagnose("--repair")
	require.Empty(t, found)
	require.Contains(t, sh.must(0, "session", "list", "--json", "--state", "any"), `"id":"alpha"`)
}

// The index must not be moved away before a deletion in it is finished: deleted
// sessions would be listed again.
func TestDoctorCannotFinishADeletion(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	agent := filepath.Join(sh.dir, "agents", "main")
	file := filepath.Join(agent, "sessions", "alpha.jsonl")
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.MkdirAll(filepath.Join(file, "inside"), 0o700)) // it cannot be removed
	index, err := os.OpenFile(filepath.Join(agent, "sessions.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = index.WriteString(`{"delete":"alpha"}` + "\n")
	require.NoError(t, errors.Join(err, index.Close()))
	out, _, code := sh.run("doctor", "--repair")
	require.Equal(t, exitFound, code)
	require.Contains(t, out, "half-erased")
	require.Contains(t, strings.Join(strings.Fields(out), " "), "delete or erase it again, which reports the reason")
	require.NotContains(t, out, "move it away")
}

// An erase that a kill has cut short is found, and finished.
func TestDoctorHalfErased(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	index := filepath.Join(sh.dir, "agents", "main", "sessions.jsonl")
	data, err := os.ReadFile(index)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(index, append(data, `{"delete":"alpha"}`+"\n"...), 0o600))
	before := snapshot(t, sh.dir)
	found, _ := sh.diagnose()
	require.Equal(t, []string{"half-erased"}, found)
	require.Equal(t, before, snapshot(t, sh.dir))
	found, repaired := sh.diagnose("--repair")
	require.Empty(t, found)
	require.Equal(t, []string{"half-erased"}, repaired)
	require.Equal(t, "[]\n", sh.must(0, "session", "list", "--json"))
}

// corpora holds more sample files, which are of others and are not in this module.
var corpora = flag.String("corpora", "", "a folder with more sample files")

// Doctor has an explanation for every file of the sample files, and changes none.
func TestDoctorOnCorpora(t *testing.T) {
	sh := overFolder(t)
	sh.store = nil
	kinds := map[string]int{}
	roots := []string{"../../../../transcript/dialect/testdata"}
	if *corpora != "" {
		roots = append(roots, *corpora)
	}
	for _, root := range roots {
		var files []string
		before := map[string]fs.FileInfo{}
		require.NoError(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && filepath.Ext(name) == ".jsonl" {
				files = append(files, name)
				before[name], err = d.Info()
			}
			return err
		}))
		require.NotEmpty(t, files)
		found, _ := sh.diagnose(files...)
		for _, kind := range found {
			kinds[kind]++
		}
		for name, info := range before {
			now, err := os.Stat(name)
			require.NoError(t, err)
			require.Equal(t, []any{info.Size(), info.ModTime()}, []any{now.Size(), now.ModTime()}, name)
		}
		sh.diagnose(root) // as folders
	}
	require.Positive(t, kinds["(torn)"], "%v", kinds)
	for kind := range explanations {
		require.NotEmpty(t, damaged(transcript.Damage{Kind: kind}).Text)
	}
	require.NotEmpty(t, damaged(transcript.Damage{Kind: "new"}).Way)
}

// Doctor refuses to repair a server or single files, with an error.
func TestDoctorRefuses(t *testing.T) {
	sh := overURL(t)
	_, errs, code := sh.run("doctor", "--repair")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "needs the files")
	local := overFolder(t)
	local.must(exitUsage, "doctor", "--repair", "x.jsonl")
	local.must(exitAbsent, "doctor")
	require.NoDirExists(t, local.dir)
	foreign := &shell{TB: t, store: []string{"--dir", "../../../../transcript/dialect/testdata/claw0"}}
	out, errs, code := foreign.run("doctor")
	require.Equal(t, exitFailed, code, "%s%s", out, errs)
	require.Contains(t, errs, "convolog convert")
}

// A store with a session of each dialect of damage over HTTP has the same findings as
// over its folder, the files aside.
func TestDoctorOverURL(t *testing.T) {
	sh := overURL(t)
	sh.must(0, "session", "new", "--id", "alpha")
	file := filepath.Join(sh.dir, "agents", "main", "sessions", "alpha.jsonl")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(data, "hello\n"...), 0o600))
	found, _ := sh.diagnose()
	require.Equal(t, []string{"not-json"}, found)
}

// One of anything is singular.
func TestDoctorCounts(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	require.Equal(t, "1 session: 0 findings, 0 notes, 0 repaired.\n", sh.must(0, "doctor"))
	file := filepath.Join(sh.dir, "agents", "main", "sessions", "alpha.jsonl")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(data, "?\n"...), 0o600))
	require.NoError(t, os.WriteFile(file+".bak", nil, 0o600))
	out, errs, code := sh.run("doctor")
	require.Equal(t, exitFound, code, errs)
	require.Contains(t, out, fmt.Sprintf(", 1 byte at %d\n", len(data)))
	require.Contains(t, out, "\n1 session: 1 finding, 1 note, 0 repaired.\n")
	sh.must(0, "session", "new", "--id", "beta")
	require.NoError(t, os.WriteFile(file, append(data, "??\n?\n"...), 0o600))
	require.NoError(t, os.Remove(file+".bak"))
	out, errs, code = sh.run("doctor")
	require.Equal(t, exitFound, code, errs)
	require.Contains(t, out, fmt.Sprintf(", 2 bytes at %d\n", len(data)))
	require.Contains(t, out, "\n2 sessions: 2 findings, 0 notes, 0 repaired.\n")

	one := &shell{TB: t}
	one.screen = true
	_, errs, _ = one.run("doctor", file)
	require.Contains(t, errs, "1 file\r")
}

// Doctor names a session whose transcript is missing, and the file in its place; the key
// gets no new session until the old one is deleted or back.
func TestDoctorMissing(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "main:cli:user", "--id", "alpha", "--title", "Porto")
	folder := filepath.Join(sh.dir, "agents", "main", "sessions")
	placeholder := filepath.Join(folder, ".alpha.jsonl.icloud")
	require.NoError(t, os.Rename(filepath.Join(folder, "alpha.jsonl"), placeholder))
	for range 2 { // the second one after a repair, which opens the store for writing
		out := sh.must(exitFound, "doctor")
		for _, want := range []string{"missing", "alpha", "Porto", "main:cli:user", ".alpha.jsonl.icloud"} {
			require.Contains(t, out, want)
		}
		_, _, code := sh.run("doctor", "--repair")
		require.Equal(t, exitFound, code)
	}
	st, err := session.Open(sh.dir, nil)
	require.NoError(t, err)
	_, err = st.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, st.Close())
	require.NoError(t, os.Rename(placeholder, filepath.Join(folder, "alpha.jsonl")))
	sh.must(0, "doctor")
	require.NoError(t, os.Remove(filepath.Join(folder, "alpha.jsonl")))
	sh.must(0, "session", "delete", "alpha", "--now", "--yes")
	sh.must(0, "doctor")
	sh.must(exitAbsent, "session", "delete", "alpha", "--now", "--yes")
}

// Lists and doctor mark a session whose time is ahead.
func TestDatedAhead(t *testing.T) {
	sh := overFolder(t)
	st, err := session.Open(sh.dir, &session.Options{Now: func() time.Time { return time.Now().AddDate(5, 0, 0) }})
	require.NoError(t, err)
	s, err := st.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	require.NoError(t, err)
	_, err = s.Append(t.Context(), transcript.UserText("hello"))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	require.Contains(t, sh.must(0, "session", "list"), "(dated ahead)")
	found, _ := sh.diagnose()
	require.Equal(t, []string{"(dated-ahead)"}, found)
}
