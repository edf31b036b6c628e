package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

// geminiAnswers are bodies of the API, with every kind of part it sends.
var geminiAnswers = map[string]string{
	"text": `{"candidates":[{"content":{"parts":[{"text":"Hello, 世界 \u2028 <&>","thoughtSignature":"c2ln"}],"role":"model"},"finishReason":"STOP","index":0}],
		"usageMetadata":{"promptTokenCount":19,"candidatesTokenCount":5,"totalTokenCount":31,"cachedContentTokenCount":4,"thoughtsTokenCount":7,"promptTokensDetails":[{"modality":"TEXT","tokenCount":19}]},
		"modelVersion":"gemini-3-pro","responseId":"r1"}`,
	"calls": `{"candidates":[{"content":{"parts":[{"text":"Let me see.","thought":true},{"text":"Two calls."},
		{"functionCall":{"name":"read","args":{"path":"a \"b\".go","line":1.0,"é":null},"id":"abc"},"thoughtSignature":"c2lnMQ=="},
		{"functionCall":{"name":"list","args":{}}}],"role":"model"},"finishReason":"STOP"}],"modelVersion":"gemini-3-pro","responseId":"r2"}`,
	"code": `{"candidates":[{"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"print(1)"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"1"}},
		{"text":"It is 1."},{"inlineData":{"mimeType":"image/png","data":"iVBORw0KGgo="}}],"role":"model"},"finishReason":"STOP"}],"modelVersion":"gemini-3-pro","responseId":"r3"}`,
	"signed end": `{"candidates":[{"content":{"parts":[{"functionCall":{"name":"now"}},{"text":"","thoughtSignature":"c2ln"}],"role":"model"},"finishReason":"STOP"}],"modelVersion":"gemini-3-pro"}`,
}

func TestGeminiResponse(t *testing.T) {
	resp, err := gemini.Format{}.Response([]byte(geminiAnswers["text"]))
	require.NoError(t, err)
	u := resp.Usage
	require.Equal(t, "gemini", resp.API)
	require.Equal(t, "gemini-3-pro", resp.Model)
	require.Equal(t, transcript.StopEndTurn, resp.StopReason)
	require.Equal(t, "r1", resp.RequestID)
	require.Equal(t, "Hello, 世界 \u2028 <&>", resp.Message.Text())
	require.Equal(t, 15, u.Input)
	require.Equal(t, 4, u.CacheRead)
	require.Equal(t, 12, u.Output)
	require.Equal(t, 19, u.Prompt())
	require.Equal(t, "31", string(u.Extra["totalTokenCount"]))
	resp, err = gemini.Format{Model: "alias"}.Response([]byte(geminiAnswers["calls"]))
	require.NoError(t, err)
	calls := resp.Message.ToolCalls()
	require.Equal(t, "alias", resp.Model)
	require.Equal(t, transcript.StopToolUse, resp.StopReason)
	require.Len(t, calls, 2)
	require.Equal(t, "abc", calls[0].ID)
	require.NotEmpty(t, calls[1].ID)
	require.Equal(t, `{"path":"a \"b\".go","line":1.0,"é":null}`, string(calls[0].Input))
}

// An answer that is recorded and sent again goes out as it came in, signatures
// and IDs on the same parts.
func TestGeminiRoundTrip(t *testing.T) {
	for name, answer := range geminiAnswers {
		t.Run(name, func(t *testing.T) {
			resp, err := gemini.Format{}.Response([]byte(answer))
			require.NoError(t, err)
			var results []transcript.Item
			for _, c := range resp.Message.ToolCalls() {
				results = append(results, transcript.ToolResult(c.ID, "r"))
			}
			if results == nil {
				results = append(results, transcript.UserText("thanks"))
			}
			h := recorded(t, transcript.UserText("go"), resp, results)
			body, report := render(t, gemini.Format{}, transcript.Request{Model: geminiModel, Messages: h.Messages})
			if len(report) > 0 {
				t.Errorf("report: %v", report)
			}
			valid(t, wiretest.Gemini{Model: geminiModel}, body)
			var sent struct {
				Contents []struct{ Parts []map[string]any }
			}
			var came struct {
				Candidates []struct {
					Content struct{ Parts []map[string]any }
				}
			}
			require.NoError(t, json.Unmarshal([]byte(body), &sent))
			require.NoError(t, json.Unmarshal([]byte(answer), &came))
			for _, part := range came.Candidates[0].Content.Parts {
				if call, ok := part["functionCall"].(map[string]any); ok && call["args"] == nil {
					call["args"] = map[string]any{}
				}
			}
			require.Equal(t, fmt.Sprint(came.Candidates[0].Content.Parts), fmt.Sprint(sent.Contents[1].Parts))
			if name == "calls" && !strings.Contains(body, `{"functionResponse":{"id":"abc","name":"read"`) {
				t.Errorf("the response has not the ID of its call: %s", body)
			}

			if name == "calls" {
				body, _ = render(t, gemini.Format{}, transcript.Request{Model: "publishers/google/models/" + geminiModel, Messages: h.Messages})
				require.Contains(t, body, `"thoughtSignature":"c2lnMQ=="`)
			}

			// Another model gets only the code, another provider its text.
			for _, model := range []string{"gemini-4-pro", "gemini-2.5-pro"} {
				body, _ = render(t, gemini.Format{}, transcript.Request{Model: model, Messages: h.Messages})
				valid(t, wiretest.Gemini{Model: model}, body)
				if strings.Contains(body, "c2ln") || strings.Contains(body, "Let me see.") || strings.Contains(body, `"executableCode":{`) != (name == "code") {
					t.Errorf("%s is given what is another model's: %s", model, body)
				}
			}
			claude, _ := render(t, anthropic.Format{}, transcript.Request{Model: model, Messages: h.Messages})
			if found := wiretest.Validate(decode(t, claude)); len(found) > 0 || strings.Contains(claude, "c2ln") || strings.Contains(claude, "code: print(1)") != (name == "code") {
				t.Errorf("violations: %v in %s", found, claude)
			}
		})
	}
}
