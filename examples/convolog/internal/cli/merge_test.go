package cli

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Doctor recognises the conflict copies of sync programs by their headers, counts the
// entries that the session lacks, and names the command that brings them in.
func TestConflictCopies(t *testing.T) {
	for _, name := range []string{
		"alpha (conflicted copy 2026-01-02).jsonl", "alpha (Ada's conflicted copy 2026-01-02).jsonl", "alpha (Case Conflict).jsonl",
		"alpha.sync-conflict-20260102-123456-ABCDEF.jsonl", "alpha 2.jsonl", "alpha-DESKTOP-1.jsonl", "Copy of alpha.jsonl",
		"alpha-laptop.jsonl", "alpha it's $(touch pwned)`touch pwned`.jsonl",
	} {
		t.Run(name, func(t *testing.T) {
			sh := overFolder(t)
			sh.must(0, "session", "new", "--id", "alpha")
			sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "Which day?")
			folder := filepath.Join(sh.dir, "agents", "main", "sessions")
			file, other := filepath.Join(folder, "alpha.jsonl"), filepath.Join(folder, name)
			common, err := os.ReadFile(file)
			require.NoError(t, err)
			sh.must(0, "session", "add-message", "alpha", "--role", "assistant", "--content", "Monday.")
			sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "No.")
			conflict, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(file, common, 0o600))
			sh.must(0, "session", "add-message", "alpha", "--role", "assistant", "--content", "Friday.")
			require.NoError(t, os.WriteFile(other, conflict, 0o600))

			var d diagnosis
			require.NoError(t, json.Unmarshal([]byte(sh.must(exitFound, "doctor", "--json")), &d))
			var f finding
			for _, one := range d.Findings {
				if one.File == other {
					f = one
				}
			}
			require.Equal(t, "conflict-copy", f.Kind)
			require.Equal(t, "alpha", f.Session)
			require.Contains(t, f.Text, "2 entries that the session and its forks lack")
			require.NotContains(t, doctorText(sh), "unreadable")
			require.Contains(t, doctorText(sh), "\n\n"+f.Command+"\n\n", "on a line of its own")
			if bash, err := exec.LookPath("sh"); err == nil {
				said, err := exec.Command(bash, "-c", `convolog() { printf '%s\n' "$@"; }; `+f.Command).Output()
				require.NoError(t, err)
				require.Equal(t, "merge\n"+other+"\n"+sh.dir+"\n", string(said))
			}

			plan := sh.must(0, "merge", "-n", other, sh.dir)
			require.Contains(t, plan, "2 lines and 0 blobs would be merged")
			require.NotContains(t, sh.must(0, "session", "show", "alpha"), "Monday.")
			said := sh.must(0, "merge", other, file) // a transcript means its store
			require.Contains(t, said, "1 session, 0 new: 2 lines and 0 blobs merged.")
			require.Contains(t, sh.must(0, "session", "show", "alpha"), "No.")
			require.NotContains(t, sh.must(0, "session", "show", "alpha"), "Friday.")
			require.Contains(t, sh.must(0, "session", "search", "Friday"), "Friday.")
			require.Contains(t, sh.must(0, "merge", other, sh.dir), "0 lines and 0 blobs merged.")
			left, err := os.ReadFile(other)
			require.NoError(t, err)
			require.Equal(t, conflict, left)
			require.Contains(t, doctorText(sh), "contains 0 entries")
		})
	}
}

// A conflict copy of a session that the store lacks, of an archive and of the index.
func TestOtherConflictCopies(t *testing.T) {
	sh := overFolder(t)
	agent := filepath.Join(sh.dir, "agents", "main")
	for _, id := range []string{"alpha", "beta"} {
		sh.must(0, "session", "new", "--id", id)
		sh.must(0, "session", "add-message", id, "--role", "user", "--content", "of "+id)
	}
	move := func(from, to string) {
		require.NoError(t, os.Rename(filepath.Join(agent, from), filepath.Join(agent, to)))
	}
	copied, err := os.ReadFile(filepath.Join(agent, "sessions.jsonl"))
	require.NoError(t, err)
	sh.must(0, "session", "archive", "beta")
	packed, err := os.ReadFile(filepath.Join(agent, "archive", "beta.jsonl.gz"))
	require.NoError(t, err)
	sh.must(0, "session", "delete", "beta", "--yes")
	move("sessions/alpha.jsonl", "sessions/alpha 2.jsonl")
	require.NoError(t, os.Remove(filepath.Join(agent, "sessions.jsonl")))
	sh.must(exitFound, "doctor", "--repair")
	require.NoError(t, os.WriteFile(filepath.Join(agent, "archive", "beta (conflict).jsonl.gz"), packed, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(agent, "sessions (conflicted copy).jsonl"), copied, 0o600))
	found, _ := sh.diagnose()
	require.ElementsMatch(t, []string{"conflict-copy", "(conflict-copy)", "(stranger)"}, found)
	require.Contains(t, doctorText(sh), "entries that the store lacks")
	require.Contains(t, sh.must(0, "merge", filepath.Join(agent, "sessions", "alpha 2.jsonl"), sh.dir), "1 session, 1 new")
	require.Contains(t, sh.must(0, "session", "show", "alpha"), "of alpha")
	other := overFolder(t)
	require.Contains(t, sh.must(0, "merge", filepath.Join(agent, "archive", "beta (conflict).jsonl.gz"), other.dir), "1 session, 1 new")
	require.Contains(t, other.must(0, "session", "show", "beta"), "of beta")
}

// The stores of two machines, and a transcript without a store.
func TestMergeStores(t *testing.T) {
	a, b := overFolder(t), overFolder(t)
	a.must(0, "session", "new", "main:cli:ada", "--id", "alpha", "--for", "ada")
	a.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "one")
	a.must(0, "copy", a.dir, b.dir)
	a.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "of a")
	b.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "of b")
	b.must(0, "session", "new", "--id", "beta")
	var report struct {
		Sessions, Forks int
		Notable         []struct{ Fork struct{ ID string } }
	}
	require.NoError(t, json.Unmarshal([]byte(a.must(0, "merge", b.dir, a.dir, "--json")), &report))
	require.Equal(t, 2, report.Sessions)
	require.Equal(t, 1, report.Forks)
	require.Contains(t, a.must(0, "session", "list", "--owner", "ada"), short(report.Notable[0].Fork.ID))
	require.Contains(t, a.must(0, "import", a.dir, "--dir", b.dir), "it is in the store: convolog merge adds the entries that it lacks")
	a.must(0, "merge", a.dir, b.dir)
	require.Equal(t, a.must(0, "session", "list"), b.must(0, "session", "list"))

	file, dir := filepath.Join(t.TempDir(), "export.jsonl"), filepath.Join(t.TempDir(), "new")
	require.NoError(t, os.WriteFile(file, []byte(a.must(0, "session", "export", "alpha")), 0o600))
	for range 2 {
		a.must(0, "merge", file, dir)
	}
	require.Equal(t, a.must(0, "session", "export", "alpha"), a.must(0, "session", "export", "alpha", "--dir", dir))
	require.NoError(t, os.WriteFile(file, []byte("hello\n"), 0o600))
	_, errs, code := a.run("merge", file, dir)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "not a transcript of this program")
	a.must(exitUsage, "merge", a.dir, a.dir)
	a.must(exitUsage, "merge", a.dir, file)
	a.must(exitUsage, "merge", a.dir, b.dir, "--url")
}

// copyOf puts a conflict copy of the session alpha, with further entries, into a folder,
// and returns its name and the IDs of the entries of alpha.
func copyOf(t *testing.T, sh *shell, further ...string) (name string, ids []string) {
	t.Helper()
	sh.must(0, "session", "new", "--id", "alpha")
	sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "secret")
	folder := filepath.Join(sh.dir, "agents", "main", "sessions")
	file, name := filepath.Join(folder, "alpha.jsonl"), filepath.Join(folder, "alpha 2.jsonl")
	common, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, text := range further {
		sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", text)
	}
	conflict, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, common, 0o600))
	require.NoError(t, os.WriteFile(name, conflict, 0o600))
	for line := range strings.Lines(string(common)) {
		var e struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(line), &e))
		ids = append(ids, e.ID)
	}
	return name, ids[1:]
}

// The advice for copies of removed sessions leads to an end.
func TestConflictCopyOfRemoved(t *testing.T) {
	sh := overFolder(t)
	file, _ := copyOf(t, sh, "of the laptop")
	sh.must(0, "session", "delete", "alpha", "--yes")
	text := strings.Join(strings.Fields(doctorText(sh)), " ")
	require.Contains(t, text, "The session is in the trash. It contains 1 entry that the session and its forks lack")
	require.Contains(t, text, "restore the session first")
	require.Contains(t, sh.must(0, "merge", file, sh.dir), "alpha: left out, although it was continued; in "+sh.dir+" it is in the trash")
	sh.must(0, "session", "restore", "alpha")
	sh.must(0, "merge", file, sh.dir)
	require.Contains(t, doctorText(sh), "contains 0 entries")

	sh = overFolder(t)
	file, _ = copyOf(t, sh, "of the laptop")
	sh.must(0, "session", "delete", "alpha", "--now", "--yes")
	text = doctorText(sh)
	require.Contains(t, text, "The session was deleted.")
	require.Contains(t, text, "convolog import '"+file+"' --dir")
	sh.must(0, "import", file)
	require.Contains(t, sh.must(0, "session", "show", "alpha"), "of the laptop")
	require.Contains(t, doctorText(sh), "contains 0 entries")
}

// A copy from before an erase brings in its other entries. Doctor names the erased words
// in it.
func TestConflictCopyOfErased(t *testing.T) {
	sh := overFolder(t)
	file, ids := copyOf(t, sh, "of the laptop")
	sh.must(0, "erase", "alpha", ids[0], "--yes")
	text := strings.Join(strings.Fields(doctorText(sh)), " ")
	require.Contains(t, text, "It contains 1 entry that the session and its forks lack")
	require.Contains(t, text, "the words of 1 entry that the store has erased")
	for _, lines := range []string{"1 line", "0 lines"} {
		require.Contains(t, sh.must(0, "merge", file, sh.dir), lines+" and 0 blobs merged")
		shown := sh.must(0, "session", "show", "alpha")
		require.Contains(t, shown, "of the laptop")
		require.NotContains(t, shown, "secret")
	}
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(sh.must(exitFound, "doctor", "--json")), &d))
	found := slices.IndexFunc(d.Findings, func(f finding) bool { return f.File == file })
	require.Contains(t, d.Findings[found].Text, "contains 0 entries")
	require.Equal(t, "delete the file", d.Findings[found].Way)
	require.Empty(t, d.Findings[found].Command)
}

// Doctor recognises copies with a long header.
func TestConflictCopyLongHeader(t *testing.T) {
	sh := overFolder(t)
	file, _ := copyOf(t, sh, "of the laptop")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	head, rest, _ := strings.Cut(string(data), "\n")
	head, _, _ = strings.Cut(head, `,"crc"`)
	head = strings.TrimSuffix(head, "}") + `,"x_app":"` + strings.Repeat("y", 70000) + `"}`
	for _, name := range []string{"alpha.jsonl", "alpha 2.jsonl", "alpha-laptop.jsonl"} {
		require.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(head+"\n"+rest), 0o600))
	}
	text := doctorText(sh)
	require.Equal(t, 2, strings.Count(text, "conflict-copy"))
	require.NotContains(t, text, "unreadable")
}

// doctorText returns the output of doctor, whatever it finds.
func doctorText(sh *shell) string {
	out, _, _ := sh.run("doctor")
	return out
}
