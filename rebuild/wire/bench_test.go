package wire_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// BenchmarkRender renders 1,200 messages, a megabyte of them.
func BenchmarkRender(b *testing.B) {
	req := transcript.Request{Model: model, System: "be good"}
	text := transcript.TextBlock{Text: strings.Repeat("word and word ", 50)}
	for i := range 300 {
		call := transcript.ToolCallBlock{ID: "toolu_" + strconv.Itoa(i), Name: "read", Input: json.RawMessage(`{"path":"/a/b/c"}`)}
		result := transcript.ToolResultBlock{CallID: call.ID, Content: []transcript.Block{transcript.TextBlock{Text: strings.Repeat("line\n", 300)}}}
		for j, content := range [][]transcript.Block{{text}, {text, call}, {result}, {text}} {
			role := []transcript.Role{transcript.RoleUser, transcript.RoleAssistant}[j%2]
			req.Messages = append(req.Messages, transcript.Message{Role: role, Content: content})
		}
	}
	req.Messages = append(req.Messages, transcript.UserText("go on"))
	for name, f := range map[string]interface {
		Request(req transcript.Request) ([]byte, rebuild.Report, error)
	}{
		"anthropic": anthropic.Format{}, "chat": openaichat.Format{}, "responses": openairesponses.Format{}, "gemini": gemini.Format{}, "bedrock": bedrock.Format{},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				body, _, err := f.Request(req)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(body)))
			}
		})
	}
}
