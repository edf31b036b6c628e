package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// testConfig is the program on its own store, with a model and tools.
func testConfig(t *testing.T, api string, m *guardtest.Model, tools ...tool) config {
	t.Helper()
	return config{
		dir: t.TempDir(), key: "main:cli:user", model: "gemini-3-pro", api: api, window: m.Window, maxOutput: 1000,
		tools: tools, at: offline(m), interruptible: context.WithCancel,
	}
}

// open returns the service of an API with a model; its SDK does not retry.
func open(t *testing.T, api string, m *guardtest.Model, reasoning json.RawMessage) service {
	t.Helper()
	at := offline(m)
	at.once = true
	s, err := apis[api].open(t.Context(), at, reasoning)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a request and shows nothing.
func ask(ctx context.Context, s service, req transcript.Request) (*transcript.Response, error) {
	return s.complete(ctx, req, false, func(wire.Delta) {})
}

// eachAPI runs a test over all APIs.
func eachAPI(t *testing.T, f func(t *testing.T, api string)) {
	for _, api := range slices.Sorted(maps.Keys(apis)) {
		t.Run(api, func(t *testing.T) { f(t, api) })
	}
}

// newTool is a tool for a model to call.
func newTool(name string, run func(ctx context.Context, input json.RawMessage) (string, error)) tool {
	return tool{transcript.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, run}
}

// drive runs the program on lines of input and returns its output.
func drive(t *testing.T, c config, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), c, strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// contains checks that the texts are in out, in this order.
func contains(t *testing.T, out string, texts ...string) {
	t.Helper()
	rest := out
	for _, text := range texts {
		_, after, ok := strings.Cut(rest, text)
		if !ok {
			t.Fatalf("no %q (in this order) in\n%s", text, out)
		}
		rest = after
	}
}

// valid checks that the model received no request that the provider would refuse.
func valid(t *testing.T, m *guardtest.Model) {
	t.Helper()
	for _, r := range m.Invalid() {
		t.Errorf("request %d is invalid: %s\n%s", r.N, r.Refused, r.Body)
	}
}

// messages returns the messages, items or contents of a request as sent.
func messages(t *testing.T, r guardtest.Recorded) []string {
	t.Helper()
	var body struct{ Messages, Input, Contents []json.RawMessage }
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range slices.Concat(body.Messages, body.Input, body.Contents) {
		texts = append(texts, string(m))
	}
	return texts
}

// answers returns the answers in the store of c.
func answers(t *testing.T, c config) (all []transcript.MessageLine) {
	t.Helper()
	withSession(t, c, func(s *session.Session) {
		for e, err := range s.Entries(t.Context(), "") {
			if err != nil {
				t.Fatal(err)
			}
			if f, ok := e.Body.(transcript.MessageLine); ok && f.Kind == "assistant" {
				all = append(all, f)
			}
		}
	})
	return all
}

// withSession opens the store of c as another program would.
func withSession(t *testing.T, c config, f func(*session.Session)) {
	t.Helper()
	key, err := session.ParseKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	store, err := session.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	s, err := store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	f(s)
}

// The program runs twice on one store: the first request of the second run
// begins with the first run's request and answer, byte for byte.
func TestRestart(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		first := &guardtest.Model{Answer: guardtest.Script(
			guardtest.Call(guardtest.Tool("read", `{"path": "a<b>.go",  "n": 1.0}`)),
			guardtest.Say("It is <short>."),
		)}
		read := newTool("read", func(context.Context, json.RawMessage) (string, error) { return "package a // <\u2028>", nil })
		c := testConfig(t, api, first, read)
		contains(t, drive(t, c, "what is in a.go?"), "0 previous turns", "[read {", "It is <short>.")

		second := &guardtest.Model{}
		c.at = offline(second)
		contains(t, drive(t, c, "thanks"), "1 previous turns", "> thanks\n")

		before, after := first.Requests()[1], second.Requests()[0]
		sent, again := messages(t, before), messages(t, after)
		if len(again) < len(sent)+2 || !slices.Equal(again[:len(sent)], sent) {
			t.Errorf("the second run sends\n%s\nafter\n%s", after.Body, before.Body)
		}
		contains(t, again[len(again)-2], "It is ")
		valid(t, first)
		valid(t, second)
	})
}

// An unknown name of an API is an error.
func TestUnknownAPI(t *testing.T) {
	c := testConfig(t, "anthropic", &guardtest.Model{})
	c.api = "nobody"
	if err := run(t.Context(), c, strings.NewReader(""), io.Discard); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("the error is %v", err)
	}
}

// The conversation continues over another API, and then over the first again.
func TestAnotherAPI(t *testing.T) {
	m := &guardtest.Model{Answer: guardtest.Start(nil, guardtest.Call(guardtest.Tool("read", "{}")), guardtest.Say("It is alpha."))}
	c := testConfig(t, "anthropic", m, newTool("read", func(context.Context, json.RawMessage) (string, error) { return "alpha", nil }))
	drive(t, c, "read it")
	eachAPI(t, func(t *testing.T, api string) {
		m := &guardtest.Model{}
		c.api, c.at = api, offline(m)
		drive(t, c, "over "+api)
		contains(t, string(m.Requests()[0].Body), "read it", "alpha", "It is alpha.", "over "+api)
		valid(t, m)
	})
}

// The calls of one answer run at the same time, and all results are there
// before the next call of the model, in the order of the calls.
func TestParallelTools(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		const n = 5
		var calls []transcript.ToolCallBlock
		for i := range n {
			calls = append(calls, guardtest.Tool("meet", fmt.Sprint(`{"n":`, i, `}`)))
		}
		calls = append(calls, guardtest.Tool("nobody", "{}"), guardtest.Tool("fail", "{}"))
		m := &guardtest.Model{Answer: guardtest.Start(nil, guardtest.Call(calls...))}
		var all sync.WaitGroup
		all.Add(n)
		meet := newTool("meet", func(_ context.Context, input json.RawMessage) (string, error) {
			all.Done()
			all.Wait()
			return "met " + string(input), nil
		})
		fail := newTool("fail", func(context.Context, json.RawMessage) (string, error) { return "", errors.New("out of order") })
		c := testConfig(t, api, m, meet, fail)
		drive(t, c, "meet")
		results := m.Requests()[1].Results()
		asked := m.Requests()[1].Messages[1].ToolCalls()
		if len(results) != len(calls) || len(asked) != len(calls) {
			t.Fatalf("%d results of %d calls", len(results), len(asked))
		}
		for i, r := range results {
			want := fmt.Sprint(`met {"n":`, i, `}`)
			switch i {
			case n:
				want = `there is no tool called "nobody"`
			case n + 1:
				want = "out of order"
			}
			if r.CallID != asked[i].ID || r.Text() != want {
				t.Errorf("result %d: %+v, want %q", i, r, want)
			}
		}
		valid(t, m)
	})
}

// onText calls do once, as soon as a text was printed.
type onText struct {
	out  bytes.Buffer
	text string
	do   func()
}

func (w *onText) Write(p []byte) (int, error) {
	n, err := w.out.Write(p)
	if w.do != nil && strings.Contains(w.out.String(), w.text) {
		w.do()
		w.do = nil
	}
	return n, err
}

// Ctrl-C ends an answer, not the program. The conversation is kept, the next
// request is valid, and a restart does not continue the cancelled turn.
func TestCancel(t *testing.T) {
	long := guardtest.Say(strings.Repeat("one two three four ", 20))
	tests := []struct {
		name   string
		answer func(cancel func()) guardtest.Answer // to the first request
		text   string                               // cancels when it is printed
		kept   string                               // in the next request
	}{
		{"in a text", func(func()) guardtest.Answer { return guardtest.StallAfter(5, long) }, "one two", "one two"},
		{"before it began", func(cancel func()) guardtest.Answer { cancel(); return guardtest.StallAfter(0, guardtest.Answer{}) }, "", "hello"},
		{"in a tool", func(func()) guardtest.Answer { return guardtest.Call(guardtest.Tool("wait", `{"n":1}`)) }, "", "context canceled"},
		{"in a call", func(func()) guardtest.Answer {
			a := guardtest.Call(guardtest.Tool("wait", `{"text":"`+strings.Repeat("one two three four ", 20)+`"}`))
			a.Text = "I shall wait."
			return guardtest.StallAfter(7, a)
		}, "wait.", "I shall wait."},
	}
	for _, tt := range tests {
		eachAPI(t, func(t *testing.T, api string) {
			var cancel context.CancelFunc
			stop := func() { cancel() }
			m := &guardtest.Model{Answer: func(r guardtest.Request) guardtest.Answer {
				if r.N == 1 {
					return tt.answer(stop)
				}
				return guardtest.Echo(r)
			}}
			c := testConfig(t, api, m, newTool("wait", func(ctx context.Context, _ json.RawMessage) (string, error) {
				stop()
				<-ctx.Done()
				return "", ctx.Err()
			}))
			c.interruptible = func(ctx context.Context) (context.Context, context.CancelFunc) {
				ctx, cancel = context.WithCancel(ctx)
				return ctx, cancel
			}
			cancelled := &onText{text: tt.text}
			if tt.text != "" {
				cancelled.do = stop
			}
			if err := run(t.Context(), c, strings.NewReader("hello\n"), cancelled); err != nil {
				t.Fatal(err)
			}
			contains(t, cancelled.out.String(), "Cancelled. The answer so far is kept.", "> ")
			all := answers(t, c)
			if last := all[len(all)-1]; last.StopReason != transcript.StopAborted {
				t.Errorf("the answer is %+v", last)
			}

			out := drive(t, c, "and now?")
			contains(t, out, "> ", "and now?\n")
			if strings.Contains(out, "Going on") || m.Stats().Requests != 2 {
				t.Errorf("%d requests; it printed\n%s", m.Stats().Requests, out)
			}
			contains(t, string(m.Requests()[1].Body), tt.kept, "and now?")
			valid(t, m)
		})
	}
}

// A failed turn continues when the user wants that.
func TestEmptyLine(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		m := &guardtest.Model{Answer: guardtest.Start(nil, guardtest.Unauthorized())}
		c := testConfig(t, api, m)
		contains(t, drive(t, c, "hello"), "> ", "Error: ", "401")
		contains(t, drive(t, c), "The last turn has no whole answer.", "> \n")
		contains(t, drive(t, c, "", ""), "The last turn has no whole answer.", "> ", "Continuing the last turn.", "hello\n")
		if out := drive(t, c, "", ""); strings.Contains(out, "no answer") || m.Stats().Requests != 2 {
			t.Errorf("%d requests; it printed\n%s", m.Stats().Requests, out)
		}
		valid(t, m)
	})
}

// After an answer that its limit cuts in the middle of a call, the turn
// continues: the call fails.
func TestCutCall(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		if api == "gemini" {
			t.Skip("that API gives no half of a call")
		}
		m := &guardtest.Model{Answer: guardtest.Start(nil,
			guardtest.Call(guardtest.Tool("read", `{"path":"`+strings.Repeat("one two three four ", 100)+`"}`)))}
		c := testConfig(t, api, m, newTool("read", func(_ context.Context, input json.RawMessage) (string, error) {
			var args struct{ Path string }
			return "alpha", json.Unmarshal(input, &args)
		}))
		c.maxOutput = 100
		contains(t, drive(t, c, "hello"), "The answer ended early: max_tokens.", "[read ", "cannot unmarshal")
		if results := m.Requests()[1].Results(); len(results) != 1 {
			t.Errorf("the second request is %s", m.Requests()[1].Body)
		}
		valid(t, m)
	})
}

// Turns of two programs do not run at once on a session: neither a new turn nor
// one that looks abandoned.
func TestBusy(t *testing.T) {
	m := &guardtest.Model{}
	c := testConfig(t, "anthropic", m)
	withSession(t, c, func(s *session.Session) {
		tn, err := turn.Begin(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Append(t.Context(), transcript.UserText("hello")); err != nil {
			t.Fatal(err)
		}
		out := drive(t, c, "never sent")
		contains(t, out, "in the middle of a turn", "> ", "in the middle of a turn")
		if strings.Contains(out, "Going on") || m.Stats().Requests > 0 {
			t.Errorf("%d requests; it printed\n%s", m.Stats().Requests, out)
		}
		if err := tn.End(); err != nil {
			t.Fatal(err)
		}
	})
	contains(t, drive(t, c), "Continuing the last turn.", "hello\n")
	if body := string(m.Requests()[0].Body); strings.Contains(body, "never sent") {
		t.Errorf("sent is %s", body)
	}
	valid(t, m)
}

// A failed stream is reported, the received part is kept, and the next request
// is valid.
func TestCutStream(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		say := guardtest.Say(strings.Repeat("one two three four ", 20))
		call := guardtest.Call(guardtest.Tool("read", `{"path":"`+strings.Repeat("one two three four ", 20)+`"}`))
		call.Text = "one two three four"
		tests := []struct {
			name   string
			answer guardtest.Answer
			says   string
			stop   transcript.StopReason
		}{
			{"connection", guardtest.CutAfter(5, say), "Error: ", transcript.StopAborted},
			{"end of body", guardtest.EndAfter(5, say), "unexpected EOF", transcript.StopAborted},
			{"input", guardtest.CutInput(call), "Error: ", transcript.StopAborted},
			{"error event", guardtest.FailAfter(5, "overloaded_error", "Overloaded", say), "Overloaded", transcript.StopError},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				m := &guardtest.Model{Answer: guardtest.Start(nil, tt.answer)}
				c := testConfig(t, api, m)
				contains(t, drive(t, c, "hello", "and now?"), "> one two", "\n", "Error: ", "> and now?\n")
				contains(t, drive(t, c, "hello"), "2 previous turns", "> hello\n")
				first := answers(t, c)[0]
				if first.StopReason != tt.stop || !strings.HasPrefix(first.Message().Text(), "one two") {
					t.Errorf("kept is %+v", first)
				}
				valid(t, m)
			})
		}
	})
}

// The SDK retries failures before an answer begins. The clock is synctest's.
func TestRetry(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		if api == "gemini" {
			t.Skip("that SDK does not try again")
		}
		synctest.Test(t, func(t *testing.T) {
			m := &guardtest.Model{Answer: guardtest.Start(nil, guardtest.Overloaded(), guardtest.RateLimited(30), guardtest.Say("At last."), guardtest.Unauthorized())}
			out := drive(t, testConfig(t, api, m), "hello", "again")
			contains(t, out, "> At last.", "Error: ", "401")
			if n := m.Stats().Requests; n != 4 {
				t.Errorf("%d requests", n)
			}
		})
	})
}

// The program over a port, as with the real service.
func TestServer(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		m := &guardtest.Model{Window: 8000, Answer: guardtest.Start(nil,
			guardtest.Call(guardtest.Tool("read", "{}"), guardtest.Tool("read", "{}")), guardtest.Say("Twice."))}
		server := guardtest.NewServer(m)
		defer server.Close()
		c := testConfig(t, api, m, newTool("read", func(context.Context, json.RawMessage) (string, error) { return "alpha", nil }))
		c.at = &endpoint{http: server.Client(), url: server.URL, key: "key"}
		contains(t, drive(t, c, "read it twice"), "Twice.")
		contains(t, drive(t, c, "and?"), "1 previous turns", "> and?\n")
		header, want := "Authorization", "Bearer key"
		switch api {
		case "anthropic":
			header, want = "X-Api-Key", "key"
		case "gemini":
			header, want = "X-Goog-Api-Key", "key"
		}
		if r := m.Requests()[0]; r.Header.Get(header) != want || !r.Stream {
			t.Errorf("the request has the headers %v", r.Header)
		}
		if len(m.Requests()[1].Results()) != 2 {
			t.Errorf("the second request is %s", m.Requests()[1].Body)
		}
		valid(t, m)
	})
}

// The program without flags.
func TestOffline(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		m := scripted(200_000)
		m.Pace = nil
		c := testConfig(t, api, m, newTool("list_files", func(context.Context, json.RawMessage) (string, error) { return "- a\n", nil }))
		contains(t, drive(t, c, "hello", "look at the files", "count"), `You said "hello".`, "Let me look.", "[list_files", "This is what I found:", "1 2 3", "299 300")
		contains(t, drive(t, c, "bye"), "3 previous turns", "Earlier messages of yours that I remember: 3.")
		valid(t, m)
	})
}
