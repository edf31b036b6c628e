package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

const geminiModel = "gemini-3-pro"

// everyBlock is a conversation that began with another provider and contains
// everything that a target may refuse.
func everyBlock(t testing.TB) []transcript.Message {
	claude := transcript.Origin{Entry: "a1", API: "anthropic", Model: "claude-x"}
	return []transcript.Message{
		message(t, `{"role":"user","content":[{"type":"text","text":"look","cache_control":{"type":"ephemeral"}},{"type":"context","uri":"u","context_type":"memory","abstract":"likes Go"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}},{"type":"image","source":{"type":"url","url":"https://x.example/a.jpg"}},{"type":"image","source":{"type":"base64","media_type":"image/gif","data":"R0lGODlh"}},{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"},"title":"my.report  v2.pdf"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain"}},{"type":"audio"}]}`, transcript.Origin{Entry: "u1"}),
		message(t, `{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"redacted_thinking","data":"d"},{"type":"text","text":"Two."},{"type":"tool_use","id":"a.1","name":"9lives","input":{"n":1.0}},{"type":"tool_use","id":"a.2","name":"read","input":{}}]}`, claude),
		message(t, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"a.1","content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]},{"type":"tool_result","tool_use_id":"a.2","is_error":true,"content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]},{"type":"text","text":"hurry"}]}`, transcript.Origin{Entry: "u2"}),
	}
}

func TestGeminiRequest(t *testing.T) {
	req := transcript.Request{
		Model: geminiModel, System: "be <brief>", MaxOutput: 100, Messages: everyBlock(t),
		Tools: []transcript.Tool{{Name: "9lives", Description: "d", InputSchema: json.RawMessage(`{"type":"object","b":1.0}`)}, {Name: "read"}},
	}
	g := gemini.Format{Thinking: json.RawMessage(`{"includeThoughts":true}`), Params: map[string]json.RawMessage{
		"generationConfig": json.RawMessage(`{"temperature":1}`), "toolConfig": json.RawMessage(`{"functionCallingConfig":{"mode":"AUTO"}}`),
	}}
	body, report := render(t, g, req)
	const want = `{"generationConfig":{"temperature":1,"maxOutputTokens":100,"thinkingConfig":{"includeThoughts":true}},"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},"systemInstruction":{"parts":[{"text":"be <brief>"}]},"tools":[{"functionDeclarations":[{"name":"_9lives","description":"d","parametersJsonSchema":{"type":"object","b":1.0}},{"name":"read"}]}],"contents":[
{"role":"user","parts":[{"text":"look"},{"text":"[memory u]\n  likes Go"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}},{"fileData":{"mimeType":"image/jpeg","fileUri":"https://x.example/a.jpg"}},{"text":"[image left out: unsupported media type]"},{"text":"[document my.report  v2.pdf]"},{"inlineData":{"mimeType":"application/pdf","data":"JVBERi0x"}},{"inlineData":{"mimeType":"text/plain","data":"cGxhaW4="}},{"text":"[audio left out]"}]},
{"role":"model","parts":[{"text":"Two."},{"functionCall":{"name":"_9lives","args":{"n":1.0}},"thoughtSignature":"skip_thought_signature_validator"},{"functionCall":{"name":"read","args":{}}}]},
{"role":"user","parts":[{"functionResponse":{"name":"_9lives","response":{"output":"one\ntwo"}}},{"functionResponse":{"name":"read","response":{"error":""},"parts":[{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}}]},
{"role":"user","parts":[{"text":"hurry"}]}]}`
	require.Equal(t, want, strings.ReplaceAll(body, `{"role":`, "\n"+`{"role":`))
	valid(t, wiretest.Gemini{Model: geminiModel}, body)
	const rulesWant = "dropped-member replaced-block replaced-block replaced-block replaced-block dropped-thinking dropped-thinking bad-name bad-name"
	if got := rules(report); got != rulesWant {
		t.Errorf("report = %s, want %s\n%v", got, rulesWant, report)
	}
	// A model that signs no calls gets no signatures.
	req.Model = "gemini-2.5-flash"
	if body, _ = render(t, g, req); strings.Contains(body, "thoughtSignature") {
		t.Errorf("a signature for an older model: %s", body)
	}
}

// Values that JSON cannot express, and documents of parts.
func TestOddBlocks(t *testing.T) {
	content := func(text string) transcript.Block {
		return transcript.DocumentBlock{Title: "T", Context: "c", Source: transcript.Source{Type: "content", Extra: transcript.Extra{"content": json.RawMessage(text)}}}
	}
	req := transcript.Request{Messages: []transcript.Message{
		{Role: transcript.RoleUser, Content: []transcript.Block{
			nil,
			transcript.RawBlock{},
			transcript.RawBlock{JSON: json.RawMessage("{")},
			transcript.RawBlock{JSON: json.RawMessage(`{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"found"}]}`)},
			transcript.TextBlock{Text: "a\xffb"},
			transcript.ThinkingBlock{Thinking: "x"},
			transcript.ImageBlock{Source: transcript.Source{Type: "file", FileID: "f"}},
			content(`"one text"`),
			content(`[{"type":"text","text":"a text"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]`),
		}},
		{Role: transcript.RoleAssistant, Content: []transcript.Block{
			nil, transcript.RawBlock{}, transcript.ImageBlock{}, transcript.ContextBlock{URI: "u"}, transcript.ToolCallBlock{ID: "a", Name: "f"},
		}, Origins: []transcript.Origin{{}}},
		{Role: transcript.RoleUser, Content: []transcript.Block{
			transcript.ToolResultBlock{CallID: "a", IsError: true, Content: []transcript.Block{nil, transcript.ToolResultBlock{}}},
		}},
		{Role: transcript.RoleUser},
	}}
	body, _ := render(t, gemini.Format{}, req)
	valid(t, wiretest.Gemini{Model: geminiModel}, body)
	const want = `{"text":"[document T]\n  c"},{"text":"one text"},{"text":"[document T]\n  c"},{"text":"a text"},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}]}`
	require.Contains(t, body, want)
	require.Contains(t, body, `{"text":"[search_result]\nsource: s\ntitle: t\ntext: found"}`)
	body, _ = render(t, bedrock.Format{}, req)
	valid(t, wiretest.Bedrock{Model: bedrockModel}, body)
	require.Contains(t, body, `{"text":"[document T]\n  c"},{"text":"one text"},{"text":"[document T]\n  c"},{"text":"a text"},{"text":"[image left out: in a document]"}]}`)
}

// The signature of Gemini's own text does not cover a call of another model.
func TestGeminiForeignCall(t *testing.T) {
	m := message(t, `{"role":"assistant","content":[{"type":"text","text":"ok","ext":{"thoughtSignature":"c2ln"}},{"type":"tool_use","id":"a","name":"n","input":{}}]}`,
		transcript.Origin{API: "gemini", Model: geminiModel})
	for _, foreign := range []bool{false, true} {
		if foreign {
			m.Origins[1] = transcript.Origin{API: "anthropic", Model: model}
		}
		body, _ := render(t, gemini.Format{}, transcript.Request{Model: geminiModel, Messages: []transcript.Message{transcript.UserText("go"), m, transcript.ToolResult("a", "r")}})
		if strings.Contains(body, "skip_thought_signature_validator") != foreign {
			t.Errorf("foreign %v: %s", foreign, body)
		}
	}
}
