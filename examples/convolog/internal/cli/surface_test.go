package cli

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/rivo/uniseg"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/transcript"
)

// The same steps through Go, HTTP and the command line, over a folder and a URL, give
// the same lines but for IDs and times.
func TestSameTranscript(t *testing.T) {
	lines := map[string]string{}

	// Go
	dir := t.TempDir()
	store, err := session.Open(dir, nil)
	require.NoError(t, err)
	s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"}, &session.CreateOptions{ID: "alpha", Title: "Porto"})
	require.NoError(t, err)
	for _, m := range []transcript.Message{transcript.UserText("What does it cost?"), transcript.AssistantText("900 euros."), transcript.UserText("And now?")} {
		_, err := s.Append(t.Context(), m)
		require.NoError(t, err)
	}
	_, err = memory.Commit(t.Context(), s, &memory.CommitOptions{Unanswered: true})
	require.NoError(t, err)
	name := "Cheap"
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: &name}))
	head, err := storetest.Head(t.Context(), s)
	require.NoError(t, err)
	_, err = s.Fork(t.Context(), head, &session.CreateOptions{ID: "beta"})
	require.NoError(t, err)
	require.NoError(t, store.Close())
	lines["Go"] = transcriptOf(t, dir)

	// HTTP
	sh := overURL(t)
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/sessions", `{"key":"main:cli:user","id":"alpha","title":"Porto"}`},
		{"POST", "/sessions/main/alpha/entries", `{"role":"user","content":"What does it cost?"}`},
		{"POST", "/sessions/main/alpha/entries", `{"role":"assistant","content":"900 euros."}`},
		{"POST", "/sessions/main/alpha/entries", `{"role":"user","content":"And now?"}`},
		{"POST", "/sessions/main/alpha/commit", `{"unanswered":true}`},
		{"PATCH", "/sessions/main/alpha", `{"title":"Cheap"}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, sh.store[1]+"/v1/store"+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("X-Api-Key", "secret")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.Equal(t, 200, resp.StatusCode, c.path)
		require.NoError(t, resp.Body.Close())
	}
	sh.must(0, "session", "fork", "alpha", "--id", "beta")
	lines["HTTP"] = transcriptOf(t, sh.dir)

	// The command line
	for name, sh := range map[string]*shell{"folder": overFolder(t), "URL": overURL(t)} {
		sh.must(0, "session", "new", "main:cli:user", "--id", "alpha", "--title", "Porto")
		sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "What does it cost?")
		sh.must(0, "session", "add-message", "alpha", "--role", "assistant", "--content", "900 euros.")
		sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "And now?")
		sh.must(0, "session", "commit", "alpha")
		sh.must(0, "session", "title", "alpha", "Cheap")
		sh.must(0, "session", "fork", "alpha", "--id", "beta")
		lines[name] = transcriptOf(t, sh.dir)
	}
	for name, got := range lines {
		require.Equal(t, lines["Go"], got, name)
	}
}

// transcriptOf returns the transcripts of alpha and its fork in a folder, without IDs and times.
func transcriptOf(t testing.TB, dir string) string {
	t.Helper()
	var text strings.Builder
	for _, id := range []string{"alpha", "beta"} {
		data, err := os.ReadFile(filepath.Join(dir, "agents", "main", "sessions", id+".jsonl"))
		require.NoError(t, err)
		require.Positive(t, bytes.Count(data, []byte("\n")))
		text.WriteString(string(data))
	}
	return steady(text.String())
}

// Wrong keys, and other kinds of servers, are reported.
func TestWrongServer(t *testing.T) {
	sh := overURL(t)
	sh.env = nil
	_, errs, code := sh.run("session", "list")
	require.Equal(t, exitFailed, code)
	require.Contains(t, errs, "CONVOLOG_TOKEN")
	sh.must(0, "session", "list", "--token", "secret")
	sh.store[1] += "/elsewhere"
	_, errs, code = sh.run("session", "list", "--token", "secret")
	require.Equal(t, exitAbsent, code)
	require.Contains(t, errs, "is the URL right?")
}

// Another server is never taken for one of Convolog, not even by a command that streams.
func TestOtherServer(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, "<html>hello</html>")
	}))
	defer other.Close()
	sh := &shell{TB: t, store: []string{"--url", other.URL}}
	for _, args := range []string{"session list", "session show a", "session follow a", "session search a", "session export a", "session archive a", "erase a --yes", "doctor"} {
		out, errs, code := sh.run(strings.Fields(args)...)
		require.Equal(t, exitAbsent, code, "%s: %s", args, errs)
		require.Empty(t, out)
		require.Contains(t, errs, "is the URL right?")
	}
	local := overFolder(t)
	local.must(0, "session", "new")
	local.must(exitUsage, "session", "list", "--url=")
}

// A command that only looks needs no right to write, and leaves no files.
func TestLooking(t *testing.T) {
	sh := overFolder(t)
	require.NoError(t, os.Mkdir(sh.dir, 0o700))
	for _, args := range []string{"session list", "session show alpha", "session title alpha x", "doctor", "prune --ttl"} {
		_, errs, code := sh.run(strings.Fields(args)...)
		require.Equal(t, exitAbsent, code, errs)
		require.Contains(t, errs, "--dir")
	}
	require.Len(t, snapshot(t, sh.dir), 1)

	sh.must(0, "session", "new", "--id", "alpha")
	sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "one")
	file := filepath.Join(sh.dir, "agents", "main", "sessions", "alpha.jsonl")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, append(data, `{"type":"us`...), 0o600))
	require.NoError(t, os.Remove(filepath.Join(sh.dir, "agents", "main", "sessions.jsonl")))
	before := snapshot(t, sh.dir)
	for _, args := range []string{"session list", "session get alpha", "session show alpha", "session search one", "session stats", "session usage", "session export alpha"} {
		sh.must(0, strings.Fields(args)...)
	}
	require.Equal(t, before, snapshot(t, sh.dir))
}

// fullDisk takes nothing.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A command whose output is lost has failed.
func TestLostOutput(t *testing.T) {
	sh := overFolder(t)
	sh.must(0, "session", "new", "--id", "alpha")
	sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "one")
	for _, args := range []string{"help", "session list", "session show alpha", "session search one", "session export alpha", "session stats", "doctor", "session list --json"} {
		var errs bytes.Buffer
		code := run(t.Context(), append(strings.Fields(args), sh.store...), sh.console(fullDisk{}, &errs))
		require.Equal(t, exitFailed, code, args)
		require.Contains(t, errs.String(), "no space")
	}
}

// Text from elsewhere commands no terminal; colour is for terminals that want it.
func TestScreen(t *testing.T) {
	sh := overFolder(t)
	sh.screen, sh.env = true, map[string]string{"NO_COLOR": "1"}
	sh.must(0, "session", "new", "--id", "alpha", "--title", "red \x1b[31m \u009b32m 颜色 "+strings.Repeat("long ", 40))
	sh.must(0, "session", "add-message", "alpha", "--role", "user", "--content", "clear \x1b[2J\n\u202eturned")
	file := filepath.Join(sh.dir, "agents", "main", "sessions", "alpha.jsonl")
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data = append(data, `{"type":"user","id":"x\u001b[31m","ts":"2026-11-23T06:16:36Z","content":"clear that"}`+"\n"...)
	require.NoError(t, os.WriteFile(file, data, 0o600))
	for _, args := range [][]string{{"session", "list"}, {"session", "show", "alpha"}, {"session", "search", "clear"}, {"session", "get", "alpha"}, {"pending"}, {"doctor"}} {
		raw, _, _ := sh.run(append(args, "--json")...)
		require.False(t, strings.ContainsAny(raw, "\x1b\u009b\u202e"), raw)
		out, _, code := sh.run(args...)
		require.Zero(t, code)
		require.NotContains(t, out, "\x1b")
		require.NotContains(t, out, "\u202e")
		for line := range strings.Lines(out) {
			require.LessOrEqual(t, uniseg.StringWidth(strings.TrimSuffix(line, "\n")), columns, line)
		}
	}
	for _, format := range []string{"jsonl", "markdown", "html", "anthropic"} {
		require.False(t, strings.ContainsAny(sh.must(0, "session", "export", "alpha", "--format", format), "\x1b\u009b\u202e"), format)
	}
	sh.env = nil
	out, _, _ := sh.run("session", "search", "clear")
	require.Contains(t, out, "\x1b[31mclear\x1b[0m")
	out, errs, _ := sh.run("session", "list")
	require.Contains(t, out, "\x1b[1m")
	require.Empty(t, errs)
	_, errs, _ = sh.run("doctor")
	require.Contains(t, errs, "1 of 1 session\r")
	require.True(t, strings.HasSuffix(errs, "\r\x1b[K"))
	sh.screen = false
	out, errs, _ = sh.run("session", "list")
	require.NotContains(t, out+errs, "\x1b")
}

// A server that redirects gets the key, and the host that it names does not.
func TestNoRedirectWithKey(t *testing.T) {
	got := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = "a request " + r.Header.Get("X-Api-Key") }))
	defer other.Close()
	server := httptest.NewServer(http.RedirectHandler(strings.Replace(other.URL, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect))
	defer server.Close()
	sh := &shell{TB: t, store: []string{"--url", server.URL}, env: map[string]string{"CONVOLOG_TOKEN": "secret"}}
	sh.must(exitAbsent, "session", "list")
	require.Empty(t, got)
}

// Two people use one key over one server: each gets the own session by it, and the one
// who sees both must choose.
func TestKeyOfTwoOwners(t *testing.T) {
	store, err := session.Open(filepath.Join(t.TempDir(), "store"), nil)
	require.NoError(t, err)
	defer store.Close()
	sv, err := serve.New(store, &serve.Options{Auth: serve.Keys(map[string]serve.Principal{"alice": {Owner: "alice"}, "bob": {Owner: "bob"}, "admin": {Admin: true}})})
	require.NoError(t, err)
	server := httptest.NewServer(sv)
	defer server.Close()
	const key = "main:telegram:42"
	as := func(who string) *shell { return &shell{TB: t, store: []string{"--url", server.URL, "--token", who}} }
	for _, who := range []string{"bob", "alice"} {
		as(who).must(exitAbsent, "session", "show", key)
		as(who).must(0, "session", "new", key)
		as(who).must(0, "session", "add-message", key, "--role", "user", "--content", "words of "+who)
	}
	for who, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		for _, args := range [][]string{{"session", "show", key}, {"session", "search", "words"}, {"session", "export", key}} {
			out := as(who).must(0, args...)
			require.Contains(t, out, "words of "+who)
			require.NotContains(t, out, "words of "+other)
		}
	}
	_, errs, code := as("admin").run("session", "show", key)
	require.NotZero(t, code, errs)
}

// The other commands can use the server that serve starts; cancelling ends it. A made token
// is in a file of the folder, for this user alone and as long as the server runs.
func TestServe(t *testing.T) {
	for _, given := range []string{"", "your-key"} {
		sh := overFolder(t)
		sh.must(0, "session", "new", "--id", "alpha")
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		code := make(chan int, 1)
		go func() {
			args := []string{"serve", "--addr", "127.0.0.1:0", "--json", "--page=" + strconv.FormatBool(given == ""), "--token", given}
			code <- run(ctx, append(args, sh.store...), sh.console(w, io.Discard))
		}()
		var said struct{ URL, Token string }
		require.NoError(t, json.NewDecoder(r).Decode(&said))
		require.Equal(t, given == "", said.Token != "", "without a token one is made")
		token := cmp.Or(given, said.Token)
		remote := &shell{TB: t, store: []string{"--url", said.URL}, env: map[string]string{"CONVOLOG_TOKEN": token}}
		require.Contains(t, remote.must(0, "session", "list"), "alpha")
		require.Contains(t, remote.must(0, "session", "export", "--format", "html", "alpha"), "<title>")
		page, err := http.Get(said.URL + "/")
		require.NoError(t, err)
		require.NoError(t, page.Body.Close())
		require.Equal(t, map[bool]int{true: http.StatusOK, false: http.StatusNotFound}[given == ""], page.StatusCode)
		golden(t, "serve.json", steady(`{"url":"`+said.URL+`"}`+"\n"))
		remote.env = nil
		remote.must(exitFailed, "session", "list")
		remote.must(0, "session", "list", "--token", token)

		files, err := filepath.Glob(filepath.Join(sh.dir, "*.token"))
		require.NoError(t, err)
		if given == "" {
			require.Len(t, files, 1)
			info, err := os.Stat(files[0])
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode())
			remote.must(0, "session", "list", "--dir", sh.dir)
			remote.store[1] = strings.Replace(said.URL, "127.0.0.1", "localhost", 1)
			remote.must(0, "session", "list", "--dir", sh.dir)
		}
		sh.must(0, "doctor")
		cancel()
		require.Zero(t, <-code)
		files, err = filepath.Glob(filepath.Join(sh.dir, "*.token"))
		require.NoError(t, err)
		require.Empty(t, files)
	}
	sh := overFolder(t)
	sh.must(exitUsage, "serve", "--addr", "0.0.0.0:0")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	for _, addr := range []string{taken.Addr().String(), "127.0.0.1:99999", "nonsense"} {
		sh.must(exitFailed, "serve", "--addr", addr)
	}
	require.NoDirExists(t, sh.dir, "a server that cannot start makes no store")
}

// A server prints the token that it has made, and no given token.
func TestServePrintsNoGivenToken(t *testing.T) {
	for _, arg := range []string{"--json", "--json=false"} {
		for _, given := range []string{"", "your-key"} {
			sh := overFolder(t)
			ctx, cancel := context.WithCancel(t.Context())
			var errs strings.Builder
			r, w := io.Pipe()
			code := make(chan int, 1)
			go func() {
				args := append([]string{"serve", "--addr", "127.0.0.1:0", "--page", "--token", given, arg}, sh.store...)
				code <- run(ctx, args, sh.console(w, &errs))
				w.Close()
			}()
			lines := bufio.NewReader(r)
			first, err := lines.ReadString('\n')
			require.NoError(t, err)
			cancel()
			rest, err := io.ReadAll(lines)
			require.NoError(t, err)
			require.Zero(t, <-code)
			said := first + string(rest)
			require.NotContains(t, said+errs.String(), "your-key")
			require.Equal(t, given == "", strings.Contains(said, "token"), said)
		}
	}
}

// Titles and keys that are too long are refused with one error: of the library, over HTTP
// and by the command line, over a folder and over a server. Nothing is written.
func TestLimitsByEveryDoor(t *testing.T) {
	long := strings.Repeat("t", 1025)
	key := session.Key{Agent: "main", Channel: "cli", Peer: strings.Repeat("p", 1024)}
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer func() { require.NoError(t, st.Close()) }()
	s, err := st.Create(t.Context(), session.Key{Agent: "main"}, &session.CreateOptions{ID: "alpha"})
	require.NoError(t, err)
	sv, err := serve.New(st, &serve.Options{Auth: serve.Keys(map[string]serve.Principal{"secret": {Admin: true}})})
	require.NoError(t, err)
	server := httptest.NewServer(sv)
	defer server.Close()
	post := func(method, path string, body any) string {
		data, err := json.Marshal(body)
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, bytes.NewReader(data))
		require.NoError(t, err)
		req.Header.Set("X-Api-Key", "secret")
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		require.Equal(t, http.StatusBadRequest, resp.StatusCode)
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(text)
	}
	for _, test := range []struct {
		member  string
		direct  error
		method  string
		path    string
		body    map[string]any
		command []string
	}{
		{"title", s.SetMeta(t.Context(), transcript.Meta{Title: &long}), "PATCH", "/v1/store/sessions/main/alpha", map[string]any{"title": long}, []string{"session", "title", "alpha", long}},
		{
			"title", second(st.Create(t.Context(), session.Key{Agent: "main"}, &session.CreateOptions{Title: long})),
			"POST", "/v1/store/sessions",
			map[string]any{"title": long},
			[]string{"session", "new", "--title", long},
		},
		{"key", second(st.Load(t.Context(), key)), "POST", "/v1/store/sessions", map[string]any{"key": key.String()}, []string{"session", "new", key.String()}},
	} {
		refused, ok := errors.AsType[*session.InputError](test.direct)
		require.True(t, ok, "%v", test.direct)
		require.Equal(t, test.member, refused.Member)
		said := post(test.method, test.path, test.body)
		require.Contains(t, said, refused.Reason)
		require.Contains(t, said, test.member)
		for _, sh := range []*shell{overFolder(t), {TB: t, store: []string{"--url", server.URL, "--token", "secret"}}} {
			if sh.dir != "" {
				sh.must(0, "session", "new", "--id", "alpha")
			}
			before := sh.must(0, "session", "list", "--json")
			_, errs, code := sh.run(test.command...)
			require.Equal(t, exitUsage, code, errs)
			require.Contains(t, errs, refused.Reason)
			require.Equal(t, before, sh.must(0, "session", "list", "--json"))
		}
	}
}

func second[T any](_ T, err error) error { return err }

type writerFunc func([]byte)

func (f writerFunc) Write(text []byte) (int, error) {
	f(text)
	return len(text), nil
}

// A delete goes to the trash. With --now it asks on a terminal, and takes no answer for a
// no; --yes needs no answer. Without a terminal, what deletes for good needs --yes.
func TestDeleteAsks(t *testing.T) {
	for name, open := range map[string]func(testing.TB) *shell{"folder": overFolder, "url": overURL} {
		t.Run(name, func(t *testing.T) {
			sh := open(t)
			sh.screen = true
			left := func() int {
				var infos []session.Info
				require.NoError(t, json.Unmarshal([]byte(sh.must(0, "session", "list", "--state", "any", "--json")), &infos))
				return len(infos)
			}
			for _, id := range []string{"alpha", "beta", "gamma"} {
				sh.must(0, "session", "new", "--id", id)
			}
			for _, sh.in = range []string{"", "n\n", "yes please\n"} {
				sh.must(exitFailed, "session", "delete", "alpha", "--now")
			}
			require.Equal(t, 3, left())
			ctx, cancel := context.WithCancel(t.Context())
			con := sh.console(io.Discard, writerFunc(func(text []byte) { // Ctrl-C at the question
				if bytes.Contains(text, []byte("[y/N]")) {
					cancel()
				}
			}))
			r, w := io.Pipe() // a terminal without input
			con.in = r
			require.Equal(t, exitFailed, run(ctx, append([]string{"session", "delete", "alpha", "--now"}, sh.store...), con))
			require.NoError(t, w.Close())
			require.Equal(t, 3, left())
			sh.in = "Yes\n"
			_, errs, code := sh.run("session", "delete", "alpha", "--now")
			require.Zero(t, code)
			require.Contains(t, errs, "Delete alpha for good? [y/N]")
			sh.in = ""
			sh.must(0, "session", "delete", "beta", "--now", "--yes")
			sh.must(0, "session", "delete", "gamm")
			require.Zero(t, left())
			_, errs, code = sh.run("session", "show", "gamm")
			require.Equal(t, exitAbsent, code)
			require.Contains(t, errs, "session gamma is in the trash: convolog session restore gamma")
			sh.must(0, "session", "restore", "gamm")
			sh.must(0, "session", "delete", "gamma")
			sh.screen = false
			for _, args := range []string{"session delete gamma --now", "erase gamma"} {
				_, errs, code := sh.run(strings.Fields(args)...)
				require.Equal(t, exitUsage, code, args)
				require.Contains(t, errs, "--yes confirms it")
			}
			file := filepath.Join(t.TempDir(), "old.jsonl")
			require.NoError(t, os.WriteFile(file, []byte(foreign), 0o600))
			sh.must(0, "import", file)
			prune := []string{"prune", "--older-than", "30d", "--delete", "--force"}
			sh.must(exitUsage, prune...)
			require.Equal(t, 1, left())
			sh.must(0, append(prune, "--yes")...)
			require.Zero(t, left())
			sh.must(0, "session", "delete", "gamma", "--now", "--yes")
			sh.must(exitAbsent, "session", "restore", "gamma")
			require.Equal(t, 3, strings.Count(sh.must(0, "session", "removed"), "hand"))
			require.Equal(t, 0, strings.Count(sh.must(0, "session", "removed", "--owner", "missing"), "hand"))
			if sh.dir != "" {
				sh.must(0, "doctor")
			}
		})
	}
}
