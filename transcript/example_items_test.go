package transcript_test

import (
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/convolog/convolog/transcript"
)

// An answer of a model, as a client returns it. Appended to a session it is one batch.
func ExampleResponse() {
	answer := transcript.Response{
		Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ThinkingBlock{Thinking: "The user wants a.go.", Signature: "c2lnbmVk"},
			transcript.TextBlock{Text: "Let me look."},
			transcript.ToolCallBlock{ID: "call_1", Name: "read", Input: json.RawMessage(`{"path":"a.go"}`)},
		}},
		Model: "m", StopReason: transcript.StopToolUse,
		Usage: transcript.Usage{Input: 20, CacheRead: 900, Output: 30},
	}
	fmt.Println(answer.Message.Text())
	for _, call := range answer.Message.ToolCalls() {
		fmt.Println(call.Name, string(call.Input))
	}
	fmt.Println(answer.StopReason, answer.Usage.Prompt(), "tokens in the prompt")
	// Output:
	// Let me look.
	// read {"path":"a.go"}
	// tool_use 920 tokens in the prompt
}

// A request is the input of a client. Its JSON has the shape of the Messages API.
func ExampleRequest() {
	text, err := json.Marshal(transcript.Request{
		Model: "m", System: "Be brief.", MaxOutput: 1000,
		Messages: []transcript.Message{transcript.UserText("What is in a.go?")},
		Tools:    []transcript.Tool{{Name: "read", Description: "Read a file.", InputSchema: json.RawMessage(`{"type":"object"}`)}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
	// Output:
	// {"model":"m","system":"Be brief.","messages":[{"role":"user","content":"What is in a.go?"}],"tools":[{"name":"read","description":"Read a file.","input_schema":{"type":"object"}}],"max_tokens":1000}
}

// A message with a time of its own, and with data of the application: no model sees
// either.
func ExampleWithApp() {
	sent := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	item := transcript.At(sent, transcript.WithApp(transcript.UserText("Hello."), json.RawMessage(`{"client":"ios"}`)))
	entries, err := transcript.NewBatch(time.Now(), ids(), item)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", entries[0].Line())
	// Output:
	// {"type":"user","id":"e1","ts":"2026-05-01T12:00:00Z","app":{"client":"ios"},"content":"Hello."}
}
