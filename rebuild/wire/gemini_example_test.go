package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// switched is a conversation that another provider's model has begun.
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

func ExampleGemini() {
	req := switched()
	body, report, err := wire.Gemini{}.Request(req)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(string(body), `{"role"`, "\n"+`{"role"`))
	fmt.Println(report[0])
	fmt.Println(len(wire.Gemini{Model: req.Model}.Validate(body)), "violations")
	// Output:
	// {"contents":[
	// {"role":"user","parts":[{"text":"read a.go"}]},
	// {"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"a.go"}},"thoughtSignature":"skip_thought_signature_validator"}]},
	// {"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"package a"}}}]}]}
	// dropped-thinking: of another model
	// 0 violations
}

func ExampleBedrock() {
	req := switched()
	body, report, err := wire.Bedrock{}.Request(req)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(string(body), `{"role"`, "\n"+`{"role"`))
	fmt.Println(report)
	fmt.Println(len(wire.Bedrock{}.Validate(body)), "violations")
	// Output:
	// {"toolConfig":{"tools":[{"toolSpec":{"name":"read","inputSchema":{"json":{"type":"object"}}}}]},"messages":[
	// {"role":"user","content":[{"text":"read a.go"}]},
	// {"role":"assistant","content":[{"toolUse":{"toolUseId":"toolu_1","name":"read","input":{"path":"a.go"}}}]},
	// {"role":"user","content":[{"toolResult":{"toolUseId":"toolu_1","content":[{"text":"package a"}]}}]}]}
	// [dropped-thinking: of another model added-tools: 1 that the messages call]
	// 0 violations
}
