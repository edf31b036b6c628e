package guardtest

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/transcript"
)

// A binder hashes the blocks of a conversation in order. Reasoning is bound to the
// system prompt, the tools, all earlier blocks but cache marks, and the reasoning right
// before it.
type binder struct {
	hash []byte // of all earlier blocks except reasoning
	last string // the signature of the last reasoning
}

func newBinder(req transcript.Request) *binder {
	b := &binder{}
	b.add("system", req.System)
	b.add("tools", req.Tools)
	return b
}

func (b *binder) add(kind string, value any) {
	text, _ := json.Marshal([]any{kind, value}) // these types can be marshalled
	b.hash = digest(append(b.hash, text...))
}

func digest(data []byte) []byte {
	sum := sha256.Sum256(data)
	return sum[:]
}

// pass continues after a block.
func (b *binder) pass(role transcript.Role, block transcript.Block) {
	if t, ok := block.(transcript.ThinkingBlock); ok {
		b.last = t.Signature
		return
	}
	members, _ := unmarked(block)
	b.add(string(role), members)
}

// unmarked returns the members of a block without a mark of the cache.
func unmarked(block transcript.Block) (members map[string]any, marked bool) {
	_ = json.Unmarshal(transcript.MarshalBlock(block), &members) // an object
	_, marked = members["cache_control"]
	delete(members, "cache_control")
	return members, marked
}

// A signature has three parts of boundBytes bytes, or bound characters of base64: for
// the earlier blocks, the last reasoning and its own text.
const boundBytes, bound = 9, 12

// signature returns the signature of reasoning in this place.
func (b *binder) signature(text string) string {
	sum := slices.Concat(b.hash[:boundBytes], digest([]byte(b.last))[:boundBytes], digest([]byte(text))[:boundBytes])
	return base64.RawStdEncoding.EncodeToString(sum)
}

// made reports whether reasoning was made in this place. The first reasoning in a
// request may have followed reasoning that the request leaves out.
func (b *binder) made(t transcript.ThinkingBlock, first bool) bool {
	want, got := b.signature(t.Thinking), t.Signature
	if first && len(got) == len(want) {
		got = got[:bound] + want[bound:2*bound] + got[2*bound:]
	}
	return got == want
}

// sign signs the unsigned reasoning of an answer.
func (m *Model) sign(req transcript.Request, content []transcript.Block) []transcript.Block {
	if !m.Bind {
		return content
	}
	b := newBinder(req)
	for _, msg := range req.Messages {
		for _, block := range msg.Content {
			b.pass(msg.Role, block)
		}
	}
	content = slices.Clone(content)
	for i, block := range content {
		if t, ok := block.(transcript.ThinkingBlock); ok && t.Signature == "" {
			t.Signature = b.signature(t.Thinking)
			content[i] = t
		}
		b.pass(transcript.RoleAssistant, content[i])
	}
	return content
}

// checkBinding checks the reasoning of a request.
func (m *Model) checkBinding(form wiretest.Form, req transcript.Request) *wiretest.Refusal {
	if !m.Bind || !form.Signs {
		return nil
	}
	b, first := newBinder(req), true
	for i, msg := range req.Messages {
		for j, block := range msg.Content {
			t, ok := block.(transcript.ThinkingBlock)
			if ok && !b.made(t, first) {
				return wiretest.Invalid("%smessages.%d.content.%d: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "+
					"Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".", form.Says, i, j)
			}
			first = first && !ok
			b.pass(msg.Role, block)
		}
	}
	return nil
}
