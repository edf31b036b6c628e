package openairesponses_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

func ExampleFormat() {
	w := openairesponses.Format{Reasoning: json.RawMessage(`{"effort":"medium"}`)}
	resp, err := w.Response([]byte(`{"id":"resp_1","model":"gpt-x","status":"completed","output":[
		{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"},
		{"id":"fc_1","type":"function_call","call_id":"call_1","name":"read","arguments":"{\"path\":\"a.go\"}"}]}`))
	if err != nil {
		panic(err)
	}
	body, _, err := w.Request(transcript.Request{Model: "gpt-x", Messages: []transcript.Message{
		transcript.UserText("read a.go"), resp.Message, transcript.ToolResult("call_1", "package a"),
	}})
	if err != nil {
		panic(err)
	}
	_, input, _ := strings.Cut(string(body), `"input":[`)
	fmt.Println(strings.ReplaceAll(strings.TrimSuffix(input, "]}"), `},{`, "},\n{"))
	fmt.Println(len(wiretest.Check(wiretest.OpenAIResponses{}, body)), "violations")

	// Another API gets the parts that it can read.
	body, report, err := openaichat.Format{}.Request(transcript.Request{Model: "gpt-x", Messages: []transcript.Message{
		transcript.UserText("read a.go"), resp.Message, transcript.ToolResult("call_1", "package a"),
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(string(body), `{"role"`, "\n"+`{"role"`))
	fmt.Println(report[0])
	// Output:
	// {"type":"message","role":"user","content":"read a.go"},
	// {"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"gAAA"},
	// {"type":"function_call","id":"fc_1","call_id":"call_1","name":"read","arguments":"{\"path\":\"a.go\"}"},
	// {"type":"function_call_output","call_id":"call_1","output":"package a"}
	// 0 violations
	// {"model":"gpt-x","messages":[
	// {"role":"user","content":"read a.go"},
	// {"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"read","arguments":"{\"path\":\"a.go\"}"}}]},
	// {"role":"tool","tool_call_id":"call_1","content":"package a"}]}
	// dropped-thinking: the API does not take it
}
