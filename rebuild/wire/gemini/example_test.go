package gemini_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire/gemini"
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
	body, report, err := gemini.Format{}.Request(req)
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(string(body), `{"role"`, "\n"+`{"role"`))
	fmt.Println(report[0])
	fmt.Println(len(wiretest.Check(wiretest.Gemini{Model: req.Model}, body)), "violations")
	// Output:
	// {"contents":[
	// {"role":"user","parts":[{"text":"read a.go"}]},
	// {"role":"model","parts":[{"functionCall":{"name":"read","args":{"path":"a.go"}},"thoughtSignature":"skip_thought_signature_validator"}]},
	// {"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"package a"}}}]}]}
	// dropped-thinking: of another model
	// 0 violations
}
