package wire_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/transcript"
)

// openAIBlocks are blocks from answers of OpenAI's APIs, whole and broken.
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

// strict returns the referee of a format.
func strict(c openaichat.Format) wiretest.OpenAIChat {
	return wiretest.OpenAIChat{Reasoning: c.Reasoning, ShortIDs: c.ShortIDs}
}

// Every format that OpenAI's imitators need.
func everyOpenAI() []openAIFormat {
	all := []openAIFormat{chat, responses}
	for _, c := range []openaichat.Format{{Reasoning: true, MaxTokens: true}, {ShortIDs: true, SystemRole: "developer"}} {
		f := chat
		f.request, f.validate = c.Request, check(strict(c))
		all = append(all, f)
	}
	r := responses
	r.request, r.validate = stored.Request, check(wiretest.OpenAIResponses{})
	return append(all, r)
}

// Appended messages change no byte of the messages before them.
func TestOpenAIRandomPrefix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	for range 300 {
		h := folded(t, randomLines(rnd, []string{"anthropic", "openai-chat", "openai-responses"}, []string{model, "gpt-x"}, openAIBlocks))
		for _, f := range []openAIFormat{chat, responses} {
			before := ""
			for n := range h.Messages {
				if h.Messages[n].Role != transcript.RoleUser {
					continue
				}
				body, report := f.body(t, transcript.Request{Model: "gpt-x", Messages: h.Messages[:n+1]})
				body = strings.TrimSuffix(f.conversation(body), "]}")
				if !strings.HasPrefix(body, before) && !reported(report, "merged-messages") {
					t.Fatalf("message %d changed the bytes before it:\n%s\n%s", n, before, body)
				}
				before = body
			}
		}
	}
}

// For all original IDs, a call and its result have the same, unique ID.
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
			if r.Rule != "rewritten-id" {
				t.Errorf("%s: %v", f.name, r)
			}
		}
		if !given["abcdefghi"] || len(report) == 0 || len(report) == len(ids) {
			t.Errorf("%s: %d IDs rewritten: %v", f.name, len(report), report)
		}
	}
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
			require.NotEqual(t, err == nil, resp == nil)
			_, _ = fed(t, format.stream(), data)
		}
	})
}
