package anthropic_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

func ExampleFormat() {
	var w anthropic.Format
	body, report, err := w.Request(transcript.Request{
		Model:     "claude-x",
		MaxOutput: 1000,
		Messages: []transcript.Message{
			transcript.UserText("read a.go"),
			// Recorded from a provider with its own IDs.
			{Role: transcript.RoleAssistant, Content: []transcript.Block{
				transcript.ToolCallBlock{ID: "functions.read:0", Name: "read", Input: json.RawMessage(`{"path":"a.go"}`)},
			}},
			transcript.ToolResult("functions.read:0", "package a"),
		},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(string(body), `{"role"`, "\n"+`{"role"`))
	fmt.Println(report[0])

	var sent transcript.Request
	if err := json.Unmarshal(body, &sent); err != nil {
		panic(err)
	}
	fmt.Println(len(wiretest.Validate(sent)), "violations")
	// Output:
	// {"model":"claude-x","max_tokens":1000,"messages":[
	// {"role":"user","content":"read a.go"},
	// {"role":"assistant","content":[{"type":"tool_use","id":"toolu_0e8d46961f9f667cef2b7ff593e78c32","name":"read","input":{"path":"a.go"}}]},
	// {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_0e8d46961f9f667cef2b7ff593e78c32","content":"package a"}]}]}
	// rewritten-id: functions.read:0 became toolu_0e8d46961f9f667cef2b7ff593e78c32
	// 0 violations
}
