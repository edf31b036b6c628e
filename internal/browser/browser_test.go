package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/openviking"
	"github.com/convolog/convolog/session/serve/zyhive"
	"github.com/convolog/convolog/transcript"
)

var (
	shots = flag.String("shots", "", "`folder` for the screenshots of the documentation")
	look  = flag.String("look", "", "`folder` for the screenshots of the tests; empty throws them away")
)

var browser *devtools // the one of all tests

func TestMain(m *testing.M) {
	flag.Parse()
	if _, err := os.Stat(chromium); err != nil {
		fmt.Println("skipped: there is no", chromium, "(Debian: apt-get install chromium)")
		return
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "convolog-browser")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if browser, err = launch(dir); err != nil {
			panic(err)
		}
		defer func() { _ = browser.close() }()
		return m.Run()
	}())
}

// object is one of JSON.
type object = map[string]any

// A tab is an open page. At the end of the test its console must be empty.
type tab struct {
	*testing.T
	session string

	mu       sync.Mutex
	console  []string // errors, exceptions, violations of the policy
	requests []string // URLs
	dropped  int      // requests that the page has cancelled
}

func newTab(t *testing.T, width int, scheme string) *tab {
	t.Helper()
	var made struct{ BrowserContextID, TargetID, SessionID string }
	require.NoError(t, browser.call("", "Target.createBrowserContext", object{}, &made))
	require.NoError(t, browser.call("", "Target.createTarget", object{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made))
	require.NoError(t, browser.call("", "Target.attachToTarget", object{"targetId": made.TargetID, "flatten": true}, &made))
	tb := &tab{T: t, session: made.SessionID}
	browser.mu.Lock()
	browser.listens[tb.session] = tb.hear
	browser.mu.Unlock()
	t.Cleanup(func() {
		require.Empty(t, tb.errors(), "errors in the console")
		require.NoError(t, browser.call("", "Target.disposeBrowserContext", object{"browserContextId": made.BrowserContextID}, nil))
	})
	for _, domain := range []string{"Log", "Runtime", "Network", "Page"} {
		tb.do(domain+".enable", object{})
	}
	tb.do("Emulation.setDeviceMetricsOverride", object{"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500})
	tb.do("Emulation.setFocusEmulationEnabled", object{"enabled": true})
	tb.do("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}}})
	return tb
}

// hear keeps the needed part of an event.
func (tb *tab) hear(m message) {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	switch m.Method {
	case "Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Page.javascriptDialogOpening":
		tb.console = append(tb.console, m.Method+" "+string(m.Params))
	case "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		_ = json.Unmarshal(m.Params, &sent)
		tb.requests = append(tb.requests, sent.Request.URL)
	case "Network.loadingFailed":
		var failed struct{ Canceled bool }
		_ = json.Unmarshal(m.Params, &failed)
		if failed.Canceled {
			tb.dropped++
		}
	}
}

// errors returns the content of the console, and empties it.
func (tb *tab) errors() []string {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	all := tb.console
	tb.console = nil
	return all
}

// do sends a command.
func (tb *tab) do(method string, params object) {
	tb.Helper()
	require.NoError(tb, browser.call(tb.session, method, params, nil))
}

// js evaluates an expression.
func (tb *tab) js(expr string) any {
	tb.Helper()
	var v struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Exception struct{ Description string } }
	}
	require.NoError(tb, browser.call(tb.session, "Runtime.evaluate", object{"expression": expr, "returnByValue": true, "awaitPromise": true}, &v))
	if v.ExceptionDetails != nil {
		require.Fail(tb, v.ExceptionDetails.Exception.Description, expr)
	}
	return v.Result.Value
}

// visit goes to a page and waits until it is there.
func (tb *tab) visit(url string) {
	tb.Helper()
	tb.js("window.old = true")
	tb.do("Page.navigate", object{"url": url})
	tb.until("!window.old && document.readyState === 'complete'")
}

func (tb *tab) reload() {
	tb.Helper()
	tb.js("window.old = true")
	tb.do("Page.reload", object{})
	tb.until("!window.old && document.readyState === 'complete'")
}

// until waits for an expression to be true.
func (tb *tab) until(expr string) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for {
		var v struct{ Result struct{ Value any } }
		err := browser.call(tb.session, "Runtime.evaluate", object{"expression": "!!(" + expr + ")", "returnByValue": true}, &v) // it may fail while a page goes
		if err == nil && v.Result.Value == true {
			return
		}
		if time.Now().After(deadline) {
			tb.shot("failed")
			tb.Fatalf("never true: %s\nerror: %v\nconsole: %q\npage: %.2000v", expr, err, tb.errors(), tb.js("document.body.innerText"))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// press presses keys on the page.
func (tb *tab) press(keys string) {
	tb.Helper()
	names := map[rune]string{'\r': "Enter", '\t': "Tab", '\x1b': "Escape"}
	for _, r := range keys {
		key := object{"type": "keyDown", "key": string(r), "text": string(r)}
		if name := names[r]; name != "" {
			key["key"], key["code"], key["windowsVirtualKeyCode"] = name, name, r
		}
		if r == '\t' || r == '\x1b' {
			delete(key, "text")
		}
		tb.do("Input.dispatchKeyEvent", key)
		key["type"] = "keyUp"
		delete(key, "text")
		tb.do("Input.dispatchKeyEvent", key)
	}
}

// click clicks the element of a selector.
func (tb *tab) click(selector string) {
	tb.Helper()
	tb.js(fmt.Sprintf("document.querySelector(%q).click()", selector))
}

// shot takes a screenshot into a folder for people to look at.
func (tb *tab) shot(name string) {
	tb.Helper()
	dir := *look
	if dir == "" {
		dir = tb.TempDir()
	}
	require.NoError(tb, os.WriteFile(filepath.Join(dir, name+".png"), tb.capture(object{"format": "png"}), 0o600))
}

func (tb *tab) capture(params object) []byte {
	tb.Helper()
	var shot struct{ Data string }
	require.NoError(tb, browser.call(tb.session, "Page.captureScreenshot", params, &shot))
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(tb, err)
	require.NotEmpty(tb, data)
	return data
}

// texts returns the texts of the messages.
func (tb *tab) texts() (all []string) {
	tb.Helper()
	for _, text := range tb.js(`[...document.querySelectorAll("#feed .text")].map(e => e.textContent)`).([]any) {
		all = append(all, text.(string))
	}
	return all
}

// served is a server over a store, below a prefix.
func served(t *testing.T, opts *serve.Options) (string, *session.Store) {
	t.Helper()
	return servedAt(t, opts, time.Now)
}

// servedAt is like served with a clock for the store.
func servedAt(t *testing.T, opts *serve.Options, now func() time.Time) (string, *session.Store) {
	t.Helper()
	store, err := session.Open(t.TempDir(), &session.Options{Sync: session.SyncNever, Now: now})
	require.NoError(t, err)
	opts.Surfaces, opts.Logger = []serve.Surface{serve.Page(), zyhive.New(), openviking.New("main", nil)}, slog.New(slog.DiscardHandler)
	if opts.Auth == nil {
		opts.Auth = func(*http.Request) (serve.Principal, error) { return serve.Principal{Admin: true}, nil }
	}
	sv, err := serve.New(store, opts)
	require.NoError(t, err)
	ts := httptest.NewServer(http.StripPrefix("/talks", sv))
	t.Cleanup(func() {
		require.NoError(t, sv.Close(context.Background()))
		ts.Close()
		require.NoError(t, store.Close())
	})
	return ts.URL + "/talks", store
}

// talk makes a session.
func talk(t *testing.T, store *session.Store, id string, items ...transcript.Item) *session.Session {
	t.Helper()
	s, err := store.Create(t.Context(), session.Key{Agent: "main", Channel: "web", Peer: id}, &session.CreateOptions{ID: id, Owner: "alice"})
	require.NoError(t, err)
	if len(items) > 0 {
		_, err = s.Append(t.Context(), items...)
		require.NoError(t, err)
	}
	return s
}

// open shows a session.
func (tb *tab) open(url, id string) {
	tb.Helper()
	tb.do("Page.navigate", object{"url": url + "/page#s=" + strings.ReplaceAll(fmt.Sprintf(`["main","%s"]`, id), `"`, "%22")})
	tb.until(`document.getElementById("title").textContent`)
}

func answer(text string, more ...transcript.Block) *transcript.Response {
	m := transcript.Message{Role: transcript.RoleAssistant, Content: append([]transcript.Block{transcript.TextBlock{Text: text}}, more...)}
	stop := transcript.StopEndTurn
	if len(more) > 0 {
		stop = transcript.StopToolUse
	}
	return &transcript.Response{Message: m, API: "test", Model: "scripted", StopReason: stop}
}

func toolCall(id, name, input string) transcript.ToolCallBlock {
	return transcript.ToolCallBlock{ID: id, Name: name, Input: json.RawMessage(input)}
}
