package bedrock_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/transcript"
)

// switched is a conversation that another provider's model began.
func switched() transcript.Request {
	claude := transcript.Origin{API: "anthropic", Model: "claude-x"}
	return transcript.Request{
		Model: "gemini-3-pro",
		Messages: []transcript.Message{
			transcript.UserText("read a.go"),
			{
				Role: transcript.RoleAssistant,
				Content: []transcript.Block{
					transcript.ThinkingBlock{Thinking: "I need the file.", Signature: "c2lnbmF0dXJl"},
					transcript.ToolCallBlock{ID: "toolu_1", Name: "read", Input: json.RawMessage(`{"path":"a.go"}`)},
				},
				Origins: []transcript.Origin{claude, claude},
			},
			transcript.ToolResult("toolu_1", "package a"),
		},
	}
}

func ExampleFormat() {
	req := switched()
	body, report, err := bedrock.Format{}.Request(req)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(string(body), `{"role"`, "\n"+`{"role"`))
	fmt.Println(report)
	fmt.Println(len(wiretest.Check(wiretest.Bedrock{}, body)), "violations")
	// Output:
	// {"toolConfig":{"tools":[{"toolSpec":{"name":"read","inputSchema":{"json":{"type":"object"}}}}]},"messages":[
	// {"role":"user","content":[{"text":"read a.go"}]},
	// {"role":"assistant","content":[{"toolUse":{"toolUseId":"toolu_1","name":"read","input":{"path":"a.go"}}}]},
	// {"role":"user","content":[{"toolResult":{"toolUseId":"toolu_1","content":[{"text":"package a"}]}}]}]}
	// [dropped-thinking: of another model added-tools: 1 that the messages call]
	// 0 violations
}
