package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// import and convert --to native are the same: in the store, in text and in JSON. A dry run
// of both lists the losses by kind and number, and writes nothing.
func TestImportIsConvert(t *testing.T) {
	from := filepath.Join("..", "..", "..", "..", "transcript", "dialect", "testdata", "claude-code")
	for _, flags := range [][]string{nil, {"--json"}} {
		for _, dry := range []string{"-n", "--for=ada"} {
			a, b := overFolder(t), overFolder(t)
			ofA := a.must(0, append([]string{"import", from, dry}, flags...)...)
			ofB := b.must(0, append([]string{"convert", from, b.dir, "--to", "native", dry}, flags...)...)
			require.Equal(t, strings.ReplaceAll(ofA, a.dir, b.dir), ofB)
			if dry == "-n" {
				require.NoDirExists(t, a.dir)
				require.NoDirExists(t, b.dir)
			}
			if dry == "-n" && flags == nil {
				require.Contains(t, ofA, "would be written to")
				require.Contains(t, ofA, "\nWould be lost: ")
				require.Contains(t, ofA, "\nWould be set aside for no model: 1 attachment, 2 branch")
			}
			if dry != "-n" {
				require.Equal(t, a.must(0, "session", "list"), b.must(0, "session", "list"))
				require.Contains(t, a.must(0, "import", from, "-n", "--for=ada"), " 0 of ")
			}
		}
	}
}

// A time without a zone is taken in the zone that the user names.
func TestImportZone(t *testing.T) {
	for zone, want := range map[string]string{"": "2026-01-02T10:00:00", "Asia/Tokyo": "2026-01-02T01:00:00"} {
		for _, command := range []string{"import", "convert"} {
			sh := overFolder(t)
			file := filepath.Join(t.TempDir(), "s1")
			require.NoError(t, os.Mkdir(file, 0o700))
			line := `{"id":"m1","role":"user","parts":[{"type":"text","text":"Good morning."}],"created_at":"2026-01-02T10:00:00"}`
			require.NoError(t, os.WriteFile(filepath.Join(file, "messages.jsonl"), []byte(line+"\n"), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(file, ".meta.json"), []byte(`{"session_id":"s1"}`), 0o600))
			args := []string{"import", file}
			if command == "convert" {
				args = []string{"convert", file, sh.dir, "--to", "native"}
			}
			if zone != "" {
				args = append(args, "--zone", zone)
			}
			require.Contains(t, sh.must(0, args...), "Lost: 1 zone.")
			require.Contains(t, sh.must(0, "session", "show", "s1", "--json"), want)
		}
	}
	sh := overURL(t)
	_, errs, code := sh.run("import", "x", "--zone", "Nowhere/Town")
	require.Equal(t, exitUsage, code)
	require.Contains(t, errs, "no time zone")
	sh.must(exitUsage, "import", "x", "--zone", "Asia/Tokyo")
	sh.must(exitUsage, "import", "x", "-n")
}

// A server gets single files. The title of an index arrives all the same; the agent and the
// parent, which are in other files, are losses.
func TestImportOverURL(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		file := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	const head = `"uuid":"u1","sessionId":"s-1","timestamp":"2026-01-02T03:04:05Z","message":{"role":"user","content":"Hello."}}` + "\n"
	write("projects/-w/s-1.jsonl", `{"type":"user",`+head)
	write("projects/-w/s-1/subagents/agent-7.jsonl", `{"type":"user","isSidechain":true,"agentId":"7",`+head)
	write("work/scout/sessions/sessions.json", `{"sessions":{"ses-1":{"id":"ses-1","agentId":"scout","filePath":"ses-1.jsonl","title":"The index knows","messageCount":1,"createdAt":1771927200000,"lastAt":1771927201000}}}`)
	write("work/scout/sessions/ses-1.jsonl", `{"type":"session","version":3,"agentId":"scout","createdAt":1772355600000}`+"\n"+
		`{"type":"message","message":{"role":"user","content":"Hello."},"timestamp":1772355600001}`+"\n")
	write("agents/scout/sessions.json", `{"aa00bb11cc22":{"label":"files","created_at":"2026-03-01T09:00:00+00:00","last_active":"2026-03-01T09:00:05+00:00"}}`)
	write("agents/scout/sessions/aa00bb11cc22.jsonl", foreign)
	write("open/agents/desk/sessions/sessions.json", `{"agent:desk:telegram:5":{"sessionId":"p-1","updatedAt":1772355600000}}`)
	write("open/agents/desk/sessions/p-1.jsonl", `{"type":"session","version":3,"id":"p-1","timestamp":"2026-03-01T09:00:00.000Z","cwd":"/w"}`+"\n"+
		`{"type":"message","id":"e1","parentId":null,"timestamp":"2026-03-01T09:00:01.000Z","message":{"role":"user","content":"Hello.","timestamp":1772355601000}}`+"\n")
	sh := overURL(t)
	out := sh.must(0, "import", dir)
	require.Contains(t, out, "Lost: 2 agent, 1 key, 1 parent.")
	require.Contains(t, sh.must(0, "session", "list"), "The index knows")
}

// An import of a session in the trash says so, and leaves it there.
func TestImportOfTrash(t *testing.T) {
	for name, sh := range map[string]*shell{"folder": overFolder(t), "url": overURL(t)} {
		file := filepath.Join(t.TempDir(), "elsewhere.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(foreign), 0o600))
		sh.must(0, "import", file)
		sh.must(0, "session", "delete", "elsewhere")
		require.Contains(t, sh.must(0, "import", file), "in the trash: convolog session restore elsewhere brings it back", name)
		require.NotContains(t, sh.must(0, "session", "list"), "elsewhere")
	}
}
