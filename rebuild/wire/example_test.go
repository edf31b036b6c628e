package wire_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/rebuild/wire/wiretest"
	"github.com/convolog/convolog/transcript"
)

func ExampleAnthropic() {
	var w anthropic.Format
	body, report, err := w.Request(transcript.Request{
		Model:     "claude-x",
		MaxOutput: 1000,
		Messages: []transcript.Message{
			transcript.UserText("read a.go"),
			// Recorded from a provider with IDs of its own.
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

func ExampleOpenAIResponses() {
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

	// Another API gets what it can know of it.
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

func ExampleBedrock() {
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

func ExampleReadSSE() {
	body := strings.NewReader(`event: message_start
data: {"type":"message_start","message":{"role":"assistant","model":"claude-x","usage":{"input_tokens":9}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello"}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":", wor`)
	stream := anthropic.Format{Stream: true}.NewStream()
	err := wire.ReadSSE(body, func(event []byte) error {
		delta, err := stream.Add(event)
		fmt.Print(delta.Text)
		return err
	})
	fmt.Println()
	fmt.Println("cut:", err != nil)
	resp := stream.Response() // is recorded all the same
	fmt.Printf("%s: %q\n", resp.StopReason, resp.Message.Text())
	// Output:
	// Hello
	// cut: true
	// aborted: "Hello"
}
