package wire_test

import (
	"strings"
	"testing"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

func TestRequestIDs(t *testing.T) {
	call := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"n","input":{}}` }
	result := func(id string) string {
		return `{"type":"tool_result","tool_use_id":"` + id + `","content":"of ` + id + `"}`
	}
	var messages []transcript.Message
	for _, ids := range [][]string{
		{"toolu_1", "call_0"},
		{"call_0"},
		{"call_0"},
		{"functions.read:0"},
		{"functions_read_0"},
		{strings.Repeat("x", 80), "ü", "ü-"},
		{""},
		{"toolu_2"},
		{"functions.read:0"},
	} {
		var calls, results []string
		for _, id := range ids {
			calls, results = append(calls, call(id)), append(results, result(id))
		}
		messages = append(messages, transcript.UserText("next"),
			message(t, `{"role":"assistant","content":[`+strings.Join(calls, ",")+`]}`, native),
			message(t, `{"role":"user","content":[`+strings.Join(results, ",")+`]}`, native),
			transcript.AssistantText("ok"))
	}
	messages = append(messages, transcript.UserText("last"))
	var before string
	for n := 1; n <= len(messages); n++ {
		body, _ := render(t, anthropic.Format{Prefill: true}, transcript.Request{Model: model, Messages: messages[:n]})
		body = strings.TrimSuffix(body, "]}")
		if !strings.HasPrefix(body, before) {
			t.Fatalf("message %d changed the bytes before it:\n%s\n%s", n, before, body)
		}
		before = body
	}
	body, report := render(t, anthropic.Format{}, transcript.Request{Model: model, Messages: messages})
	if found := wiretest.Validate(decode(t, body)); len(found) > 0 {
		t.Errorf("violations: %v", found)
	}
	for _, id := range []string{"toolu_1", "call_0", "functions_read_0", "toolu_2"} {
		if strings.Count(body, `"id":"`+id+`"`) != 1 || strings.Count(body, `"tool_use_id":"`+id+`"`) != 1 {
			t.Errorf("ID %s did not stay", id)
		}
	}
	if got := len(report); got != 8 {
		t.Errorf("%d IDs rewritten, want 8: %v", got, report)
	}
	// Rendering a rendering changes nothing.
	if again, report := render(t, anthropic.Format{}, decode(t, body)); again != body || len(report) > 0 {
		t.Errorf("rendered again:\n%s\n%s\n%v", again, body, report)
	}
}

// A call whose ID an earlier call was given gets another one, even if the ID is valid.
func TestRequestIDsTaken(t *testing.T) {
	messages := turn(t, native)
	messages[1].Content = []transcript.Block{block(t, `{"type":"tool_use","id":"a b","name":"n","input":{}}`)}
	messages[1].Origins = messages[1].Origins[:1]
	messages[2] = transcript.ToolResult("a b", "r")
	body, _ := render(t, anthropic.Format{}, transcript.Request{Model: model, Messages: messages})
	given := decode(t, body).Messages[1].ToolCalls()[0].ID
	messages = append(messages,
		message(t, `{"role":"assistant","content":[{"type":"tool_use","id":"`+given+`","name":"n","input":{}}]}`, native),
		transcript.ToolResult(given, "r"))
	body, _ = render(t, anthropic.Format{}, transcript.Request{Model: model, Messages: messages})
	if found := wiretest.Validate(decode(t, body)); len(found) > 0 {
		t.Errorf("violations: %v", found)
	}
}
