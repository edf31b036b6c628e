package main

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/tiktoken-go/tokenizer"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// An exact is a [tokens.Counter] that counts texts with the vocabulary itself,
// and all else (images, documents, the frame of a message) like the estimator.
// It is the Counter of session.Options, guard.Guard and compact.Options.
//
// It counts some MB a second, a hundred times slower than an estimate: it
// remembers counts, for up to maxKnown bytes of text, so that each message of
// conversations in use is counted once.
type exact struct {
	codec tokenizer.Codec
	rest  tokens.Estimator

	mu    sync.Mutex
	known map[string]int // tokens by text
	bytes int            // of the texts in known
}

// maxKnown is how many bytes of text an exact remembers. Above that it forgets
// all and begins again.
const maxKnown = 16 << 20

var _ tokens.Counter = (*exact)(nil)

// newExact returns a counter for the models of OpenAI since GPT-4o.
func newExact() (*exact, error) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		return nil, fmt.Errorf("vocabulary o200k: %w", err)
	}
	return &exact{codec: codec, rest: tokens.Estimator{Family: tokens.O200k}, known: map[string]int{}}, nil
}

// text counts one text. A text that the codec refuses is estimated.
func (x *exact) text(s string) int {
	if s == "" {
		return 0
	}
	x.mu.Lock()
	n, ok := x.known[s]
	x.mu.Unlock()
	if ok {
		return n
	}
	n, err := x.codec.Count(s)
	if err != nil {
		return x.rest.Text(s)
	}
	x.remember(s, n)
	return n
}

func (x *exact) remember(s string, n int) {
	if len(s) > maxKnown {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, ok := x.known[s]; ok {
		return // two goroutines counted it
	}
	if x.bytes+len(s) > maxKnown {
		clear(x.known)
		x.bytes = 0
	}
	x.known[s] = n
	x.bytes += len(s)
}

// Count implements [tokens.Counter].
func (x *exact) Count(system string, tools []transcript.Tool, messages []transcript.Message) int {
	n := x.text(system)
	if system != "" {
		system = " "
		n--
	}
	bare := make([]transcript.Tool, len(tools))
	for i := range tools {
		n += x.text(tools[i].Name) + x.text(tools[i].Description) + x.text(string(tools[i].InputSchema))
	}
	frames := make([]transcript.Message, len(messages))
	for i := range messages {
		var texts int
		frames[i].Content, texts = x.blocks(messages[i].Content)
		n += texts
	}
	return n + x.rest.Count(system, bare, frames)
}

// blocks returns the blocks without their texts, and the tokens of the texts.
func (x *exact) blocks(blocks []transcript.Block) (bare []transcript.Block, n int) {
	for _, b := range blocks {
		switch b := b.(type) {
		case transcript.TextBlock:
			n += x.text(b.Text)
			bare = append(bare, transcript.TextBlock{})
		case transcript.ThinkingBlock:
			n += x.text(b.Thinking)
			bare = append(bare, transcript.ThinkingBlock{})
		case transcript.ToolCallBlock:
			n += x.text(b.ID) + x.text(b.Name) + x.text(string(b.Input))
			bare = append(bare, transcript.ToolCallBlock{Input: json.RawMessage(nil)})
		case transcript.ToolResultBlock:
			inner, texts := x.blocks(b.Content)
			n += x.text(b.CallID) + texts
			bare = append(bare, transcript.ToolResultBlock{Content: inner})
		default:
			bare = append(bare, b)
		}
	}
	return bare, n
}
