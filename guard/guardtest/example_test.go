package guardtest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// A model with a small window answers twice, is overloaded once and refuses
// requests that are too long.
func Example() {
	m := &guardtest.Model{
		Window: 100,
		Answer: guardtest.Script(
			guardtest.Call(guardtest.Tool("read_file", `{"path":"README.md"}`)),
			guardtest.Overloaded(),
			guardtest.Say("It is a library."),
		),
	}
	server := guardtest.NewServer(m)
	defer server.Close()

	ask := func(text string) {
		body, _, err := anthropic.Format{}.Request(transcript.Request{
			Model: "model", MaxOutput: 50, Messages: []transcript.Message{transcript.UserText(text)},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		req, err := http.NewRequest(http.MethodPost, server.URL+"/v1/messages", bytes.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		req.Header.Set("Anthropic-Version", "2023-06-01")
		resp, err := server.Client().Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			fmt.Println(err)
			return
		}
		if resp.StatusCode != http.StatusOK {
			e := wire.NewAPIError(resp.StatusCode, answer)
			fmt.Println(e.Status, e.Type+":", e.Message)
			return
		}
		said, err := anthropic.Format{}.Response(answer)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, call := range said.Message.ToolCalls() {
			fmt.Println(said.StopReason, call.Name, string(call.Input))
		}
		if text := said.Message.Text(); text != "" {
			fmt.Println(said.StopReason, text)
		}
	}
	ask("What is in README.md?")
	ask("What is it?")
	ask("What is it?")
	ask(strings.Repeat("What is it? ", 100))
	fmt.Println(len(m.Invalid()), "invalid,", m.Stats().Overflows, "too long")
	// Output:
	// tool_use read_file {"path":"README.md"}
	// 529 overloaded_error: Overloaded
	// end_turn It is a library.
	// 400 invalid_request_error: prompt is too long: 405 tokens > 100 maximum
	// 0 invalid, 1 too long
}
