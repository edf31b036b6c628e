package wire_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/transcript"
)

// bedrockBlocks are blocks that this API treats in its own way.
var bedrockBlocks = strings.Split(strings.TrimSpace(`
{"type":"bedrock_block","block":{"hologram":1}}
{"type":"redacted_thinking","data":"AAAA"}
{"type":"redacted_thinking","data":"no base64"}
{"type":"document","source":{"type":"base64","media_type":"text/csv","data":"AAAA"},"title":"a  b"}
{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"},"title":"日本"}
{"type":"document","source":{"type":"content","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}]}}
{"type":"document","source":{"type":"text","media_type":"text/plain","data":" "}}
{"type":"text","text":"cited","ext":{"citations":[]}}`), "\n")

// Appended messages change no byte of the messages before them, except for
// reasoning and documents above the limit.
func TestBedrockRandomPrefix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	for range 300 {
		h := randomHistory(t, rnd, "bedrock", bedrockModel, nil)
		before := ""
		for i, m := range h.Messages {
			if m.Role != transcript.RoleUser || slices.ContainsFunc(h.Messages[:i+1], hasThoughts) {
				continue
			}
			body, _ := render(t, bedrock.Format{}, transcript.Request{Model: bedrockModel, Messages: h.Messages[:i+1]})
			_, body, _ = strings.Cut(body, `"messages":`) // the tools before may grow
			if !strings.HasPrefix(body, strings.TrimSuffix(before, "]}]}")) {
				t.Fatalf("message %d changed the bytes before it:\n%s\n%s", i, before, body)
			}
			before = body
		}
	}
}
