package wiretest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
)

// A next request may only add to the one before; cache marks, layout and the order
// of members do not count.
func TestValidateNext(t *testing.T) {
	tests := []struct{ name, prev, next, want string }{
		{"more", `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"content":[{"text":"a","type":"text"},{"type":"text","text":"b"}],"role":"user"}]}`, ""},
		{
			"marks",
			`{"system":"s","messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}`,
			`{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"a"}]}`, "",
		},
		{
			"cache points",
			`{"toolConfig":{"tools":[{"toolSpec":{"name":"f"}}]},"messages":[{"role":"user","content":[{"text":"a"}]}]}`,
			`{"toolConfig":{"tools":[{"toolSpec":{"name":"f"}},{"cachePoint":{"type":"default"}}]},"messages":[{"role":"user","content":[{"text":"a"},{"cachePoint":{"type":"default"}},{"text":"b"}]}]}`, "",
		},
		{"a mark in an input", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"cache_control":1}}]}]}`, `{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":{}}]}]}`, "prefix"},
		{"changed", `{"contents":[{"role":"user","parts":[{"text":"a"}]}]}`, `{"contents":[{"role":"user","parts":[{"text":"b"}]}]}`, "prefix"},
		{"fewer", `{"input":[{"role":"user","content":"a"},{"type":"function_call","call_id":"c"}]}`, `{"input":[{"role":"user","content":"a"}]}`, "prefix"},
		{"in front", `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"user","content":"x"},{"role":"user","content":"a"}]}`, "prefix"},
		{"role", `{"messages":[{"role":"user","content":"a"}]}`, `{"messages":[{"role":"assistant","content":"a"}]}`, "prefix"},
		{"call", `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}]}`, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"b"}]}]}`, "prefix"},
		{"system", `{"systemInstruction":{"parts":[{"text":"a"}]}}`, `{"systemInstruction":{"parts":[{"text":"b"}]}}`, "system"},
		{"tools", `{"tools":[{"name":"a"}]}`, `{"tools":[{"name":"a"},{"name":"b"}]}`, "tools"},
		{"numbers", `{"input":[{"type":"x","n":12345678901234567890}]}`, `{"input":[{"type":"x","n":12345678901234567891}]}`, "prefix"},
		{"not JSON", `{`, `{}`, "json"},
	}
	for _, tt := range tests {
		var rules []string
		for _, v := range wiretest.ValidateNext([]byte(tt.prev), []byte(tt.next)) {
			rules = append(rules, v.Rule)
		}
		require.Equal(t, tt.want, strings.Join(rules, " "), tt.name)
	}
}
