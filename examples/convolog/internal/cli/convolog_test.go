package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/examples/convolog/internal/convert"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
)

var update = flag.Bool("update", false, "rewrite the expected output")

// A shell runs command lines over one store.
type shell struct {
	testing.TB
	dir    string
	store  []string // the flags that name it
	env    map[string]string
	in     string
	screen bool // whether the output is a terminal

	elsewhere string // a file of another program
}

// overFolder returns a shell over a new folder.
func overFolder(t testing.TB) *shell {
	dir := filepath.Join(t.TempDir(), "store")
	return &shell{TB: t, dir: dir, store: []string{"--dir", dir}}
}

// overURL returns a shell over a server of a new folder.
func overURL(t testing.TB) *shell {
	sh := overFolder(t)
	store, err := session.Open(sh.dir, nil)
	require.NoError(t, err)
	sv, err := serve.New(store, &serve.Options{Auth: serve.Keys(map[string]serve.Principal{"secret": {Admin: true}}), Renderers: convert.Requests})
	require.NoError(t, err)
	server := httptest.NewServer(sv)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		require.NoError(t, sv.Close(context.Background()))
		require.NoError(t, store.Close())
	})
	sh.store, sh.env = []string{"--url", server.URL}, map[string]string{"CONVOLOG_TOKEN": "secret"}
	return sh
}

// run runs a command and returns its output and exit code.
func (sh *shell) run(args ...string) (out, errs string, code int) {
	sh.Helper()
	var stdout, stderr bytes.Buffer
	code = run(sh.Context(), append(args, sh.store...), sh.console(&stdout, &stderr))
	return stdout.String(), stderr.String(), code
}

func (sh *shell) console(out, errs io.Writer) *console {
	return &console{
		in: strings.NewReader(sh.in), out: out, err: errs, terminal: sh.screen, watched: sh.screen, asked: sh.screen,
		getenv: func(name string) string { return sh.env[name] },
	}
}

// must is run for a command that must end with an exit code.
func (sh *shell) must(code int, args ...string) string {
	sh.Helper()
	out, errs, got := sh.run(args...)
	require.Equal(sh, code, got, "%q: %s%s", args, out, errs)
	return out
}

var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+Z`), "TIME"},
	{regexp.MustCompile(`"crc":"[0-9a-f]+"`), `"crc":"CRC"`},
	{regexp.MustCompile(`"(size|end|freed|ttl)":[1-9]\d*`), `"$1":"N"`},
	{regexp.MustCompile(`http://127\.0\.0\.1:\d+`), "URL"},
	{regexp.MustCompile(`"score":[0-9.]+`), `"score":"SCORE"`}, // which goes by the length of lines, and so by their times
	{regexp.MustCompile(`"idemHash":"[^"]*"`), `"idemHash":"HASH"`},
}

// steady returns a text with what differs from run to run replaced. Equal IDs have
// equal names.
func steady(text string) string {
	ids := map[string]string{}
	for i, v := range volatile {
		text = v.pattern.ReplaceAllStringFunc(text, func(match string) string {
			if i > 0 {
				return v.pattern.ReplaceAllString(match, v.with)
			}
			if ids[match] == "" {
				ids[match] = fmt.Sprintf("ID%d", len(ids)+1)
			}
			return ids[match]
		})
	}
	return text
}

// foreign is a transcript of claw0.
const foreign = `{"type": "user", "content": "hi from claw0", "ts": 1771927201.5}
{"type": "assistant", "content": [{"type": "text", "text": "hello"}], "ts": 1771927202.5}
`

// script holds every command that works over a store, by the names of its expected
// output.
func script(sh *shell) [][]string {
	file := filepath.Join(sh.TempDir(), "elsewhere.jsonl")
	sh.elsewhere = file
	require.NoError(sh, os.WriteFile(file, []byte(foreign), 0o600))
	return [][]string{
		{"new", "session", "new", "main:cli:user", "--id", "alpha", "--title", "Porto", "--for", "alice"},
		{"new-without", "session", "new", "--id", "beta"},
		{"add", "session", "add-message", "alpha", "--role", "user", "--content", "What does a week in Porto cost?"},
		{"list-waits", "session", "list", "--waits"},
		{"add-answer", "--json", "session", "add-message", "--content", "About 900 euros.", "alph", "--role=assistant"},
		{"add-stdin", "session", "add-message", "main:cli:user", "--role", "user", "--content", "-"},
		{"list", "session", "list"},
		{"list-one", "session", "list", "--limit", "1", "--owner", "alice"},
		{"get", "session", "get", "alpha"},
		{"show", "session", "show", "alpha"},
		{"show-last", "session", "show", "alpha", "--last", "1"},
		{"title", "session", "title", "alpha"},
		{"title-set", "session", "title", "beta", "Second <of> two"},
		{"search", "session", "search", "euro*", "--in", "alpha"},
		{"search-all", "session", "search", "(?i)PORTO", "--regexp", "--role", "user"},
		{"search-ranked", "session", "search", "porto", "weather", "--ranked"},
		{"fork", "session", "fork", "alpha", "--id", "gamma"},
		{"hide", "session", "hide", "gamma", "LAST"},
		{"unhide", "session", "unhide", "gamma", "LAST"},
		{"hold"}, // two calls, through the library
		{"pending", "pending"},
		{"approve", "approve", "gamma", "call_1"},
		{"reject", "reject", "gamma", "call_2", "--reason", "too expensive"},
		{"pending-after", "pending", "--agent", "main"},
		{"commit", "session", "commit", "alpha"},
		{"commit-again", "session", "commit", "alpha"},
		{"stats", "session", "stats", "alpha"},
		{"stats-all", "session", "stats"},
		{"usage", "session", "usage", "alpha"},
		{"usage-all", "session", "usage"},
		{"prune-n", "prune", "--max-sessions", "1", "-n"},
		{"prune", "prune", "--max-sessions", "1", "--force"},
		{"archive", "session", "archive", "gamma"},
		{"list-archived", "session", "list", "--state", "archived"},
		{"restore", "session", "restore", "gamma"},
		{"export", "session", "export", "gamma"},
		{"export-request", "session", "export", "gamma", "--format", "anthropic", "--model", "m"},
		{"import", "import", file},
		{"import-again", "import", file},
		{"doctor", "doctor"},
		{"trash", "session", "delete", "gamma"},
		{"list-trashed", "session", "list", "--state", "trashed"},
		{"restore-trashed", "session", "restore", "gamma"},
		{"delete", "session", "delete", "gamma", "--now", "--yes"},
		{"removed", "session", "removed"},
		{"usage-left", "session", "usage"},
		{"erase-plan", "erase", "--owner", "alice", "-n"},
		{"erase", "erase", "alpha", "--yes"},
		{"list-left", "session", "list", "--state", "any"},
	}
}

// Every command over a store prints the same JSON over a folder and over a URL.
func TestCommands(t *testing.T) {
	covered := map[string]bool{}
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) {
			sh := open(t)
			sh.in = "And in winter?"
			last := ""
			for _, step := range script(sh) {
				if step[0] == "hold" {
					sh.hold("gamma")
					continue
				}
				if i := slices.Index(step, "LAST"); i > 0 {
					if last == "" {
						var e struct{ ID string }
						require.NoError(t, json.Unmarshal([]byte(sh.must(0, "session", "show", "gamma", "--last", "1", "--json")), &e))
						last = e.ID
					}
					step[i] = last
				}
				out := steady(sh.must(0, append([]string{"--json"}, step[1:]...)...))
				for line := range strings.Lines(out) {
					require.True(t, json.Valid([]byte(strings.NewReplacer(`"N"`, "1").Replace(line))), "%s: %s", step[0], line)
				}
				golden(t, step[0]+".json", out)
				for _, c := range commands() {
					if strings.Contains(" "+strings.Join(step[1:], " ")+" ", " "+c.name+" ") {
						covered[c.name] = true
					}
				}
			}
		})
	}
	for _, c := range commands() {
		if c.access != files && c.name != "session follow" && c.name != "chat" { // which have tests of their own
			require.True(t, covered[c.name], "no test of convolog %s --json", c.name)
		}
	}
}

// Every command over a store prints the same text over a folder and over a URL.
func TestCommandsText(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) {
			sh := open(t)
			sh.in = "And in winter?"
			var all strings.Builder
			for _, step := range script(sh) {
				if step[0] == "hold" {
					sh.hold("gamma")
					continue
				}
				if i := slices.Index(step, "LAST"); i > 0 {
					continue // TestCommands hides an entry
				}
				step = slices.DeleteFunc(step[1:], func(arg string) bool { return arg == "--json" })
				fmt.Fprintf(&all, "$ convolog %s\n%s", strings.Join(step, " "), sh.must(0, step...))
			}
			text := strings.ReplaceAll(strings.NewReplacer(sh.store[1], "STORE", sh.dir, "STORE").Replace(all.String()), filepath.Dir(sh.elsewhere), "DIR")
			golden(t, "text.txt", steadyText(text))
		})
	}
}

var volatileText = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`\b[0-9a-f]{8}\b`), "SHORTID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d( \d\d:\d\d)?|just now|\d+ (min|h) ago`), "TIME"},
	{regexp.MustCompile(`\d{3,}( bytes?|\n)`), "N$1"},
	{regexp.MustCompile(` {2,}`), "  "}, // the width of a column goes by the times
}

// steadyText is steady for texts, which have short IDs, ages and sizes.
func steadyText(text string) string {
	text = steady(text)
	for _, v := range volatileText {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

// golden compares an output with a file of testdata.
func golden(t testing.TB, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(filepath.Clean(file))
	require.NoError(t, err)
	require.Equal(t, string(want), got, name)
}

// Follow yields present and later entries, over both.
func TestFollow(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) {
			sh := open(t)
			sh.must(0, "session", "new", "--id", "alpha")
			sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "one")
			ctx, cancel := context.WithCancel(t.Context())
			r, w := io.Pipe()
			code := make(chan int, 1)
			go func() {
				code <- run(ctx, append([]string{"session", "follow", "alpha", "--json"}, sh.store...), sh.console(w, io.Discard))
				_ = w.Close()
			}()
			lines, got := json.NewDecoder(r), ""
			for n := range 3 {
				if n == 2 {
					sh.must(0, "session", "add-message", "alpha", "--role", "assistant", "--content", "two")
				}
				var line json.RawMessage
				require.NoError(t, lines.Decode(&line))
				got += string(line) + "\n"
			}
			cancel()
			go func() { _, _ = io.Copy(io.Discard, r) }()
			require.Zero(t, <-code)
			golden(t, "follow.json", steady(got))
		})
	}
}

// The commands over files print JSON too, and refuse a URL.
func TestFiles(t *testing.T) {
	sh := overFolder(t)
	sh.store = nil
	dir := t.TempDir()
	file := filepath.Join(dir, "elsewhere.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(foreign), 0o600))
	plain := func(text string) string { return steady(strings.ReplaceAll(text, dir, "DIR")) }
	golden(t, "inspect.json", plain(sh.must(0, "inspect", "--json", file)))
	golden(t, "convert.json", plain(sh.must(0, "convert", file, filepath.Join(dir, "out"), "--to", "jsonl", "--json")))
	golden(t, "convert-n.json", plain(sh.must(0, "convert", "-n", file, filepath.Join(dir, "other"), "--to", "markdown", "--json")))
	require.NoDirExists(t, filepath.Join(dir, "other"))

	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	sh.must(0, "import", file, "--dir", from)
	golden(t, "copy-n.json", sh.must(0, "copy", from, to, "-n", "--json"))
	require.NoDirExists(t, to)
	golden(t, "copy.json", sh.must(0, "copy", from, to, "--json"))
	golden(t, "copy-again.json", sh.must(0, "copy", from, to, "--json"))
	require.Equal(t, sh.must(0, "session", "list", "--dir", from), sh.must(0, "session", "list", "--dir", to))
	require.Equal(t, "1 session, 0 new: 0 lines and 0 blobs would be copied.\n", sh.must(0, "copy", "-n", from, to))
	sh.must(0, "session", "add-message", "main:claw0:elsewhere", "--role", "user", "--content", "more", "--dir", to)
	_, errs, code := sh.run("copy", from, to)
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "nothing was appended")
	for want, args := range map[string][]string{
		"same folder": {from, from}, "not over a server": {from, "http://localhost"}, "postgres://": {"mysql://localhost", to}, "missing": {from}, "--url": {from, to, "--url"},
	} {
		_, errs, code := sh.run(append([]string{"copy"}, args...)...)
		require.Equal(t, exitUsage, code, errs)
		require.Contains(t, errs, want)
	}
	sh.must(exitAbsent, "copy", filepath.Join(dir, "nowhere"), to)
	require.NoDirExists(t, filepath.Join(dir, "nowhere"))

	for _, args := range [][]string{{"inspect", file, "--url"}, {"serve", "--url"}, {"convert", file, dir, "--url"}, {"doctor", file, "--url"}} {
		sh.must(exitUsage, args...)
	}
}
