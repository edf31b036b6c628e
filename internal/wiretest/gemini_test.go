package wiretest_test

import (
	"strings"
	"testing"

	"github.com/convolog/convolog/internal/wiretest"
)

// The validator finds each error, and names the rule.
func TestGeminiValidate(t *testing.T) {
	const user = `{"role":"user","parts":[{"text":"hi"}]}`
	const call = `{"role":"model","parts":[{"functionCall":{"name":"f","args":{}},"thoughtSignature":"AAAA"}]}`
	const result = `{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}`
	tests := []struct{ body, want string }{
		{user + "," + call + "," + result + "," + user, ""},
		{`"`, "json"},
		{``, "contents"},
		{call + "," + result, "alternation"},
		{`{"role":"model","parts":[{"text":"hi"}]},` + user, "first-user"},
		{user + "," + user, "alternation"},
		{user + "," + call + "," + user, "missing-result"},
		{user + "," + call, "prefill missing-result"},
		{user + "," + result, "orphan-result orphan-result"},
		{user + "," + call + "," + result + "," + result, "orphan-result orphan-result"},
		{user + "," + call + `,{"role":"user","parts":[{"functionResponse":{"name":"g","response":{}}}]}`, "orphan-result"},
		{user + "," + call + `,{"role":"user","parts":[{"functionResponse":{"name":"f","response":"x"}}]}`, "args"},
		{user + "," + strings.Replace(call, `"args"`, `"id":{},"args"`, 1) + "," + strings.Replace(result, `"response"`, `"id":{"a":1},"response"`, 1), "orphan-result"},
		{user + "," + call + `,{"role":"user","parts":[{"functionResponse":{"name":"f","response":{}}},{"text":"x"}]}`, "mixed"},
		{user + `,{"role":"model","parts":[{"functionCall":{"name":"f"}}]},` + result, "signature"},
		{`{"role":"user","parts":[]}`, "parts"},
		{`{"role":"user","parts":[{}]}`, "part"},
		{`{"role":"user","parts":[{"text":""}]}`, "text"},
		{`{"role":"user","parts":[{"text":"x","thought":true}]}`, "part-role"},
		{`{"role":"user","parts":[{"text":"\ud83d"}]}`, "surrogate"},
		{`{"role":"user","parts":[{"text":"x","type":"text"}]}`, "member"},
		{`{"role":"system","parts":[{"text":"x"}]}`, "role"},
		{`{"role":"user","parts":[{"inlineData":{"mimeType":"image/gif","data":"R0lGODlh"}}]}`, "media"},
		{`{"role":"user","parts":[{"inlineData":{"mimeType":"image/png","data":"?"}}]}`, "media"},
		{user + `],"generationConfig":{"maxOutputTokens":0},"labels":[`, "max-tokens"},
		{user + `],"tools":[{"functionDeclarations":[{"name":"a"},{"name":"a"},{"name":"1"}]}],"labels":[`, "tools name"},
		{user + `],"systemInstruction":{"parts":[{"text":" "}]},"labels":[`, "text"},
	}
	for _, tt := range tests {
		var found []string
		for _, v := range wiretest.Check(wiretest.Gemini{}, []byte(`{"contents":[`+tt.body+`]}`)) {
			found = append(found, v.Rule)
		}
		if got := strings.Join(found, " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.body, got, tt.want)
		}
	}
}
