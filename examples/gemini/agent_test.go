package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

const testModel = "gemini-3-pro"

// testConfig is the program on a store of its own, with a model and tools.
func testConfig(t *testing.T, m *guardtest.Model, tools ...tool) config {
	t.Helper()
	return config{
		dir: t.TempDir(), key: "main:cli:user", model: testModel, window: m.Window, maxOutput: 1000,
		tools: tools, sdk: offline(m), interruptible: context.WithCancel,
	}
}

// newTool is a tool for a model to call.
func newTool(name string, run func(ctx context.Context, input json.RawMessage) (string, error)) tool {
	return tool{transcript.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`)}, run}
}

// drive runs the program on lines of input and returns what it printed.
func drive(t *testing.T, c config, lines ...string) string {
	t.Helper()
	var out bytes.Buffer
	if err := run(t.Context(), c, strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// contains holds that the texts are in out, in this order.
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

// valid holds that the model was sent nothing that the provider would refuse.
func valid(t *testing.T, m *guardtest.Model) {
	t.Helper()
	for _, r := range m.Invalid() {
		t.Errorf("request %d is invalid: %s\n%s", r.N, r.Refused, r.Body)
	}
}

// contents returns the contents of a request as they were sent.
func contents(t *testing.T, r guardtest.Recorded) string {
	t.Helper()
	var body struct{ Contents json.RawMessage }
	if err := json.Unmarshal(r.Body, &body); err != nil {
		t.Fatal(err)
	}
	return string(body.Contents)
}

// The program is run twice on one store: what the second run sends begins with
// what was sent and answered in the first, signatures and IDs included.
func TestRestart(t *testing.T) {
	call := guardtest.Tool("read", `{"path":"a<b>.go"}`)
	call.ID = "id1"
	first := &guardtest.Model{Answer: guardtest.Script(guardtest.Call(call), guardtest.Say("It is <short>."))}
	read := newTool("read", func(context.Context, json.RawMessage) (string, error) { return "package a // <\u2028>", nil })
	c := testConfig(t, first, read)
	contains(t, drive(t, c, "what is in a.go?"), "0 previous turns", "[read {", "It is <short>.")

	second := &guardtest.Model{}
	c.sdk = offline(second)
	contains(t, drive(t, c, "thanks"), "1 previous turns", "> thanks\n")
	before, after := contents(t, first.Requests()[1]), contents(t, second.Requests()[0])
	contains(t, before, `"functionCall":{"id":"id1"`, `"thoughtSignature":"c2lnbmF0dXJl`, `"functionResponse":{"id":"id1"`)
	if !strings.HasPrefix(after, strings.TrimSuffix(before, "]")) {
		t.Errorf("the second run sends\n%s\nafter\n%s", after, before)
	}
	contains(t, after, `"role":"model"`, "It is ")
	valid(t, first)
	valid(t, second)
}

// What a killed program left is gone on with at the next start.
func TestResume(t *testing.T) {
	m := &guardtest.Model{}
	c := testConfig(t, m)
	key, err := session.ParseKey(c.key)
	if err != nil {
		t.Fatal(err)
	}
	store, err := session.Open(c.dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	one, two := guardtest.Tool("read", "{}"), guardtest.Tool("read", "{}")
	one.ID, two.ID = "call_1", "call_2"
	_, err = s.Append(t.Context(), transcript.UserText("read both"), transcript.Response{
		API: "anthropic", StopReason: transcript.StopToolUse,
		Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{one, two}},
	}, transcript.ToolResult("call_2", "two"))
	if err := errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	contains(t, drive(t, c), "1 previous turns", "Going on with the last turn.", "two")
	contains(t, contents(t, m.Requests()[0]), "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", `"error":"interrupted"`, `"output":"two"`)
	valid(t, m)
}

// The results of one answer's calls are there before the next call of the
// model, in one content and in the order of the calls.
func TestParallelTools(t *testing.T) {
	calls := []transcript.ToolCallBlock{guardtest.Tool("say", `{"n":0}`), guardtest.Tool("nobody", "{}"), guardtest.Tool("say", `{"n":2}`)}
	m := &guardtest.Model{Answer: guardtest.Start(nil, guardtest.Call(calls...))}
	c := testConfig(t, m, newTool("say", func(_ context.Context, input json.RawMessage) (string, error) { return string(input), nil }))
	drive(t, c, "all")
	results := m.Requests()[1].Results()
	if len(results) != 3 || results[0].Text() != `{"n":0}` || !results[1].IsError || results[2].Text() != `{"n":2}` {
		t.Errorf("results = %+v", results)
	}
	valid(t, m)
}

// The conversation goes on in a window that is too small for it, whether the
// window is known or learned from the refusals that the SDK passes on.
func TestSmallWindow(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint("known ", known), func(t *testing.T) {
			left := 0 // rounds in this turn
			m := &guardtest.Model{Window: 8000, Keep: -1}
			m.Answer = guardtest.When(guardtest.SystemHas("You summarise"), guardtest.Always(guardtest.Say("They read files.")), func(r guardtest.Request) guardtest.Answer {
				if strings.HasSuffix(r.UserText(), "go") {
					left = 12
				}
				if left--; left < 0 {
					return guardtest.Say("Done.")
				}
				return guardtest.Call(guardtest.Tool("read", fmt.Sprint(`{"n":`, left, `}`)))
			})
			c := testConfig(t, m, newTool("read", func(_ context.Context, input json.RawMessage) (string, error) {
				return strings.Repeat("lorem ipsum dolor sit amet ", 200) + string(input), nil
			}))
			if !known {
				c.window = 0
			}
			out := drive(t, c, "go", "thanks", "go", "thanks")
			if got := strings.Count(out, "Done."); got != 4 || strings.Contains(out, "Error:") {
				t.Errorf("%d answers in\n%s", got, out)
			}
			contains(t, out, "The conversation was compacted")
			if got := len(m.Overflows()); got > 0 == known {
				t.Errorf("%d overflows", got)
			}
			valid(t, m)
		})
	}
}

// An answer that the connection cuts is kept as far as it came, and the next
// request is valid.
func TestCut(t *testing.T) {
	m := &guardtest.Model{Answer: guardtest.Start(nil, guardtest.EndAfter(2, guardtest.Say(strings.Repeat("one two three four ", 20))))}
	c := testConfig(t, m)
	contains(t, drive(t, c, "hello"), "one two", "Error:")
	contains(t, drive(t, c, "and now?"), "and now?")
	contains(t, contents(t, m.Requests()[1]), "one two", "and now?")
	valid(t, m)
}
