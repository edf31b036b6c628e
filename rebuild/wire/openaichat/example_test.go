package openaichat_test

import (
	"fmt"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/transcript"
)

func ExampleFormat() {
	w := openaichat.Format{Stream: true, Dialect: openaichat.DeepSeek}
	ask := transcript.UserText("2+2?")
	body, _, err := w.Request(transcript.Request{Model: "deepseek-v4", Messages: []transcript.Message{ask}})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(body))

	// The service's answer to a POST of the body to /v1/chat/completions.
	answer := strings.NewReader(`data: {"model":"deepseek-v4","choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Easy."}}]}

data: {"choices":[{"index":0,"delta":{"content":"It is "}}]}

data: {"choices":[{"index":0,"delta":{"content":"4."},"finish_reason":"stop"}]}

data: [DONE]

`)
	stream := w.NewStream()
	err = wire.ReadSSE(answer, func(event []byte) error {
		delta, err := stream.Add(event)
		fmt.Print(delta.Text)
		return err
	})
	if err != nil {
		panic(err)
	}
	resp := stream.Response()
	fmt.Printf("\n%s, %s: %q\n", resp.API, resp.StopReason, resp.Message.Text())
	// Output:
	// {"model":"deepseek-v4","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"2+2?"}]}
	// It is 4.
	// openai-chat, end_turn: "It is 4."
}
