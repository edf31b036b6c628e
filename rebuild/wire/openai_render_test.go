package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

func chatOrigin(entry string, batch int) transcript.Origin {
	return transcript.Origin{Entry: entry, Batch: batch, API: "openai-chat", Model: "gpt-x-2026-01-31"}
}

func responsesOrigin(entry string, batch int) transcript.Origin {
	return transcript.Origin{Entry: entry, Batch: batch, API: "openai-responses", Model: "gpt-x"}
}

func TestOpenAIEnvelope(t *testing.T) {
	req := transcript.Request{
		Model: "gpt-x", System: "Be <brief>.", MaxOutput: 9, Messages: []transcript.Message{transcript.UserText("Hi")},
		Tools: []transcript.Tool{{Name: "read", Description: "Read.", InputSchema: json.RawMessage(`{"type":"object"}`)}, {Name: "now"}},
	}
	chatTools := `"tools":[{"type":"function","function":{"name":"read","description":"Read.","parameters":{"type":"object"}}},{"type":"function","function":{"name":"now","parameters":{"type":"object","properties":{}}}}]`
	responsesTools := `"tools":[{"type":"function","name":"read","description":"Read.","parameters":{"type":"object"},"strict":false},{"type":"function","name":"now","parameters":{"type":"object","properties":{}},"strict":false}]`
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	tests := []struct {
		name   string
		format interface {
			Request(transcript.Request) ([]byte, rebuild.Report, error)
		}
		referee wiretest.API
		want    string
	}{
		{"chat", openaichat.Format{}, wiretest.OpenAIChat{}, `{"model":"gpt-x","max_completion_tokens":9,` + chatTools + `,"messages":[{"role":"system","content":"Be <brief>."},{"role":"user","content":"Hi"}]}`},
		{
			"an imitator",
			openaichat.Format{Stream: true, MaxTokens: true, SystemRole: "developer", Params: map[string]json.RawMessage{"tools": raw("[]"), "temperature": raw("1.0")}},
			wiretest.OpenAIChat{},
			`{"model":"gpt-x","max_tokens":9,"stream":true,"stream_options":{"include_usage":true},"temperature":1.0,"tools":[],"messages":[{"role":"developer","content":"Be <brief>."},{"role":"user","content":"Hi"}]}`,
		},
		{"responses", openairesponses.Format{}, wiretest.OpenAIResponses{}, `{"model":"gpt-x","max_output_tokens":9,"store":false,"instructions":"Be <brief>.",` + responsesTools + `,"input":[{"type":"message","role":"user","content":"Hi"}]}`},
		{
			"reasoning",
			openairesponses.Format{Stream: true, Reasoning: raw(`{"effort":"low"}`), Params: map[string]json.RawMessage{"instructions": raw(`"No."`), "tools": raw("[]")}},
			wiretest.OpenAIResponses{},
			`{"model":"gpt-x","max_output_tokens":9,"stream":true,"store":false,"reasoning":{"effort":"low"},"include":["reasoning.encrypted_content"],"instructions":"No.","tools":[],"input":[{"type":"message","role":"user","content":"Hi"}]}`,
		},
	}
	for _, tt := range tests {
		body, report, err := tt.format.Request(req)
		if err != nil || len(report) > 0 || string(body) != tt.want {
			t.Errorf("%s: %v %v, rendered\n%s\nwant\n%s", tt.name, err, report, body, tt.want)
		}
		if _, found := tt.referee.Decode(body); len(found) > 0 {
			t.Errorf("%s: violations: %v", tt.name, found)
		}
	}
	for _, name := range []string{"model", "messages", "max_completion_tokens", "stream"} {
		if _, _, err := (openaichat.Format{Params: map[string]json.RawMessage{name: raw("1")}}).Request(req); err == nil {
			t.Errorf("params with %s were rendered", name)
		}
	}
	_, _, err := (openairesponses.Format{Params: map[string]json.RawMessage{"user": raw("x")}}).Request(req)
	require.Error(t, err, "params that are not JSON were rendered")
}

// The rendering of each kind of block.
func TestOpenAIBlocks(t *testing.T) {
	const png, pdf = `{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}`, `{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"}`
	text := func(s string) [2]string {
		return [2]string{`{"type":"text","text":"` + s + `"}`, `{"type":"input_text","text":"` + s + `"}`}
	}
	tests := []struct {
		block string
		want  [2]string // in Chat Completions, in Responses
		rules string
	}{
		{`{"type":"image","source":` + png + `}`, [2]string{`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}`, `{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw0KGgo="}`}, ""},
		{`{"type":"image","source":{"type":"url","url":"https://x.example/a"}}`, [2]string{`{"type":"image_url","image_url":{"url":"https://x.example/a"}}`, `{"type":"input_image","detail":"auto","image_url":"https://x.example/a"}`}, ""},
		{`{"type":"image","source":{"type":"file","file_id":"file_1"}}`, text("[image left out: a file of another provider]"), "replaced-block"},
		{`{"type":"image","source":{"type":"file","file_id":"file-1"}}`, [2]string{text("[image left out: not by file ID]")[0], `{"type":"input_image","detail":"auto","file_id":"file-1"}`}, "replaced-block|"},
		{`{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"AAAA"}}`, text("[image left out: unsupported media type]"), "replaced-block"},
		{`{"type":"document","title":"Q4","source":` + pdf + `}`, [2]string{`{"type":"file","file":{"filename":"Q4.pdf","file_data":"data:application/pdf;base64,JVBERi0x"}}`, `{"type":"input_file","filename":"Q4.pdf","file_data":"data:application/pdf;base64,JVBERi0x"}`}, ""},
		{`{"type":"document","source":{"type":"url","url":"https://x.example/a"}}`, [2]string{text("[document left out: not by URL]")[0], `{"type":"input_file","file_url":"https://x.example/a"}`}, "replaced-block|"},
		{`{"type":"document","source":{"type":"file","file_id":"file-1"}}`, [2]string{`{"type":"file","file":{"file_id":"file-1"}}`, `{"type":"input_file","file_id":"file-1"}`}, ""},
		{`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"All of it."}}`, text("All of it."), ""},
		{`{"type":"document","title":"T","context":"C","source":{"type":"text","media_type":"text/plain","data":"All."}}`, [2]string{`{"type":"text","text":"T"},{"type":"text","text":"C"},{"type":"text","text":"All."}`, `{"type":"input_text","text":"T"},{"type":"input_text","text":"C"},{"type":"input_text","text":"All."}`}, ""},
		{`{"type":"document","source":{"type":"content","content":[{"type":"text","text":"A"}]}}`, text("A"), ""},
		{`{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]}`, text(`[search_result]\nsource: s\ntitle: t\ntext: x`), "replaced-block"},
		{`{"type":"context","context_type":"memory","uri":"u","abstract":"a"}`, text(`[memory u]\n  a`), "replaced-block"},
		{`{"type":"hologram"}`, text("[hologram left out]"), "replaced-block"},
		{`{"type":"text","text":"x","cache_control":{"type":"ephemeral"},"ext":{"a":1}}`, text("x"), "dropped-member"},
	}
	for _, tt := range tests {
		m := transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "See"}, block(t, tt.block)}}
		for i, f := range []openAIFormat{chat, responses} {
			body, report := f.body(t, transcript.Request{Model: "gpt-x", Messages: []transcript.Message{m}})
			shown := `"See"},` + tt.want[i] + `]`
			const text = `{"type":"text","text":"`
			if i == 0 && strings.HasPrefix(tt.want[0], text) { // neighbouring texts are joined
				shown = `"content":"See\n\n` + strings.ReplaceAll(strings.TrimPrefix(strings.TrimSuffix(tt.want[0], "}"), text), `"},`+text, `\n\n`)
			}
			if !strings.Contains(body, shown) {
				t.Errorf("%s: %s became\n%s\nwant\n%s", f.name, tt.block, body, tt.want[i])
			}
			want := tt.rules
			if both := strings.Split(tt.rules, "|"); len(both) == 2 {
				want = both[i]
			}
			if got := rules(report); got != want {
				t.Errorf("%s: %s: report %q, want %q", f.name, tt.block, got, want)
			}
		}
	}
}

// Images in results stay in place, or follow all results.
func TestOpenAIResultMedia(t *testing.T) {
	image := block(t, `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`)
	call := func(id string) transcript.Block {
		return transcript.ToolCallBlock{ID: id, Name: "n", Input: json.RawMessage("{}")}
	}
	req := transcript.Request{Model: "gpt-x", Messages: []transcript.Message{
		transcript.UserText("go"),
		{Role: transcript.RoleAssistant, Content: []transcript.Block{call("a"), call("b"), call("c")}},
		{Role: transcript.RoleUser, Content: []transcript.Block{
			transcript.ToolResultBlock{CallID: "a", Content: []transcript.Block{image}},
			transcript.ToolResultBlock{CallID: "b", Content: []transcript.Block{transcript.TextBlock{Text: "B"}, image}},
			transcript.ToolResultBlock{CallID: "c"},
			transcript.TextBlock{Text: "faster"},
		}},
	}}
	body, report := chat.body(t, req)
	const want = `{"role":"tool","tool_call_id":"a","content":"[in the user message behind the results]"},{"role":"tool","tool_call_id":"b","content":"B"},{"role":"tool","tool_call_id":"c","content":""},` +
		`{"role":"user","content":[{"type":"text","text":"[from the result of call a]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},` +
		`{"type":"text","text":"[from the result of call b]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}},{"type":"text","text":"faster"}]}]}`
	require.True(t, strings.HasSuffix(body, want), body)
	require.Equal(t, "moved-media moved-media", rules(report))
	body, report = responses.body(t, req)
	if !strings.Contains(body, `"call_id":"a","output":[{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,iVBORw0KGgo="}]}`) || len(report) > 0 {
		t.Errorf("report %v, rendered\n%s", report, body)
	}
}

// Reasoning items go back whole, to their model, with the next item; if they
// cannot, later items lose their IDs.
func TestOpenAIReasoningItems(t *testing.T) {
	const (
		rs1   = `{"type":"thinking","thinking":"","ext":{"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"e"}}}`
		rs2   = `{"type":"thinking","thinking":"t","ext":{"item":{"id":"rs_2","type":"reasoning","summary":[]}}}`
		text  = `{"type":"text","text":"x","ext":{"item":{"id":"msg_1"},"part":{}}}`
		call  = `{"type":"tool_use","id":"a","name":"n","input":{},"ext":{"item":{"id":"fc_1"}}}`
		bare  = `{"type":"tool_use","id":"a","name":"n","input":{}}`
		seek  = `{"type":"web_search_call","id":"ws_1","status":"completed"}`
		other = `{"type":"thinking","thinking":"t","signature":"s"}`
	)
	here := responsesOrigin("e", 1)
	foreign := native
	foreign.Batch = 1
	tests := []struct {
		name   string
		blocks string
		origin transcript.Origin
		want   string // IDs of items, in order
		rules  string
	}{
		{"call", rs1 + "," + call, here, "rs_1 fc_1", ""},
		{"text and call", rs1 + "," + text + "," + call, here, "rs_1 msg_1 fc_1", ""},
		{"search", rs1 + "," + seek + "," + text, here, "rs_1 ws_1 msg_1", ""},
		{"without its content", rs2 + "," + call, here, "", "dropped-thinking"},
		{"one of two without", rs1 + "," + rs2 + "," + call, here, "", "dropped-thinking dropped-thinking"},
		{"search without", rs2 + "," + seek + "," + text, here, "", "dropped-thinking dropped-block"},
		{"before a call that was cut", rs1 + "," + bare, here, "", "dropped-thinking"},
		{"at the end", text + "," + rs1, here, "msg_1", "dropped-thinking"},
		{"twice", rs1 + "," + text + "," + rs1 + "," + call, here, "rs_1 msg_1", "dropped-thinking"},
		{"twice in a row", rs1 + "," + rs1 + "," + call, here, "", "dropped-thinking dropped-thinking"},
		{"of another API", rs1 + "," + other + "," + text + "," + seek + "," + call, foreign, "", "dropped-thinking dropped-thinking dropped-block"},
		{"without what it was", other + "," + text, here, "", "dropped-thinking"},
		{"before a tool that waits for the client", rs1 + `,{"type":"computer_call","id":"cu_1","call_id":"x"},` + text, here, "", "dropped-thinking dropped-block"},
		{"before a search that did not end", rs1 + `,{"type":"web_search_call","id":"ws_1","status":"searching"},` + text, here, "", "dropped-thinking dropped-block"},
	}
	check := func(name, want, rulesWant string, messages ...transcript.Message) {
		body, report := responses.body(t, transcript.Request{Model: "gpt-x", Messages: append([]transcript.Message{transcript.UserText("go")}, messages...)})
		var sent struct{ Input []struct{ ID string } }
		require.NoError(t, json.Unmarshal([]byte(body), &sent))
		var ids []string
		for _, item := range sent.Input {
			if item.ID != "" {
				ids = append(ids, item.ID)
			}
		}
		if got := strings.Join(ids, " "); got != want || rules(report) != rulesWant {
			t.Errorf("%s: items %q, want %q; report %v\n%s", name, got, want, report, body)
		}
	}
	for _, tt := range tests {
		answer := message(t, `{"role":"assistant","content":[`+tt.blocks+`]}`, tt.origin)
		next := transcript.UserText("and?")
		if len(answer.ToolCalls()) > 0 {
			next = transcript.ToolResult("a", "r")
		}
		check(tt.name, tt.want, tt.rules, answer, next)
	}
	parts := message(t, `{"role":"assistant","content":[`+rs1+","+call+`]}`, here)
	parts.Origins[1].Batch = 2
	check("with the call of another answer", "fc_1", "dropped-thinking", parts, transcript.ToolResult("a", "r"))
	first := message(t, `{"role":"assistant","content":[`+call+`]}`, here)
	again := message(t, `{"role":"assistant","content":[`+strings.Replace(call, "fc_1", "fc_2", 1)+`]}`, responsesOrigin("f", 2))
	check("a call with the ID of another one", "fc_1", "rewritten-id", first, transcript.ToolResult("a", "r"), again, transcript.ToolResult("a", "r"))

	// An item that the provider stores is named by its ID.
	stored := openairesponses.Format{Params: map[string]json.RawMessage{"store": json.RawMessage("true")}}
	body, report, err := stored.Request(transcript.Request{Model: "gpt-x", Messages: []transcript.Message{
		transcript.UserText("go"), message(t, `{"role":"assistant","content":[`+rs2+","+call+`]}`, here), transcript.ToolResult("a", "r"),
	}})
	if err != nil || len(report) > 0 || !strings.Contains(string(body), `"rs_2"`) || len(wiretest.Check(wiretest.OpenAIResponses{}, body)) > 0 {
		t.Errorf("%v %v, rendered %s", err, report, body)
	}
}

// Reasoning of imitators goes back, from all turns, in its original member.
func TestOpenAIChatReasoning(t *testing.T) {
	answer := func(member, model string) transcript.Message {
		o := chatOrigin("e", 1)
		o.Model = model
		return message(t, `{"role":"assistant","content":[{"type":"thinking","thinking":"t","ext":{"member":"`+member+`","reasoning_details":[{"a":1}]}},{"type":"tool_use","id":"a","name":"n","input":{}}]}`, o)
	}
	turn := func(m transcript.Message, more ...transcript.Message) transcript.Request {
		return transcript.Request{Model: "gpt-x", Messages: append([]transcript.Message{transcript.UserText("go"), m, transcript.ToolResult("a", "r")}, more...)}
	}
	over := []transcript.Message{transcript.AssistantText("Done."), transcript.UserText("thanks")}
	tests := []struct {
		name      string
		reasoning bool
		req       transcript.Request
		want      string
		rules     string
	}{
		{"running", true, turn(answer("reasoning", "gpt-x")), `{"role":"assistant","reasoning":"t","reasoning_details":[{"a":1}],"content":null,`, ""},
		{"not asked for", false, turn(answer("reasoning_content", "gpt-x")), `{"role":"assistant","content":null,`, "dropped-thinking"},
		{"over", true, turn(answer("reasoning_content", "gpt-x"), over...), `{"role":"assistant","reasoning_content":"t","reasoning_details":[{"a":1}],"content":null,`, ""},
		{"of another model", true, turn(answer("reasoning_content", "gpt-y")), `{"role":"assistant","reasoning_content":"","content":null,`, "dropped-thinking"},
	}
	for _, tt := range tests {
		f := chat
		f.request, f.validate = openaichat.Format{Reasoning: tt.reasoning}.Request, check(wiretest.OpenAIChat{Reasoning: tt.reasoning})
		body, report := f.body(t, tt.req)
		if !strings.Contains(body, tt.want) || rules(report) != tt.rules {
			t.Errorf("%s: report %v, rendered\n%s\nwant\n%s", tt.name, report, body, tt.want)
		}
	}
}

// A stream of an imitator: calls without an index, whole in one chunk, or all
// with the same index; only a finish reason at the end.
func TestOpenAIChatImitators(t *testing.T) {
	const call = `{"id":"%","function":{"name":"n%","arguments":"{\"a\":%}"}}`
	one, two := strings.ReplaceAll(call, "%", "1"), strings.ReplaceAll(call, "%", "2")
	same := func(s string) string { return strings.Replace(s, "{", `{"index":0,`, 1) }
	for name, deltas := range map[string][]string{
		"no index":   {`[` + one + `,` + two + `]`},
		"two chunks": {`[` + one + `]`, `[` + two + `]`},
		"same index": {`[` + same(one) + `]`, `[` + same(two) + `]`},
		"pieces":     {`[{"id":"1","function":{"name":"n1","arguments":"{\"a\""}}]`, `[{"function":{"arguments":":1}"}}]`, `[{"id":"2","function":{"name":"n2","arguments":"{"}}]`, `[{"id":"2","function":{"name":"n2","arguments":"\"a\":2}"}}]`},
		"objects":    {`[{"id":"1","function":{"name":"n1","arguments":{"a":1}}},{"id":"2","function":{"name":"n2","arguments":{"a":2}}}]`},
	} {
		s := chat.stream()
		for _, d := range append(deltas, "") {
			event := `{"model":"m","choices":[{"index":0,"delta":{"tool_calls":` + d + `}}]}`
			if d == "" {
				event = `{"model":"m","choices":[{"delta":{},"finish_reason":"stop"},{"index":1,"delta":{"content":"another"},"finish_reason":"length"}]}`
			}
			_, err := s.Add([]byte(event))
			require.NoError(t, err)
		}
		resp := s.Response()
		const want = `{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n1","input":{"a":1}},{"type":"tool_use","id":"2","name":"n2","input":{"a":2}}]}`
		if got := string(message0(t, resp)); got != want || resp.StopReason != transcript.StopToolUse {
			t.Errorf("%s: the answer is %s, %q", name, got, resp.StopReason)
		}
	}
}

// The members that the Responses API requires of its own items.
func TestOpenAIResponsesOwnItems(t *testing.T) {
	for item, want := range map[string]string{
		`{"type":"reasoning","id":"rs_1","encrypted_content":"e"}`:              "missing",
		`{"type":"reasoning","id":"rs_1","encrypted_content":"e","summary":[]}`: "",
		`{"type":"mcp_call"}`:                              "missing",
		`{"type":"compaction","encrypted_content":"e"}`:    "",
		`{"type":"web_search_call","id":"ws_1"}`:           "",
		`{"type":"image_generation_call","result":"AAAA"}`: "missing",
	} {
		body := `{"model":"m","store":false,"input":[` + item + `,{"type":"message","role":"assistant","content":"x"},{"type":"message","role":"user","content":"x"}]}`
		found := wiretest.Check(wiretest.OpenAIResponses{}, []byte(body))
		if got := len(found) > 0; got != (want != "") || got && found[0].Rule != want {
			t.Errorf("%s: %v, want %q", item, found, want)
		}
	}
}

// A data URL is base64 of a type that the APIs take.
func TestOpenAIDataURL(t *testing.T) {
	for url, ok := range map[string]bool{
		"data:image/png;base64,iVBORw0KGgo=": true,
		"data:image/tiff;base64,AAAA":        false,
		"data:image/png;base64,":             false,
		"data:image/png;base64,A===":         false,
		"data:image/png;base64,AA\\nAA":      false,
		"data:image/png,AAAA":                false,
		"image/png;base64,iVBORw0KGgo=":      false,
		"https://x.example/a.png":            true,
	} {
		found := append(
			wiretest.Check(wiretest.OpenAIChat{}, []byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"`+url+`"}}]}]}`)),
			wiretest.Check(wiretest.OpenAIResponses{}, []byte(`{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"`+url+`"}]}]}`))...)
		if want := map[bool]int{false: 2}[ok]; len(found) != want || want > 0 && found[0].Rule != "source" {
			t.Errorf("%s: %v", url, found)
		}
	}
}
