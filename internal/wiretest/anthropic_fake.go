package wiretest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// Whole returns an answer without streaming.
func (Anthropic) Whole(a Message) []byte {
	var content [][]byte
	for _, b := range a.Content {
		content = append(content, transcript.MarshalBlock(b))
	}
	return a.object(bytes.Join(content, []byte(",")), encode(a.Stop), a.Usage)
}

// object puts a message together. It does not encode the content again: it
// keeps its spelling.
func (a Message) object(content, stop []byte, usage transcript.Usage) []byte {
	return fmt.Appendf(nil, `{"model":%s,"id":"msg_%06d","type":"message","role":"assistant","content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":%s}`,
		encode(a.Model), a.ID, content, stop, encode(usage))
}

// Events returns an answer as a stream.
func (Anthropic) Events(a Message) (events []Event) {
	add := func(name, format string, args ...any) {
		data := fmt.Appendf(nil, `{"type":%q`, name)
		data = fmt.Appendf(data, format, args...)
		events = append(events, Event{Data: sse(name, append(data, '}'))})
	}
	begun := a.Usage
	begun.Output = min(1, begun.Output)
	add("message_start", `,"message":%s`, a.object(nil, []byte("null"), begun))
	for i, b := range a.Content {
		start, deltas := pieces(b)
		add("content_block_start", `,"index":%d,"content_block":%s`, i, transcript.MarshalBlock(start))
		if i == 0 {
			add("ping", "")
		}
		for _, d := range deltas {
			add("content_block_delta", `,"index":%d,"delta":{"type":%q,%q:%s}`, i, d.kind, d.member, encode(d.text))
			events[len(events)-1].Input = d.kind == kindInput
		}
		add("content_block_stop", `,"index":%d`, i)
	}
	add("message_delta", `,"delta":{"stop_reason":%s,"stop_sequence":null},"usage":%s`, encode(a.Stop), encode(a.Usage))
	add("message_stop", "")
	return events
}

// A delta is a part of a block.
type delta struct{ kind, member, text string }

const kindInput = "input_json_delta"

// pieces splits a block into a first part and additions.
func pieces(b transcript.Block) (start transcript.Block, deltas []delta) {
	add := func(kind, member, text string) {
		for _, p := range split(text) {
			deltas = append(deltas, delta{kind, member, p})
		}
	}
	switch b := b.(type) {
	case transcript.TextBlock:
		add("text_delta", "text", b.Text)
		b.Text = ""
		return b, deltas
	case transcript.ThinkingBlock:
		add("thinking_delta", "thinking", b.Thinking)
		if b.Signature != "" {
			deltas = append(deltas, delta{"signature_delta", "signature", b.Signature})
		}
		b.Thinking, b.Signature = "", ""
		return b, deltas
	case transcript.ToolCallBlock:
		if len(b.Input) > 0 {
			deltas = append(deltas, delta{kindInput, "partial_json", ""})
			add(kindInput, "partial_json", string(b.Input))
		}
		b.Input = json.RawMessage("{}")
		return b, deltas
	}
	return b, nil
}

// split cuts a text at spaces into pieces of some 16 bytes or more.
func split(text string) (pieces []string) {
	const size = 16
	var sb strings.Builder
	for word := range strings.SplitAfterSeq(text, " ") {
		sb.WriteString(word)
		if sb.Len() >= size {
			pieces = append(pieces, sb.String())
			sb.Reset()
		}
	}
	if sb.Len() > 0 {
		pieces = append(pieces, sb.String())
	}
	return pieces
}
