package wiretest_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/transcript"
)

// valid is a request that uses everything the Messages API takes. It starts
// with a finished turn and ends inside a running one.
const valid = `{
"model":"m","system":"Be brief.","max_tokens":100,
"tools":[{"name":"read","input_schema":{"type":"object"}},{"name":"list-files_2","description":"x","input_schema":{"type":"object","properties":{}}}],
"messages":[
{"role":"user","content":"Look."},
{"role":"assistant","content":[
	{"type":"thinking","thinking":"hm","signature":"c2ln"},
	{"type":"text","text":"Reading."},
	{"type":"tool_use","id":"toolu_1","name":"read","input":{"path":"a.go"},"caller":{"type":"direct"}},
	{"type":"tool_use","id":"toolu_2","name":"list-files_2","input":{}}]},
{"role":"user","content":[
	{"type":"tool_result","tool_use_id":"toolu_1","content":[
		{"type":"text","text":"package a","cache_control":{"type":"ephemeral"}},
		{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},
		{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"found"}],"citations":{"enabled":true}}]},
	{"type":"tool_result","tool_use_id":"toolu_2","is_error":true},
	{"type":"text","text":"And this:","cache_control":{"type":"ephemeral","ttl":"1h"}},
	{"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain"},"title":"T","context":"C","citations":{"enabled":true}},
	{"type":"document","source":{"type":"content","content":[{"type":"text","text":"part"}]},"title":null},
	{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0="}},
	{"type":"image","source":{"type":"url","url":"https://example.com/a.png"}},
	{"type":"image","source":{"type":"file","file_id":"file_1"}}]},
{"role":"assistant","content":[
	{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"go"}},
	{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","encrypted_content":"x"}]},
	{"type":"text","text":"Done.","citations":[{"type":"web_search_result_location"}]}]},
{"role":"user","content":[{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"found"}]},{"type":"text","text":"Go on.","cache_control":{"type":"ephemeral"}}]},
{"role":"assistant","content":[
	{"type":"redacted_thinking","data":"ZGF0YQ=="},
	{"type":"text","text":"Well."},
	{"type":"tool_use","id":"toolu_3","name":"read","input":{"path":"b.go"},"cache_control":{"type":"ephemeral"}}]},
{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_3","content":"package b"}]}
]}`

func decode(t testing.TB, text string) transcript.Request {
	t.Helper()
	var req transcript.Request
	require.NoError(t, json.Unmarshal([]byte(text), &req), text)
	return req
}

// Each row is the messages of a request, or the whole request, and its one
// violation.
func TestValidateRules(t *testing.T) {
	const (
		user   = `{"role":"user","content":"hi"}`
		answer = `{"role":"assistant","content":"hello"}`
		call   = `{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{}}]}`
		result = `{"type":"tool_result","tool_use_id":"a","content":"r"}`
	)
	mark := func(text string) string {
		return `{"type":"text","text":"` + text + `","cache_control":{"type":"ephemeral"}}`
	}
	asUser := func(blocks ...string) string { return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}` }
	said := func(blocks ...string) string {
		return user + `,{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]},` + user
	}
	tool := func(block string) string { // an answered call
		return user + `,{"role":"assistant","content":[` + block + `]},` + asUser(result)
	}
	inResult := func(block string) string {
		return user + "," + call + "," + asUser(`{"type":"tool_result","tool_use_id":"a","content":[`+block+`]}`)
	}
	const without = "`tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message."
	thinking := `{"type":"thinking","thinking":"t","signature":"s"}`
	server := `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`
	found := `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`
	const notUser, notAssistant = "messages.1: `%s` blocks can only be in `user` messages", "messages.0: `%s` blocks can only be in `assistant` messages"

	tests := []struct{ name, request, rule, text string }{
		{"no messages", `{"messages":[]}`, "messages", "messages: at least one message is required"},
		{"assistant first", answer + "," + user, "first-user", `messages: first message must use the "user" role`},
		{"role", `{"role":"tool","content":"x"},` + user, "role", "messages.0.role: Input should be 'user' or 'assistant'"},
		{"system with another model", `{"messages":[` + user + `,{"role":"system","content":"x"}],"model":"claude-sonnet-5"}`, "role", "messages.1: role 'system' is not supported on this model"},
		{"system behind an answer", `{"messages":[` + user + "," + answer + `,{"role":"system","content":"x"}],"model":"claude-opus-5"}`, "role", "messages.2: a `system` message must follow a `user` message"},
		{"system in front of a user", `{"messages":[` + user + `,{"role":"system","content":"x"},` + user + `],"model":"claude-opus-5"}`, "alternation", `messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row`},
		{"image of the system", `{"messages":[` + user + `,{"role":"system","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}],"model":"claude-opus-5"}`, "block-role", "messages.1: `system` messages can only have `text` blocks"},
		{"two users", user + "," + user, "alternation", `messages: roles must alternate between "user" and "assistant", but found multiple "user" roles in a row`},
		{"two answers", user + "," + answer + "," + answer + "," + user, "alternation", `messages: roles must alternate between "user" and "assistant", but found multiple "assistant" roles in a row`},
		{"prefill", user + "," + answer, "prefill", "This model does not support assistant message prefill. The conversation must end with a user message."},
		{"empty content", said(), "content", "messages.1: all messages must have non-empty content except for the optional final assistant message"},
		{"null content", `{"role":"user","content":null}`, "content", "messages.0: all messages must have non-empty content except for the optional final assistant message"},

		{"call in user", asUser(`{"type":"tool_use","id":"a","name":"n","input":{}}`), "block-role", fmt.Sprintf(notAssistant, "tool_use")},
		{"thinking in user", asUser(thinking), "block-role", fmt.Sprintf(notAssistant, "thinking")},
		{"redacted in user", asUser(`{"type":"redacted_thinking","data":"d"}`), "block-role", fmt.Sprintf(notAssistant, "redacted_thinking")},
		{"result in answer", said(result), "block-role", fmt.Sprintf(notUser, "tool_result")},
		{"image in answer", said(`{"type":"image","source":{"type":"file","file_id":"f"}}`), "block-role", fmt.Sprintf(notUser, "image")},
		{"document in answer", said(`{"type":"document","source":{"type":"file","file_id":"f"}}`), "block-role", fmt.Sprintf(notUser, "document")},
		{"search result in answer", said(`{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]}`), "block-role", fmt.Sprintf(notUser, "search_result")},

		{
			"context", asUser(`{"type":"context","uri":"x"}`), "block-type",
			"messages.0.content.0: Input tag 'context' found using 'type' does not match any of the expected tags: 'document', 'image', 'redacted_thinking', 'search_result', 'server_tool_use', 'text', 'thinking', 'tool_result', 'tool_use'",
		},
		{
			"unknown type", asUser(`{"type":"reasoning","id":"x"}`), "block-type",
			"messages.0.content.0: Input tag 'reasoning' found using 'type' does not match any of the expected tags: 'document', 'image', 'redacted_thinking', 'search_result', 'server_tool_use', 'text', 'thinking', 'tool_result', 'tool_use'",
		},
		{"text without text", asUser(`{"type":"text"}`), "block-type", "messages.0.content.0.text: Field required"},
		{
			"thinking in result", inResult(thinking), "block-type",
			"messages.2.content.0.tool_result.content.0: Input tag 'thinking' found using 'type' does not match any of the expected tags: 'document', 'image', 'search_result', 'text', 'tool_reference'",
		},
		{
			"raw in result", inResult(`{"type":"audio"}`), "block-type",
			"messages.2.content.0.tool_result.content.0: Input tag 'audio' found using 'type' does not match any of the expected tags: 'document', 'image', 'search_result', 'text', 'tool_reference'",
		},
		{"search result without title", asUser(`{"type":"search_result","source":"s","content":[{"type":"text","text":"x"}]}`), "block-type", "messages.0.content.0.search_result.title: Field required"},
		{"search result of blanks", asUser(`{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":" "}]}`), "block-type", "messages.0.content.0.search_result.content: Field required"},

		{"ext", asUser(`{"type":"text","text":"x","ext":{"id":"1"}}`), "member", "messages.0.content.0.text.ext: Extra inputs are not permitted"},
		{"mark on thinking", tool(`{"type":"thinking","thinking":"t","signature":"s","cache_control":{"type":"ephemeral"}},{"type":"tool_use","id":"a","name":"n","input":{}}`), "member", "messages.1.content.0.thinking.cache_control: Extra inputs are not permitted"},
		{"caller of a result", user + "," + call + "," + asUser(`{"type":"tool_result","tool_use_id":"a","caller":{}}`), "member", "messages.2.content.0.tool_result.caller: Extra inputs are not permitted"},
		{"mark of no type", asUser(`{"type":"text","text":"x","cache_control":{}}`), "member", "messages.0.content.0.text.cache_control.type: Input should be 'ephemeral'"},
		{"mark no object", asUser(`{"type":"text","text":"x","cache_control":true}`), "member", "messages.0.content.0.text.cache_control: Input should be a valid dictionary"},
		{"citations no list", asUser(`{"type":"text","text":"x","citations":{}}`), "member", "messages.0.content.0.text.citations: Input should be a valid list"},
		{"document citations a list", asUser(`{"type":"document","source":{"type":"file","file_id":"f"},"citations":[]}`), "member", "messages.0.content.0.document.citations: Input should be a valid dictionary"},
		{"member of a source", asUser(`{"type":"image","source":{"type":"file","file_id":"f","url":"u"}}`), "member", "messages.0.content.0.image.source.file.url: Extra inputs are not permitted"},
		{"raw member", said(server, `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[],"ext":1}`), "member", "messages.1.content.1.web_search_tool_result.ext: Extra inputs are not permitted"},

		{"empty text", asUser(`{"type":"text","text":""}`), "text", "messages: text content blocks must be non-empty"},
		{"blank text", said(`{"type":"text","text":" \n\u00a0\u001c"}`), "text", "messages: text content blocks must contain non-whitespace text"},
		{"blank content", `{"role":"user","content":" "}`, "text", "messages: text content blocks must contain non-whitespace text"},
		{"empty text in result", inResult(`{"type":"text","text":""}`), "text", "messages: text content blocks must be non-empty"},

		{"no result", said(`{"type":"tool_use","id":"a","name":"n","input":{}}`, `{"type":"tool_use","id":"b","name":"n","input":{}}`), "missing-result", "messages.1: " + fmt.Sprintf(without, "a, b")},
		{
			"result one message late", user + "," + call + "," + user + "," + answer + "," + asUser(result), "missing-result orphan-result",
			"messages.1: " + fmt.Sprintf(without, "a"),
		},
		{"result after text", user + "," + call + "," + asUser(`{"type":"text","text":"x"}`, result), "result-order", "messages.1: " + fmt.Sprintf(without, "a")},
		{
			"results not together", user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{}},{"type":"tool_use","id":"b","name":"n","input":{}}]},` +
				asUser(result, `{"type":"text","text":"x"}`, `{"type":"tool_result","tool_use_id":"b"}`),
			"result-order", "messages.1: " + fmt.Sprintf(without, "b"),
		},
		{"two results", user + "," + call + "," + asUser(result, result), "doubled-result", "messages.2.content.1: each tool_use must have a single result. Found multiple `tool_result` blocks with id: a"},
		{
			"result of nothing", asUser(result), "orphan-result",
			"messages.0.content.0: unexpected `tool_use_id` found in `tool_result` blocks: a. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.",
		},

		{
			"ID twice in a message", tool(`{"type":"tool_use","id":"a","name":"n","input":{}},{"type":"tool_use","id":"a","name":"n","input":{}}`), "id-unique",
			"messages.1.content.1: `tool_use` ids must be unique",
		},
		{"ID twice in a request", tool(`{"type":"tool_use","id":"a","name":"n","input":{}}`) + "," + call + "," + asUser(result), "id-unique", "messages.3.content.0: `tool_use` ids must be unique"},
		{
			"ID alphabet", user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a.1","name":"n","input":{}}]},` + asUser(`{"type":"tool_result","tool_use_id":"a.1"}`),
			"id-pattern id-pattern", "messages.1.content.0.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'",
		},
		{
			"ID length", user + `,{"role":"assistant","content":[{"type":"tool_use","id":"` + strings.Repeat("a", 65) + `","name":"n","input":{}}]},` + asUser(`{"type":"tool_result","tool_use_id":"`+strings.Repeat("a", 65)+`"}`),
			"id-length id-length", "messages.1.content.0.tool_use.id: String should have at most 64 characters",
		},
		{"name", tool(`{"type":"tool_use","id":"a","name":"read file","input":{}}`), "name", "messages.1.content.0.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"},
		{"no name", tool(`{"type":"tool_use","id":"a","name":"","input":{}}`), "name", "messages.1.content.0.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"},
		{"long name", tool(`{"type":"tool_use","id":"a","name":"` + strings.Repeat("n", 65) + `","input":{}}`), "name", "messages.1.content.0.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"},
		{"input a string", tool(`{"type":"tool_use","id":"a","name":"n","input":"{"}`), "input", "messages.1.content.0.tool_use.input: Input should be a valid dictionary"},
		{"no input", tool(`{"type":"tool_use","id":"a","name":"n"}`), "input", "messages.1.content.0.tool_use.input: Input should be a valid dictionary"},

		{"media type", asUser(`{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"AAAA"}}`), "source", "messages.0.content.0.image.source.base64.media_type: Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'"},
		{"document media type", asUser(`{"type":"document","source":{"type":"base64","media_type":"text/plain","data":"AAAA"}}`), "source", "messages.0.content.0.document.source.base64.media_type: Input should be 'application/pdf'"},
		{"no data", asUser(`{"type":"image","source":{"type":"base64","media_type":"image/png"}}`), "source", "messages.0.content.0.image.source.base64.data: image cannot be empty"},
		{"bad base64", asUser(`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=A"}}`), "source", "messages.0.content.0.image.source.base64: invalid base64 data"},
		{"http", inResult(`{"type":"image","source":{"type":"url","url":"http://example.com"}}`), "source", "messages.2.content.0.tool_result.content.0.image.source.url.url: Only HTTPS URLs are supported."},
		{"no file", asUser(`{"type":"document","source":{"type":"file"}}`), "source", "messages.0.content.0.document.source.file.file_id: Field required"},
		{"text image", asUser(`{"type":"image","source":{"type":"text","media_type":"text/plain","data":"x"}}`), "source", "messages.0.content.0.image.source: Input tag 'text' found using 'type' does not match any of the expected tags: 'base64', 'file', 'url'"},
		{"empty document", asUser(`{"type":"document","source":{"type":"text","media_type":"text/plain","data":""}}`), "source", "messages.0.content.0.document.source.text.data: document cannot be empty"},
		{"document of nothing", asUser(`{"type":"document","source":{"type":"content","content":[]}}`), "source", "messages.0.content.0.document.source.content.content: Input should be a valid string or list"},

		{"no signature", said(`{"type":"thinking","thinking":"t"}`, `{"type":"text","text":"x"}`), "thinking", "messages.1.content.0.thinking.signature: Field required"},
		{"no redacted data", said(`{"type":"redacted_thinking","data":""}`, `{"type":"text","text":"x"}`), "thinking", "messages.1.content.0.redacted_thinking.data: Field required"},
		{"thinking last", said(`{"type":"text","text":"x"}`, thinking), "thinking-order", "messages.1: The final block in an assistant message cannot be `thinking`."},

		{"five marks", asUser(mark("1"), mark("2"), mark("3"), mark("4"), mark("5")), "marks", "A maximum of 4 blocks with cache_control may be provided. Found 5."},
		{"mark on empty text", asUser(mark("")), "marks text", "messages.0.content.0.text: cache_control cannot be set for empty text blocks"},

		{"server call alone", said(server, `{"type":"text","text":"x"}`), "server-tool", "messages.1: `web_search` tool use with id `srvtoolu_1` was found without a corresponding `web_search_tool_result` block"},
		{
			"server result alone", said(found, `{"type":"text","text":"x"}`), "server-tool",
			"messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1. Each `web_search_tool_result` block must have a corresponding `server_tool_use` block before it.",
		},
		{
			"server result first", said(found, server), "server-tool server-tool",
			"messages.1.content.0: unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_1. Each `web_search_tool_result` block must have a corresponding `server_tool_use` block before it.",
		},
		{"server ID", said(strings.ReplaceAll(server+","+found, "srvtoolu_1", "toolu_1")), "server-tool", "messages.1.content.0.server_tool_use.id: String should match pattern '^srvtoolu_[a-zA-Z0-9_]+$'"},
		{"server ID twice", said(server, found, server, found), "id-unique", "messages.1.content.2: `tool_use` ids must be unique"},
		{"server input", said(`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":[]}`, found), "input", "messages.1.content.0.server_tool_use.input: Input should be a valid dictionary"},
		{"server result without content", said(server, `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1"}`), "block-type", "messages.1.content.1.web_search_tool_result.content: Field required"},

		{"tool name", `{"messages":[` + user + `],"tools":[{"name":"a b","input_schema":{"type":"object"}}]}`, "name", "tools.0.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"},
		{"tools of one name", `{"messages":[` + user + `],"tools":[{"name":"a","input_schema":{"type":"object"}},{"name":"a","input_schema":{"type":"object"}}]}`, "tools", "tools: Tool names must be unique."},
		{"no schema", `{"messages":[` + user + `],"tools":[{"name":"a","input_schema":null}]}`, "tools", "tools.0.input_schema: Input should be a valid dictionary"},
		{"schema type", `{"messages":[` + user + `],"tools":[{"name":"a","input_schema":{"type":"string"}}]}`, "tools", "tools.0.input_schema.type: Input should be 'object'"},
		{"blank system", `{"messages":[` + user + `],"system":"\n"}`, "system", "system: text content blocks must contain non-whitespace text"},
		{"negative limit", `{"messages":[` + user + `],"max_tokens":-1}`, "max-tokens", "max_tokens: Input should be greater than or equal to 1"},
	}
	seen := map[string]bool{}
	for _, tt := range tests {
		seen[strings.Fields(tt.rule)[0]] = true
		t.Run(tt.name, func(t *testing.T) {
			text := tt.request
			if !strings.HasPrefix(text, `{"messages"`) {
				text = `{"messages":[` + text + `]}`
			}
			found := wiretest.Validate(decode(t, text))
			var rules []string
			for _, v := range found {
				rules = append(rules, v.Rule)
			}
			if got := strings.Join(rules, " "); got != tt.rule {
				t.Fatalf("rules = %q, want %q; violations: %v", got, tt.rule, found)
			}
			require.Equal(t, tt.text, found[0].Text)
		})
	}
	for rule := range strings.FieldsSeq("messages first-user role alternation prefill content block-role block-type member text missing-result doubled-result result-order orphan-result id-unique id-pattern id-length name input source thinking thinking-order marks server-tool tools system max-tokens") {
		if !seen[rule] {
			t.Errorf("no request breaks the rule %q first", rule)
		}
	}
}

func TestValidateAccepts(t *testing.T) {
	const user = `{"role":"user","content":"hi"}`
	tests := []struct{ name, request string }{
		{"everything", valid},
		{"one text", `{"messages":[` + user + `]}`},
		{"empty result", `{"messages":[` + user + `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`},
		{"no thinking in the running turn", `{"messages":[` + user + `,{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"a","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`},
		{"thinking after a call and behind a text", `{"messages":[` + user + `,{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"n","input":{}},{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"x"}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]}]}`},
		{"thinking not first in an earlier turn", `{"messages":[` + user + `,{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"a","name":"n","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a"}]},{"role":"assistant","content":"y"},` + user + `]}`},
		{"paused at a call", `{"messages":[` + user + `,{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}]}]}`},
		{"paused after a result", `{"messages":[` + user + `,{"role":"assistant","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}]}]}`},
		{"MCP", `{"messages":[` + user + `,{"role":"assistant","content":[{"type":"mcp_tool_use","id":"mcptoolu_1","name":"n","server_name":"s","input":{}},{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","is_error":false,"content":[]}]},` + user + `]}`},
		{"null members", `{"messages":[{"role":"user","content":[{"type":"text","text":"x","citations":null,"cache_control":null}]}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if found := wiretest.Validate(decode(t, tt.request)); len(found) > 0 {
				t.Errorf("violations: %v", found)
			}
		})
	}
}

// Every small corruption of a valid request is a violation.
func TestValidateMutations(t *testing.T) {
	tests := []struct{ old, new, rule string }{
		{`"role":"user","content":"Look."`, `"role":"assistant","content":"Look."`, "first-user"},
		{`"role":"user","content":"Look."`, `"role":"user","content":""`, "text"},
		{`"role":"user","content":"Look."`, `"role":"user","content":[]`, "content"},
		{`"role":"user","content":"Look."`, `"role":"tool","content":"Look."`, "role"},
		{`"signature":"c2ln"`, `"signature":""`, "thinking"},
		{`"signature":"c2ln"`, `"ext":1`, "member"},
		{`"data":"ZGF0YQ=="`, `"data":""`, "thinking"},
		{`"text":"Reading."`, `"text":" "`, "text"},
		{`"id":"toolu_1"`, `"id":"toolu_2"`, "id-unique"},
		{`"id":"toolu_1"`, `"id":"toolu 1"`, "id-pattern"},
		{`"id":"toolu_1"`, `"id":"toolu_9"`, "missing-result"},
		{`"id":"toolu_3"`, `"id":"toolu_1"`, "id-unique"},
		{`"tool_use_id":"toolu_1"`, `"tool_use_id":"toolu_2"`, "doubled-result"},
		{`"tool_use_id":"toolu_2"`, `"tool_use_id":"toolu_9"`, "orphan-result"},
		{`"tool_use_id":"toolu_3"`, `"tool_use_id":""`, "id-pattern"},
		{`"name":"list-files_2","input"`, `"name":"list.files","input"`, "name"},
		{`"input":{"path":"a.go"}`, `"input":"{\"path\":"`, "input"},
		{`"input":{"path":"a.go"}`, `"input":null`, "input"},
		{`"caller":{"type":"direct"}`, `"caller":"direct"`, "member"},
		{`"text":"package a"`, `"text":"\t"`, "text"},
		{`"media_type":"image/png"`, `"media_type":"image/svg+xml"`, "source"},
		{`"data":"iVBORw0KGgo="`, `"data":"iVBORw0KGgo"`, "source"},
		{`"data":"iVBORw0KGgo="`, `"data":"iVBORw0KG\n"`, "source"},
		{`"data":"JVBERi0="`, `"url":"https://x.example"`, "member"},
		{`"data":"plain"`, `"data":""`, "source"},
		{`"media_type":"text/plain"`, `"media_type":"text/html"`, "source"},
		{`"text":"part"`, `"text":""`, "source"},
		{`"url":"https://example.com/a.png"`, `"url":"file:///a.png"`, "source"},
		{`"file_id":"file_1"`, `"file_id":""`, "source"},
		{`"is_error":true`, `"is_error":true,"status":"x"`, "member"},
		{`"type":"text","text":"And this:"`, `"type":"context","uri":"x","abstract":"And this:"`, "block-type"},
		{`"type":"text","text":"And this:"`, `"type":"thinking","thinking":"And this:","signature":"s"`, "block-role"},
		{`{"type":"text","text":"Go on."`, `{"type":"text","text":"x","cache_control":{"type":"ephemeral"}},{"type":"text","text":"Go on."`, "marks"},
		{`"cache_control":{"type":"ephemeral","ttl":"1h"}`, `"cache_control":{"type":"persistent"}`, "member"},
		{`"id":"srvtoolu_1"`, `"id":"srvtoolu_2"`, "server-tool"},
		{`"type":"web_search_tool_result","tool_use_id":"srvtoolu_1"`, `"type":"unknown_result","tool_use_id":"srvtoolu_0"`, "server-tool"},
		{`"type":"server_tool_use","id":"srvtoolu_1"`, `"type":"server_call","id":"srvtoolu_0"`, "server-tool"},
		{`"source":"s","title":"t","content":[{"type":"text","text":"found"}]},{`, `"source":"s","content":[{"type":"text","text":"found"}]},{`, "block-type"},
		{`"citations":[{"type":"web_search_result_location"}]`, `"citations":"none"`, "member"},
		{`"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_3","content":"package b"}]`, `"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"toolu_3","content":"package b"}]`, "result-order"},
		{`"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_3"`, `"role":"assistant","content":[{"type":"tool_result","tool_use_id":"toolu_3"`, "alternation"},
		{"\n" + `]}`, `,{"role":"assistant","content":"More"}]}`, "prefill"},
		{`"name":"read","input_schema"`, `"name":"","input_schema"`, "name"},
		{`"name":"read","input_schema"`, `"name":"list-files_2","input_schema"`, "tools"},
		{`"system":"Be brief."`, `"system":" "`, "system"},
		{`"max_tokens":100`, `"max_tokens":-100`, "max-tokens"},
	}
	for i, tt := range tests {
		if !strings.Contains(valid, tt.old) {
			t.Fatalf("row %d: %q is not in the request", i, tt.old)
		}
		found := wiretest.Validate(decode(t, strings.Replace(valid, tt.old, tt.new, 1)))
		if !slices.ContainsFunc(found, func(v wiretest.Violation) bool { return v.Rule == tt.rule }) {
			t.Errorf("%q instead of %q: violations %v, want one of rule %q", tt.new, tt.old, found, tt.rule)
		}
	}
}

// Dropping any message, except for removable pairs, or any block that others
// need, is a violation.
func TestValidateMissingMessage(t *testing.T) {
	n := len(decode(t, valid).Messages)
	for i := range n {
		req := decode(t, valid)
		req.Messages = slices.Delete(req.Messages, i, i+1)
		if len(wiretest.Validate(req)) == 0 {
			t.Errorf("message %d missing: no violation", i)
		}
	}
}

func TestValidateNilBlock(t *testing.T) {
	req := transcript.Request{Messages: []transcript.Message{{Role: transcript.RoleUser, Content: []transcript.Block{nil}}}}
	found := wiretest.Validate(req)
	require.Len(t, found, 1)
	require.Equal(t, "block-type", found[0].Rule)
}

func BenchmarkValidate(b *testing.B) {
	var req transcript.Request
	for i := range 250 {
		id := fmt.Sprintf("toolu_%d", i)
		req.Messages = append(req.Messages,
			transcript.UserText(strings.Repeat("words and ", 50)),
			transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.TextBlock{Text: strings.Repeat("words and ", 40)},
				transcript.ToolCallBlock{ID: id, Name: "read", Input: json.RawMessage(`{"path":"a.go"}`)},
			}},
			transcript.ToolResult(id, strings.Repeat("words and ", 50)),
			transcript.AssistantText(strings.Repeat("words and ", 50)))
	}
	req.Messages = append(req.Messages, transcript.UserText("Go on."))
	b.ReportAllocs()
	for b.Loop() {
		if found := wiretest.Validate(req); len(found) > 0 {
			b.Fatal(found)
		}
	}
}
