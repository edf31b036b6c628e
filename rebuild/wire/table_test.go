package wire_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/transcript"
)

// blockRows are the rows of the table in the doc of the package: blocks of users,
// and of answers that go back to their maker.
var blockRows = []struct{ name, role, content string }{
	{"text", "user", `{"type":"text","text":"x"}`},
	{"image", "user", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`},
	{"document (PDF)", "user", `{"type":"document","title":"x","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"}}`},
	{"search_result", "user", `{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"found"}]}`},
	{"container_upload", "user", `{"type":"container_upload","file_id":"file_1"}`},
	{"input_audio", "user", `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`},
	{"image in a result", "result", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`},
	{"text of an answer", "assistant", `{"type":"text","text":"x"}`},
	{"image of an answer", "assistant", `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`},
	{"tool_use", "assistant", `{"type":"tool_use","id":"call_1","name":"f","input":{}}`},
	{"thinking, signed", "assistant", `{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"call_1","name":"f","input":{}}`},
	{"thinking, encrypted item", "assistant", `{"type":"thinking","thinking":"hm","ext":{"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"}}},` +
		`{"type":"text","text":"x","ext":{"item":{"id":"msg_1"}}}`},
	{"redacted_thinking", "assistant", `{"type":"redacted_thinking","data":"AAAA"},{"type":"tool_use","id":"call_1","name":"f","input":{}}`},
	{"server_tool_use and its result", "assistant", `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","title":"t"}]},{"type":"text","text":"x"}`},
	{"compaction, with content", "assistant", `{"type":"compaction","content":"x"},{"type":"text","text":"x"}`},
	{"fallback", "assistant", `{"type":"fallback","to":"m"},{"type":"text","text":"x"}`},
	{"compaction, encrypted", "assistant", `{"type":"compaction","id":"cmp_1","encrypted_content":"e"},{"type":"text","text":"x"}`},
	{"bedrock_block, a tool it ran", "assistant", `{"type":"bedrock_block","block":{"toolUse":{"toolUseId":"t","name":"n","type":"server_tool_use","input":{}}}},` +
		`{"type":"bedrock_block","block":{"toolResult":{"toolUseId":"t","type":"r","content":[{"text":"x"}]}}},{"type":"text","text":"x"}`},
	// Each API names another one; Chat Completions names none.
	{
		"of a type not known here", "assistant", `{"type":"new_block","x":1},{"type":"text","text":"x"}
{"type":"new_block"},{"type":"text","text":"x"}
{"type":"web_search_call","id":"ws_1","status":"completed"},{"type":"new_item","id":"n_1"},{"type":"text","text":"x"}
{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"1"}}},{"type":"gemini_part","part":{"newPart":{}}},{"type":"text","text":"x"}
{"type":"bedrock_block","block":{"newBlock":{}}},{"type":"text","text":"x"}`,
	},
}

// blockTable renders each block for each API.
func blockTable(t *testing.T) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "//\t%-31s %-10s %-6s %-10s %-7s %s\n", "", "Anthropic", "Chat", "Responses", "Gemini", "Bedrock")
	for _, row := range blockRows {
		fmt.Fprintf(&sb, "//\t%-31s", row.name)
		for i, s := range speakers {
			content := strings.Split(row.content, "\n")
			if s.name == "anthropic" {
				s.model, s.request = "claude-x", anthropic.Format{Thinking: []byte(`{"type":"adaptive"}`)}.Request
			}
			if s.name == "bedrock" {
				s.model, s.request = "anthropic.claude-x", bedrock.Format{Thinking: []byte(`{"type":"adaptive"}`)}.Request
			}
			own := transcript.Origin{API: s.name, Model: s.model, Entry: "a", Batch: 1}
			width := []int{10, 6, 10, 7, 0}[i]
			fmt.Fprintf(&sb, " %-*s", width, becomes(t, s, row.role, content[min(i, len(content)-1)], own))
		}
		sb.WriteString("\n")
	}
	lines := strings.Split(sb.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// becomes names the rendering of blocks for an API in one word.
func becomes(t *testing.T, s speaker, role, content string, own transcript.Origin) string {
	messages := []transcript.Message{transcript.UserText("go")}
	switch role {
	case "user":
		messages = []transcript.Message{message(t, `{"role":"user","content":[`+content+`]}`, transcript.Origin{})}
	case "result":
		messages = append(messages, message(t, `{"role":"assistant","content":[{"type":"tool_use","id":"call_1","name":"f","input":{}}]}`, own),
			message(t, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_1","content":[`+content+`]}]}`, transcript.Origin{}))
	default:
		answer := message(t, `{"role":"assistant","content":[`+content+`]}`, own)
		messages = append(messages, answer, transcript.UserText("more"))
		if len(answer.ToolCalls()) > 0 {
			messages[2] = transcript.ToolResult("call_1", "r")
		}
	}
	body, report, err := s.request(transcript.Request{Model: s.model, Messages: messages, Tools: nextTools})
	require.NoError(t, err)
	said := "yes"
	for _, r := range report {
		switch r.Rule {
		case "dropped-block", "dropped-thinking":
			said = "-"
		case "replaced-block":
			said = "text"
		case "moved-media":
			said = "moved"
		}
	}
	if said == "text" && strings.Contains(string(body), `"JVBERi0x"`) {
		return "yes" // with a text next to it
	}
	return said
}

// The table in the doc of the package is true.
func TestBlockTable(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	begin, end := strings.Index(string(doc), "//\t        "), strings.Index(string(doc), "//\n// In the table")
	table := blockTable(t)
	if *update {
		require.NoError(t, os.WriteFile("doc.go", []byte(string(doc[:begin])+table+string(doc[end:])), 0o644))
		return
	}
	require.Equal(t, table, string(doc[begin:end]), "go test ./rebuild/wire -run TestBlockTable -update")
}
