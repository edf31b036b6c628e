package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/transcript"
)

const bedrockModel = "anthropic.claude-x-v1:0"

func TestBedrockRequest(t *testing.T) {
	req := transcript.Request{Model: bedrockModel, System: "be <brief>", MaxOutput: 4000, Messages: everyBlock(t)}
	b := bedrock.Format{Thinking: json.RawMessage(`{"type":"adaptive"}`), Params: map[string]json.RawMessage{
		"inferenceConfig": json.RawMessage(`{"temperature":1}`), "requestMetadata": json.RawMessage(`{"a":"b"}`),
	}}
	body, report := render(t, b, req)
	const head = `{"requestMetadata":{"a":"b"},"additionalModelRequestFields":{"thinking":{"type":"adaptive"}},"inferenceConfig":{"temperature":1,"maxTokens":4000},"system":[{"text":"be <brief>"}],"toolConfig":{"tools":[{"toolSpec":{"name":"9lives","inputSchema":{"json":{"type":"object"}}}},{"toolSpec":{"name":"read","inputSchema":{"json":{"type":"object"}}}}]},"messages":[
`
	const want = head + `{"role":"user","content":[{"text":"look"},{"text":"[memory u]\n  likes Go"},{"image":{"format":"png","source":{"bytes":"iVBORw0KGgo="}}},{"text":"[image left out: not an https URL]"},{"image":{"format":"gif","source":{"bytes":"R0lGODlh"}}},{"document":{"format":"pdf","name":"my-report v2-pdf","source":{"bytes":"JVBERi0x"}}},{"document":{"format":"txt","name":"document","source":{"bytes":"cGxhaW4="}}},{"text":"[audio left out]"}]},
{"role":"assistant","content":[{"text":"Two."},{"toolUse":{"toolUseId":"ID1","name":"9lives","input":{"n":1.0}}},{"toolUse":{"toolUseId":"ID2","name":"read","input":{}}}]},
{"role":"user","content":[{"toolResult":{"toolUseId":"ID1","content":[{"text":"one"},{"text":"two"}]}},{"toolResult":{"toolUseId":"ID2","content":[{"text":"[image left out: in an error]"}],"status":"error"}},{"text":"hurry"}]}]}`
	var sent struct {
		Messages []struct {
			Content []struct{ ToolUse struct{ ToolUseID string } }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &sent))
	got := strings.ReplaceAll(body, `{"role":`, "\n"+`{"role":`)
	for i, name := range []string{"ID1", "ID2"} {
		got = strings.ReplaceAll(got, sent.Messages[1].Content[1+i].ToolUse.ToolUseID, name)
	}
	require.Equal(t, want, got)
	valid(t, wiretest.Bedrock{Model: bedrockModel}, body)
	const rulesWant = "dropped-member replaced-block replaced-block bad-name replaced-block rewritten-id rewritten-id dropped-thinking dropped-thinking replaced-block added-tools"
	if got := rules(report); got != rulesWant {
		t.Errorf("report = %s, want %s\n%v", got, rulesWant, report)
	}

	body, _ = render(t, bedrock.Format{PureResults: true}, req)
	valid(t, wiretest.Bedrock{Model: "meta.llama4"}, body)
	require.True(t, strings.HasSuffix(body, `{"text":"hurry"}],"status":"error"}}]}]}`), body)
}

// Documents get unique names and a text; of too many the last stay.
func TestBedrockDocuments(t *testing.T) {
	var content []transcript.Block
	for range 7 {
		content = append(content, transcript.DocumentBlock{Title: "a.b\u3000c", Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: "JVBERi0x"}})
	}
	for range 22 {
		content = append(content, transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "iVBORw0KGgo="}})
	}
	body, report := render(t, bedrock.Format{}, transcript.Request{Messages: []transcript.Message{
		{Role: transcript.RoleUser, Content: content[5:6]},
		{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.TextBlock{Text: "ok"}}},
		{Role: transcript.RoleUser, Content: content},
	}})
	valid(t, wiretest.Bedrock{Model: bedrockModel}, body)
	if strings.Count(body, `"document":{`) != 5 || strings.Count(body, `"image":{`) != 20 || !strings.Contains(body, `"name":"a-b-c 5"`) {
		t.Errorf("body %s\nreport %v", body, report)
	}
	body, _ = render(t, bedrock.Format{}, transcript.Request{Messages: []transcript.Message{{Role: transcript.RoleUser, Content: content[:1]}}})
	valid(t, wiretest.Bedrock{Model: bedrockModel}, body)
}

// Thinking is requested only if the request allows it.
func TestBedrockThinking(t *testing.T) {
	enabled := bedrock.Format{Thinking: json.RawMessage(`{"type":"enabled","budget_tokens":2048}`)}
	for limit, want := range map[int]string{0: "2048", 4096: "2048", 2048: "1536", 1000: ""} {
		body, _ := render(t, enabled, transcript.Request{MaxOutput: limit, Messages: []transcript.Message{transcript.UserText("hi")}})
		valid(t, wiretest.Bedrock{Model: bedrockModel}, body)
		if (want == "") != !strings.Contains(body, "thinking") || !strings.Contains(body, want) {
			t.Errorf("limit %d: %s", limit, body)
		}
	}
	body, report := render(t, enabled, transcript.Request{Model: bedrockModel, Messages: everyBlock(t)})
	valid(t, wiretest.Bedrock{Model: bedrockModel}, body)
	require.NotContains(t, body, "budget_tokens")
	require.True(t, reported(report, "thinking-off"))
}
