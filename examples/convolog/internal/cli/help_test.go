package cli

import (
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/require"
)

// Help has every command, its flags and its JSON, and is at most 80 columns wide.
func TestHelp(t *testing.T) {
	sh := overFolder(t)
	sh.store = nil
	overview, sessions := sh.must(0), sh.must(0, "session")
	require.Contains(t, overview, about)
	for _, args := range [][]string{{"help"}, {"-h"}, {"--json", "--help"}} {
		require.Equal(t, overview, sh.must(0, args...), "%q", args)
	}
	require.Equal(t, sessions, sh.must(0, "help", "session"))
	texts := []string{overview, sessions}
	for _, c := range commands() {
		name, ofSession := strings.CutPrefix(c.name, "session ")
		require.Contains(t, map[bool]string{false: overview, true: sessions}[ofSession], "\n  "+name+" ")
		help := sh.must(0, append([]string{"help"}, strings.Fields(c.name)...)...)
		require.Equal(t, help, sh.must(0, append(strings.Fields(c.name), "-h")...))
		for f := range strings.FieldsSeq(c.flags) {
			require.Contains(t, help, "--"+f)
		}
		require.Contains(t, strings.Join(strings.Fields(help), " "), "With --json it prints "+c.json+".")
		require.Equal(t, c.access != files, strings.Contains(help, "--url"), c.name)
		texts = append(texts, help)
	}
	for _, text := range texts {
		require.Less(t, strings.Count(text, "\n"), 40, text)
		for line := range strings.Lines(text) {
			require.LessOrEqual(t, uniseg.StringWidth(strings.TrimSuffix(line, "\n")), columns, line)
		}
	}
	for _, d := range flagDefs { // each is of some command
		require.Contains(t, strings.Join(texts, "\n"), "--"+d.name)
	}
}

// A name that is almost right is answered with the right one.
func TestDidYouMean(t *testing.T) {
	sh := overFolder(t)
	for line, want := range map[string]string{
		"sesion list":               "convolog session or",
		"sesion list --limit 3":     "convolog session or",
		"session lst":               "convolog session list",
		"show alpha --last 3":       "convolog session show?",
		"help session lst":          "convolog session list",
		"apprve alpha call_1":       "convolog approve?",
		"session nonsense --limit=": `no command "session nonsense"`,
	} {
		_, errs, code := sh.run(strings.Fields(line)...)
		require.Equal(t, exitUsage, code, line)
		require.Contains(t, errs, want, line)
	}
}

// A shell completes commands, and the IDs of sessions over a folder and over a URL.
func TestCompletion(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) {
			sh := open(t)
			sh.must(0, "session", "new", "--id", "alpha", "--title", "Porto \x1b[2J")
			flags := sh.store
			sh.store = nil
			complete := func(words ...string) string {
				return sh.must(0, append(append([]string{"__complete"}, flags...), words...)...)
			}
			require.Contains(t, complete("session", "sh"), "show\t")
			require.Contains(t, complete("session", "show", ""), "alpha\tPorto [2J\n")
			require.NotContains(t, complete("session", "show", "alpha", ""), "alpha\t")
			require.NotContains(t, complete("session", "new", ""), "alpha\t")
			sh.store = flags
			sh.hold("alpha")
			var all []waiting
			require.NoError(t, json.Unmarshal([]byte(sh.must(0, "pending", "--json")), &all))
			sh.store = nil
			require.Contains(t, complete("approve", "alpha", ""), short(all[0].Call.Entry)+"\tpay {\"euros\":5}\n")
			require.NotContains(t, complete("session", "hide", "alpha", ""), "pay")
		})
	}
	sh := overFolder(t)
	sh.store = nil
	for _, name := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, sh.must(0, "completion", name), "__complete")
	}
}

// The program names its version.
func TestVersion(t *testing.T) {
	sh := overFolder(t)
	sh.store = nil
	require.Contains(t, sh.must(0, "version"), "convolog "+buildVersion().Version+", go")
	require.Contains(t, sh.must(0, "--version"), buildVersion().Version)
	var b build
	require.NoError(t, json.Unmarshal([]byte(sh.must(0, "version", "--json")), &b))
	require.Equal(t, buildVersion(), b)
}

// Nonsense is refused with a way out and changes nothing.
func TestNonsense(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) { nonsense(t, open(t), name == "folder") })
	}
	sh := overFolder(t)
	sh.store = nil
	for url, want := range map[string]string{"--url=http://127.0.0.1:1": "no server answers", "--url=127.0.0.1:1": "no server answers"} {
		_, errs, code := sh.run("session", "list", url)
		require.Equal(t, exitAbsent, code)
		require.Contains(t, errs, want)
	}
	sh.must(exitUsage, "session", "list", "--url", "ftp://x")

	// A command that Ctrl-C has cut short has not succeeded.
	sh = overFolder(t)
	sh.must(0, "session", "new")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.Equal(t, exitFailed, run(ctx, append([]string{"session", "list"}, sh.store...), sh.console(io.Discard, io.Discard)))
}

func nonsense(t *testing.T, sh *shell, worded bool) {
	sh.must(0, "session", "new", "--id", "alpha")
	sh.must(0, "session", "new", "--id", "alphabet")
	before := snapshot(t, filepath.Join(sh.dir, "agents", "main", "sessions"))
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, `no command "nonsense"`, []string{"nonsense"}},
		{exitUsage, `no command "session nonsense"`, []string{"session", "nonsense"}},
		{exitUsage, "unknown flag: --bogus", []string{"session", "show", "alpha", "--bogus"}},
		{exitUsage, "an argument is missing", []string{"session", "show"}},
		{exitUsage, "unexpected argument", []string{"session", "show", "alpha", "beta"}},
		{exitUsage, "is empty", []string{"session", "show", ""}},
		{exitUsage, "--role is", []string{"session", "add-message", "alpha", "--role", "system", "--content", "x"}},
		{exitUsage, "--content is missing", []string{"session", "add-message", "alpha", "--role", "user"}},
		{exitUsage, "input is empty", []string{"session", "add-message", "alpha", "--role", "user", "--content", "-"}},
		{exitUsage, "not UTF-8", []string{"session", "add-message", "alpha", "--role", "user", "--content", "\xff"}},
		{exitAbsent, "none of these", []string{"erase", "alpha", "nowhere", "--yes"}},
		{exitUsage, "invalid argument", []string{"session", "list", "--limit", "x"}},
		{exitUsage, "less than 0", []string{"session", "list", "--limit", "-1"}},
		{exitUsage, "no state", []string{"session", "list", "--state", "dead"}},
		{exitUsage, "choose what to put away", []string{"prune"}},
		{exitUsage, "30d", []string{"prune", "--older-than", "yesterday"}},
		{exitUsage, "name a session, or an owner", []string{"erase"}},
		{exitUsage, "no format", []string{"session", "export", "alpha", "--format", "pdf"}},
		{exitUsage, "parsing regexp", []string{"session", "search", "(", "--regexp"}},
		{exitUsage, "key", []string{"session", "new", "no key"}},
		{exitUsage, "no --to", []string{"convert", "a", "b"}},
		{exitAbsent, "no session has", []string{"session", "show", "beta"}},
		{exitAbsent, "alphabet", []string{"session", "show", "alph"}},
		{exitAbsent, "4 letters", []string{"session", "show", "alp"}},
		{exitAbsent, "no such file", []string{"import", filepath.Join(sh.dir, "nowhere")}},
		{exitAbsent, "no session has", []string{"session", "show", "../alpha"}},
		{exitAbsent, "", []string{"session", "fork", "alpha", "nowhere"}},
		{exitFailed, "exist", []string{"session", "new", "--id", "alpha"}},
		{exitUsage, "letters", []string{"session", "new", "--id", "../alpha"}},
	} {
		out, errs, code := sh.run(c.args...)
		require.Equal(t, c.code, code, "%q: %s%s", c.args, out, errs)
		require.True(t, !worded || strings.Contains(errs, c.want), "%q: %s", c.args, errs)
		require.Empty(t, out, "%q", c.args)
		require.NotEmpty(t, errs)
		_, errs, _ = sh.run(append(c.args, "--json")...)
		var said struct {
			Error string
			Exit  int
		}
		require.NoError(t, json.Unmarshal([]byte(errs), &said), "%q: %s", c.args, errs)
		require.Equal(t, c.code, said.Exit)
		require.NotEmpty(t, said.Error)
	}
	require.Equal(t, before, snapshot(t, filepath.Join(sh.dir, "agents", "main", "sessions")))
}
