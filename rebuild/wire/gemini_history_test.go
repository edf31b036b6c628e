package wire_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

// geminiBlocks are blocks of an answer that only this API makes.
var geminiBlocks = strings.Split(strings.TrimSpace(`
{"type":"text","text":"ok","ext":{"thoughtSignature":"c2ln"}}
{"type":"text","text":"ok","ext":{"thoughtSignature":7}}
{"type":"text","text":" ","ext":{"thoughtSignature":"c2ln"}}
{"type":"thinking","thinking":"t","ext":{"thoughtSignature":"c2ln"}}
{"type":"thinking","thinking":"","ext":{"thoughtSignature":"c2ln"}}
{"type":"thinking","thinking":"","ext":"x"}
{"type":"tool_use","id":"z","name":"n","input":{},"ext":{"thoughtSignature":"c2ln","functionCall":{"id":"q"}}}
{"type":"tool_use","id":"y","name":"n","input":{},"ext":{"thoughtSignature":"-","functionCall":7}}
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="},"ext":{"thoughtSignature":"c2ln"}}
{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"c2ln"}}
{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"1"},"text":"x"}}
{"type":"gemini_part","part":{"codeExecutionResult":{}}}
{"type":"gemini_part","part":{"inlineData":{"mimeType":"audio/wav","data":"AAAA"}}}
{"type":"gemini_part","part":{"inlineData":{"mimeType":"odd/wav","data":"AAAA"}}}
{"type":"gemini_part","part":{"inlineData":{"mimeType":"audio/wav","data":"AAAA","odd":1}}}
{"type":"gemini_part","part":{"fileData":{"fileUri":"https://x.example/","fileUri":""}}}
{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"1"},"codeExecutionResult":{}}}
{"type":"gemini_part","part":7}`), "\n")

// randomHistory folds random lines of a model and of a model of the Messages API.
func randomHistory(t testing.TB, rnd *rand.Rand, api, model string, more []string) rebuild.History {
	t.Helper()
	return folded(t, randomLines(rnd, []string{api, "anthropic"}, []string{model}, more))
}

// Appended messages change no byte of the messages before them, except for
// thoughts.
func TestGeminiRandomPrefix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		h := randomHistory(t, rnd, "gemini", geminiModel, geminiBlocks[5:])
		before := ""
		for i, m := range h.Messages {
			if m.Role != transcript.RoleUser || slices.ContainsFunc(h.Messages[:i+1], hasThoughts) {
				continue
			}
			body, _ := render(t, gemini.Format{}, transcript.Request{Model: geminiModel, Messages: h.Messages[:i+1]})
			// The next content may join the user content at the end.
			if !strings.HasPrefix(body, strings.TrimSuffix(before, "]}]}")) {
				t.Fatalf("message %d changed the bytes before it:\n%s\n%s", i, before, body)
			}
			before = body
		}
	}
}

func hasThoughts(m transcript.Message) bool {
	return slices.ContainsFunc(m.Content, func(b transcript.Block) bool { return strings.Contains(transcript.BlockType(b), "thinking") })
}
