package wiretest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/convolog/convolog/internal/wiretest"
)

func TestBedrockValidate(t *testing.T) {
	const user = `{"role":"user","content":[{"text":"hi"}]}`
	const call = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"f","input":{}}}]}`
	const result = `{"role":"user","content":[{"toolResult":{"toolUseId":"a","content":[{"text":"x"}]}}]}`
	const tools = `],"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{}}}}]},"promptVariables":[`
	content := func(blocks string) string { return `{"role":"user","content":[` + blocks + `]}` }
	document := func(name string) string {
		return `{"document":{"format":"pdf","name":"` + name + `","source":{"bytes":"JVBERi0x"}}}`
	}
	tests := []struct{ body, want string }{
		{user + "," + call + "," + result + tools, ""},
		{`"`, "json"},
		{``, "messages"},
		{call + "," + result + tools, "first-user"},
		{user + "," + user, "alternation"},
		{user + "," + call + "," + user + tools, "missing-result"},
		{user + "," + call + tools, "missing-result prefill"},
		{user + "," + call + "," + result, "tool-config"},
		{user + `,{"role":"assistant","content":[{"text":"x"}]},` + result + tools, "orphan-result"},
		{content(``), "content"},
		{content(`{"text":" "}`), "text"},
		{content(`{"text":"\udc00"}`), "surrogate"},
		{content(`{"text":"x","type":"text"}`), "member block"},
		{content(`{"reasoningContent":{"reasoningText":{"text":"x"}}}`), "thinking-order block-role thinking"},
		{content(document("a.b") + `,{"text":"x"}`), "document-name"},
		{content(document("a") + "," + document("a") + `,{"text":"x"}`), "document-name"},
		{content(document("a")), "document-text"},
		{content(`{"image":{"format":"tiff","source":{"bytes":"AAAA"}}}`), "media"},
		{user + `,{"role":"assistant","content":[{"toolUse":{"toolUseId":"a b","name":"f.g","input":[]}}]},` + strings.Replace(result, `"a"`, `"a b"`, 1) + tools, "id name input id"},
		{user + "," + call + "," + content(`{"toolResult":{"toolUseId":"a","content":[],"status":"error"}}`) + tools, "error-content"},
		{user + "," + call + "," + content(`{"text":"x"},{"toolResult":{"toolUseId":"a","content":[]}}`) + tools, "result-order"},
		{user + `],"system":[{"text":""}],"promptVariables":[`, "system"},
		{user + `],"inferenceConfig":{"maxTokens":0},"promptVariables":[`, "max-tokens"},
	}
	for _, tt := range tests {
		found := map[string]bool{}
		for _, v := range wiretest.Check(wiretest.Bedrock{}, []byte(`{"messages":[`+tt.body+`]}`)) {
			found[v.Rule] = true
		}
		want := map[string]bool{}
		for rule := range strings.FieldsSeq(tt.want) {
			want[rule] = true
		}
		if fmt.Sprint(found) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", tt.body, found, want)
		}
	}
	if found := wiretest.Check(wiretest.Bedrock{PureResults: true}, []byte(`{"messages":[`+user+","+call+","+strings.Replace(result, "]}}]}", `]}},{"text":"x"}]}`, 1)+tools+`]}`)); len(found) == 0 {
		t.Error("a text beside results is taken")
	}
}
