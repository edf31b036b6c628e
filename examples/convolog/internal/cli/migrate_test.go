package cli

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/convolog/internal/convert"
)

const (
	migrate  = "../../../../docs/migrate.md"
	programs = "../../../../transcript/dialect/testdata"
)

// fixtures are the files of each section of docs/migrate.md.
var fixtures = map[string]string{
	"mini-claw": "mini-claw", "claw0": "claw0", "ZyHive": "zyhive", "OpenViking": "openviking", "OpenClaw and pi": "pi",
	"Claude Code": "claude-code", "Codex": "codex", "opencode": "opencode", "Gemini CLI": "gemini-cli", "ChatGPT": "chatgpt",
	"claude.ai": "claude-ai",
}

// quoted are the texts in backquotes of Markdown.
var quoted = regexp.MustCompile("`([^`]+)`")

// Every command of docs/migrate.md works over the test files of its program, and loses
// exactly the kinds that its row names; -n lists the same before. A form without a command cannot be written. With
// -update the test fills in the losses.
func TestMigrate(t *testing.T) {
	page, err := os.ReadFile(migrate)
	require.NoError(t, err)
	array := filepath.Join(t.TempDir(), "chat-17.json")
	require.NoError(t, os.WriteFile(array, []byte(`[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]`), 0o600))
	all := overFolder(t)
	for _, section := range slices.Sorted(maps.Keys(fixtures)) {
		all.migrate("import", filepath.Join(programs, fixtures[section]))
	}
	var sections []string
	var filled strings.Builder
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "## "); ok {
			sections = append(sections, name)
		}
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 5 || len(sections) == 0 || !strings.Contains(cells[2], "`") {
			filled.WriteString(line)
			continue
		}
		section := sections[len(sections)-1]
		args := strings.Fields(quoted.FindStringSubmatch(cells[2])[1])
		from := array
		if fixtures[section] != "" {
			from = filepath.Join(programs, fixtures[section])
		}
		sh := overFolder(t)
		var sum convert.Summary
		switch {
		case args[0] == "--to":
			require.Contains(t, cells[2], "is not a form yet")
			_, errs, code := all.run("convert", from, t.TempDir(), args[0], args[1])
			require.Equal(t, exitUsage, code, "%s: fill in the row of docs/migrate.md: %s", section, errs)
			filled.WriteString(line)
			continue
		case args[1] == "import":
			args[2] = from
			plan := sh.migrate(append(args[1:], "-n")...)
			require.NoDirExists(t, sh.dir)
			sum = sh.migrate(args[1:]...)
			require.Equal(t, sum.Sessions, plan.Sessions, "-n lists something else")
		default:
			require.Equal(t, []string{"convolog", "convert", ".convolog"}, args[:3])
			args[2], args[3] = all.dir, filepath.Join(t.TempDir(), "out")
			sum = sh.migrate(args[1:]...)
		}
		kinds := " nothing "
		if names := slices.Sorted(maps.Keys(sum.Lost)); len(names) > 0 {
			kinds = " `" + strings.Join(names, "`, `") + "` "
		}
		if cells[3] = kinds; *update {
			line = strings.Join(cells, "|") + "\n"
		}
		require.Equal(t, strings.Join(cells, "|"), strings.TrimSpace(line), section)
		filled.WriteString(line)
	}
	require.Equal(t, slices.Sorted(maps.Keys(fixtures)), slices.Sorted(slices.Values(slices.DeleteFunc(sections, func(s string) bool { return s == "Plain arrays" || s == "A format of your own" }))))
	if *update {
		require.NoError(t, os.WriteFile(migrate, []byte(filled.String()), 0o644))
	}
	explained, _, _ := strings.Cut(filled.String(), "\n## ")
	for row := range strings.SplitSeq(filled.String(), "\n| ") {
		if cells := strings.Split(row, "|"); len(cells) > 2 && (strings.HasPrefix(row, "in ") || strings.HasPrefix(row, "out ")) {
			for _, kind := range quoted.FindAllString(cells[2], -1) {
				require.Contains(t, explained, kind, "the first table must explain it")
			}
		}
	}
}

// migrate runs a command over test files. Some of their indexes name missing files.
func (sh *shell) migrate(args ...string) (sum convert.Summary) {
	sh.Helper()
	out, errs, code := sh.run(append(args, "--json")...)
	require.NoError(sh, json.Unmarshal([]byte(out), &sum), errs)
	require.NotEmpty(sh, sum.Sessions)
	failed := 0
	for _, s := range sum.Sessions {
		if s.Failed == nil {
			continue
		}
		failed++
		if !strings.Contains(s.Failed.Title, "lists it") && !strings.Contains(s.Failed.Title, "which is not in its folder") {
			require.Fail(sh, s.Failed.Title)
		}
	}
	require.Equal(sh, failed > 0, code != 0, "%s%s", out, errs)
	require.Less(sh, failed, len(sum.Sessions))
	return sum
}
