package wire_test

import (
	"fmt"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
)

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
