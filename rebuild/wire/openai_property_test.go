package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// What answers of OpenAI's APIs leave with their blocks, whole and broken.
var openAIBlocks = strings.Split(strings.TrimSpace(`
{"type":"thinking","thinking":"t","ext":{"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"e"}}}
{"type":"thinking","thinking":"t","ext":{"item":{"id":"rs_2","type":"reasoning","summary":[]}}}
{"type":"thinking","thinking":"t","ext":{"member":"reasoning_content"}}
{"type":"thinking","thinking":"t","ext":{"item":7}}
{"type":"text","text":"one","ext":{"item":{"id":"msg_1","status":"completed"},"part":{"annotations":[]}}}
{"type":"text","text":"two","ext":{"item":{"id":"msg_1","status":"completed"},"part":{"annotations":[]}}}
{"type":"text","text":"three","ext":{"item":{"id":"msg_2"}}}
{"type":"text","text":"no","ext":{"item":{"id":"msg_3"},"refusal":true}}
{"type":"text","text":"no","ext":{"refusal":true}}
{"type":"text","text":"odd","ext":{"item":[],"part":7}}
{"type":"web_search_call","id":"ws_1","status":"completed","action":{}}
{"type":"web_search_call","id":"ws_2","status":"in_progress"}
{"type":"computer_call","id":"cu_1","call_id":"call_9"}
{"type":"compaction","id":"cmp_1","encrypted_content":"e"}
{"type":"reasoning","id":"rs_9","summary":[]}`), "\n")

// randomLines are lines of a transcript: a conversation that changes its model,
// with calls and results that are lost, doubled and late.
func randomLines(rnd *rand.Rand) (lines []string) {
	some := func(n int, lists ...[]string) string {
		var list []string
		for range rnd.IntN(n + 1) {
			from := lists[rnd.IntN(len(lists))]
			list = append(list, from[rnd.IntN(len(from))])
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	add := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(`{"id":"e%d","ts":"2026-01-01T00:00:00Z",`, len(lines))+fmt.Sprintf(format, args...)+"}")
	}
	for range 1 + rnd.IntN(10) {
		id := callIDs[rnd.IntN(len(callIDs))]
		switch rnd.IntN(6) {
		case 0:
			add(`"type":"user","content":%s`, some(3, userBlocks, answerBlocks))
		case 1, 2:
			api := []string{"anthropic", "openai-chat", "openai-responses"}[rnd.IntN(3)]
			add(`"type":"assistant","api":%q,"model":%q,"stop_reason":%q,"content":%s`,
				api, []string{model, "gpt-x"}[rnd.IntN(2)], []string{"end_turn", "tool_use", "aborted"}[rnd.IntN(3)], some(5, answerBlocks, openAIBlocks, openAIBlocks))
		case 3:
			add(`"type":"tool_use","mid":"e%d","tool_use_id":%q,"name":%q,"input":%s`, len(lines)-1, id, id, []string{"{}", `"{"`}[rnd.IntN(2)])
		case 4:
			add(`"type":"tool_use","mid":"e%d","tool_use_id":%q,"name":"n","input":{"a":"\ud83d"},"ext":{"type":%q,"item":{"id":"fc_%d"}}`,
				len(lines)-1, id, []string{"", "custom_tool_call"}[rnd.IntN(2)], rnd.IntN(3))
		case 5:
			add(`"type":"tool_result","tool_use_id":%q,"is_error":%v,"content":%s`, id, rnd.IntN(2) == 0, some(2, userBlocks))
		}
	}
	add(`"type":"user","content":"and?"`)
	return lines
}

func folded(t testing.TB, lines []string) rebuild.History {
	t.Helper()
	fold := rebuild.New(nil)
	for _, line := range lines {
		e, err := transcript.ParseEntry([]byte(line))
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if err := fold.Add(transcript.Batch{Entries: []transcript.Entry{e}, Complete: true}); err != nil {
			t.Fatal(err)
		}
	}
	return fold.History()
}

// Every format that OpenAI's imitators need.
func everyOpenAI() []openAIFormat {
	all := []openAIFormat{chat, responses}
	for _, c := range []wire.OpenAIChat{{Reasoning: true, MaxTokens: true}, {ShortIDs: true, SystemRole: "developer"}} {
		f := chat
		f.request, f.validate = c.Request, c.Validate
		all = append(all, f)
	}
	r := wire.OpenAIResponses{Params: map[string]json.RawMessage{"store": json.RawMessage("true")}}
	stored := responses
	stored.request, stored.validate = r.Request, r.Validate
	return append(all, stored)
}

// Whatever lines a transcript has, its history and one more user text render
// valid for every format, and so does a conversation that goes from one to the
// next.
func TestOpenAIRandomHistory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	kept := map[string]int{}
	for range 500 {
		h := folded(t, randomLines(rnd))
		for _, f := range everyOpenAI() {
			for _, name := range []string{model, "gpt-x"} {
				body, _ := f.body(t, transcript.Request{Model: name, System: h.System, Messages: h.Messages})
				for _, what := range []string{`"type":"reasoning"`, `"reasoning_content":"t"`, `"refusal":"no"`, `"web_search_call"`, `"image_url"`, `"id":"fc_`, `"custom_tool_call_output"`} {
					if strings.Contains(body, what) {
						kept[f.name+" "+what]++
					}
				}
			}
		}
	}
	for _, what := range []string{
		`chat "reasoning_content":"t"`, `chat "refusal":"no"`, `chat "image_url"`,
		`responses "type":"reasoning"`, `responses "refusal":"no"`, `responses "web_search_call"`, `responses "id":"fc_`, `responses "custom_tool_call_output"`,
	} {
		if kept[what] == 0 {
			t.Errorf("no request has %s: the test checks nothing of it", what)
		}
	}
}

// Messages that are appended change no byte of those before them.
func TestOpenAIRandomPrefix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		h := folded(t, randomLines(rnd))
		for _, f := range []openAIFormat{chat, responses} {
			before := ""
			for n := range h.Messages {
				if h.Messages[n].Role != transcript.RoleUser {
					continue
				}
				body, report := f.body(t, transcript.Request{Model: "gpt-x", Messages: h.Messages[:n+1]})
				body = strings.TrimSuffix(f.conversation(body), "]}")
				if !strings.HasPrefix(body, before) && !reported(report, rebuild.MergedMessages) {
					t.Fatalf("message %d changed the bytes before it:\n%s\n%s", n, before, body)
				}
				before = body
			}
		}
	}
}

// Both sides of a call have the same ID, and no two calls do, whatever they had.
func TestOpenAIIDs(t *testing.T) {
	ids := slices.Concat(callIDs, []string{strings.Repeat("y", 40), strings.Repeat("y", 41), strings.Repeat("y", 64), "abcdefghi", "a"})
	var messages []transcript.Message
	for i, id := range ids {
		messages = append(messages, transcript.UserText("next"),
			transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: id, Name: "n", Input: json.RawMessage(`{}`)}}},
			transcript.ToolResult(id, fmt.Sprint("result ", i)), transcript.AssistantText("ok"))
	}
	messages = append(messages, transcript.UserText("last"))
	called := regexp.MustCompile(`"(?:id|call_id)":"([^"]*)"`)
	for _, f := range everyOpenAI() {
		body, report := f.body(t, transcript.Request{Model: "m", Messages: messages})
		given := map[string]bool{}
		for _, m := range called.FindAllStringSubmatch(body, -1) {
			given[m[1]] = true
		}
		if len(given) != len(ids) {
			t.Errorf("%s: %d IDs for %d calls", f.name, len(given), len(ids))
		}
		for _, r := range report {
			if r.Rule != rebuild.RewrittenID {
				t.Errorf("%s: %v", f.name, r)
			}
		}
		if !given["abcdefghi"] || len(report) == 0 || len(report) == len(ids) {
			t.Errorf("%s: %d IDs rewritten: %v", f.name, len(report), report)
		}
	}
}

func FuzzOpenAIHistory(f *testing.F) {
	for _, format := range []openAIFormat{chat, responses} {
		for _, body := range format.answers {
			resp, err := format.response([]byte(body))
			if err != nil {
				f.Fatal(err)
			}
			entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { return "e" }, transcript.UserText("go"), resp, results(resp))
			if err != nil {
				f.Fatal(err)
			}
			var lines []byte
			for _, e := range entries {
				lines = append(append(lines, e.Line()...), '\n')
			}
			f.Add(lines)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var lines []string
		for line := range bytes.SplitSeq(data, []byte("\n")) {
			if e, err := transcript.ParseEntry(line); err == nil && rebuild.New(nil).Add(transcript.Batch{Entries: []transcript.Entry{e}, Complete: true}) == nil {
				lines = append(lines, string(line))
			}
		}
		h := folded(t, append(lines, fmt.Sprintf(`{"id":"last%d","ts":"2026-01-01T00:00:00Z","type":"user","content":"and?"}`, len(data))))
		for _, format := range everyOpenAI() {
			format.body(t, transcript.Request{Model: "gpt-x", System: h.System, Messages: h.Messages})
		}
	})
}

// The input is a stream, one event a line, and by itself an answer.
func FuzzOpenAIStream(f *testing.F) {
	for _, format := range []openAIFormat{chat, responses} {
		for _, body := range format.answers {
			f.Add([]byte(strings.Join(format.events(f, body, 5), "\n")))
			f.Add([]byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, format := range []openAIFormat{chat, responses} {
			resp, err := format.response(data)
			if (resp == nil) == (err == nil) {
				t.Fatalf("response %v, error %v", resp, err)
			}
			s := format.stream()
			for line := range bytes.SplitSeq(data, []byte("\n")) {
				if d, err := s.Add(line); err != nil && d != (wire.Delta{}) {
					t.Fatalf("delta %v with error %v", d, err)
				}
				if !json.Valid(message0(t, s.Response())) {
					t.Fatal("the message is not valid JSON")
				}
			}
		}
	})
}
