package tokens

import "github.com/convolog/convolog/transcript"

// A Counter counts the tokens of prompts. It is safe for several goroutines.
type Counter interface {
	// Count returns the size of a prompt in tokens: of a system text, the tools
	// that are described to the model, and the messages. Each of the three may
	// be empty. The result does not depend on what was counted before, and is
	// not less for a prompt with more in it, so that parts can be compared and
	// added.
	Count(system string, tools []transcript.Tool, messages []transcript.Message) int
}

// An Estimator is the default [Counter]. The zero value is ready to use.
//
// Beside their texts it counts, in tokens:
//
//   - 4 for a system text that is not empty, 4 for each message
//   - 3 for each block that is not a text, with the names and IDs it has
//   - 12 for each tool, with its name, description and schema
//   - 1,200 for each image
//   - for a document given as base64 one for every 32 bytes of it and 1,500 at
//     least, which is about a page; for one at a URL or a provider 1,500; for
//     one given as text that text
//   - for encrypted reasoning one for every 4 bytes of its base64
//   - for a block of a type that is not known its JSON
//
// Reasoning counts like text; its signature, and what is in the extras of a
// block, do not count. Sums of parts are not smaller than the whole by more
// than one token a part.
type Estimator struct{}

var _ Counter = Estimator{}

// The fixed costs, in tokens.
const (
	perSystem   = 4
	perMessage  = 4
	perBlock    = 3
	perTool     = 12
	perImage    = 1200
	minDocument = 1500
)

// Count implements [Counter].
func (Estimator) Count(system string, tools []transcript.Tool, messages []transcript.Message) int {
	n := 0
	if system != "" {
		n += perSystem*hundred + weigh(system)
	}
	for i := range tools {
		t := &tools[i]
		n += perTool*hundred + weigh(t.Name) + weigh(t.Description) + weigh(t.InputSchema)
	}
	for i := range messages {
		n += perMessage*hundred + weighBlocks(messages[i].Content)
	}
	return round(n)
}

// Text estimates the tokens of a text on its own.
func (Estimator) Text(s string) int { return round(weigh(s)) }

// round makes tokens of hundredths; what has any weight is a token.
func round(hundredths int) int { return (hundredths + hundred - 1) / hundred }

// weighBlocks returns hundredths of tokens.
func weighBlocks(blocks []transcript.Block) int {
	n := 0
	for _, b := range blocks {
		switch b := b.(type) {
		case transcript.TextBlock:
			n += weigh(b.Text)
			continue
		case transcript.ThinkingBlock:
			n += weigh(b.Thinking)
		case transcript.RedactedThinkingBlock:
			n += len(b.Data) * hundred / 4
		case transcript.ToolCallBlock:
			n += weigh(b.ID) + weigh(b.Name) + weigh(b.Input)
		case transcript.ToolResultBlock:
			n += weigh(b.CallID) + weighBlocks(b.Content)
		case transcript.ImageBlock:
			n += perImage * hundred
		case transcript.DocumentBlock:
			n += weigh(b.Title) + weigh(b.Context) + weighDocument(&b.Source)
		case transcript.ContextBlock:
			n += weigh(b.URI) + weigh(b.Kind) + weigh(b.Abstract)
		case transcript.RawBlock:
			n += weigh(b.JSON)
		}
		n += perBlock * hundred
	}
	return n
}

func weighDocument(s *transcript.Source) int {
	if s.Type == "text" {
		return weigh(s.Data)
	}
	const base64Bytes = 3.0 / 4 // bytes a character of base64 stands for
	return max(minDocument*hundred, int(float64(len(s.Data))*base64Bytes/32*hundred))
}
