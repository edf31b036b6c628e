package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The array of a provider is imported into a folder and over a server, with its name as
// the ID, and later only its new messages. The owner is the one whom the user names.
func TestImportArray(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) {
			sh := open(t)
			file := filepath.Join(t.TempDir(), "chat-17.json")
			for _, step := range []struct{ more, want string }{
				{"", "2 of 2"}, {"", "0 of 2"}, {`,{"role":"user","content":"and?"}`, "1 of 3"},
			} {
				data := `[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}` + step.more + "]"
				require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
				require.Contains(t, sh.must(0, "import", file), "session chat-17 of agent main, "+step.want+" records are new")
			}
			require.Contains(t, sh.must(0, "session", "show", "chat-17"), "and?")
			_, errs, code := sh.run("import", file, "--from", "claw0")
			require.Equal(t, exitFailed, code)
			require.Contains(t, errs, `"gemini"`)
			_, errs, code = sh.run("import", filepath.Join(filepath.Dir(file), "chat-17.json"), "--for", "ada")
			if name == "url" {
				require.Equal(t, exitUsage, code, errs)
				return
			}
			require.Zero(t, code, errs)
			require.NoError(t, os.Rename(file, filepath.Join(filepath.Dir(file), "chat-18.json")))
			sh.must(0, "import", filepath.Join(filepath.Dir(file), "chat-18.json"), "--for", "ada")
			require.Contains(t, sh.must(0, "session", "list", "--owner", "ada"), "chat-18")
		})
	}
}
