package tokens

import (
	"cmp"

	"github.com/convolog/convolog/transcript"
)

// A Counter counts the tokens of prompts. It is safe for several goroutines.
type Counter interface {
	// Count returns the size of a prompt in tokens: of a system text, the tools
	// that are described to the model, and the messages. Each of the three may be
	// empty; an empty prompt has 0. The result does not depend on earlier counts,
	// and never falls when a prompt grows, so parts can be compared and added.
	Count(system string, tools []transcript.Tool, messages []transcript.Message) int
}

// Or returns the counter, or the zero [Estimator] if it is nil.
func Or(c Counter) Counter { return cmp.Or[Counter](c, Estimator{}) }

// An Estimator is the default [Counter]. The zero value is ready to use, and
// values may be compared and copied.
//
// In addition to texts it counts, in tokens:
//
//   - 4 for a system text that is not empty, 4 for each message
//   - 3 for each block that is not a text, plus its names and IDs
//   - 12 for each tool, plus its name, description and schema, and for a Claude
//     with any tools the 346 that Anthropic documents
//   - for each image the number that the family's provider documents for its
//     size, read from the head of its PNG, JPEG, GIF or WebP; else 1,200
//   - for a text given as base64 one for every 3 bytes of it
//   - for another document as base64 one for every 32 bytes of it and at least
//     1,500, about a page; for one at a URL or a provider 1,500; for one given as
//     text, that text
//   - for encrypted reasoning one for every 4 bytes of its base64
//   - for a block of an unknown type its JSON
//
// Reasoning counts like text; its signature, and the extras of a block, do not
// count. A sum over parts is at most one token a part below the whole.
type Estimator struct {
	// Family is the kind of model to count for; [For] finds it by name.
	Family Family
	// Factor multiplies every count; zero means 1. It is a margin, or a reported
	// count divided by the estimate for the same prompt. Of the 290 texts that
	// the weights were fitted to, a count with factor 1.05 is too low for one in
	// six, with 1.1 for one in seventeen and with 1.2 for two in all; for nearly
	// all whole conversations 1.05 is enough.
	Factor float64
}

// For returns an Estimator for a model by its name, which may have a provider before
// it ("us.anthropic.claude-opus-4-1", "openai/gpt-4o"). An empty name gives
// [Default], an unknown one [Cautious].
func For(model string) Estimator { return Estimator{Family: familyOf(model)} }

var _ Counter = Estimator{}

// The fixed costs, in tokens.
const (
	perSystem   = 4
	perMessage  = 4
	perBlock    = 3
	perTool     = 12
	claudeTools = 346
	perImage    = 1200
	minDocument = 1500
)

// Count implements [Counter].
func (e Estimator) Count(system string, tools []transcript.Tool, messages []transcript.Message) int {
	t := e.tally()
	if system != "" {
		t.fixed += perSystem
		t.text(system)
	}
	if len(tools) > 0 {
		t.fixed += t.rule.toolsBeforehand
	}
	for i := range tools {
		tool := &tools[i]
		t.fixed += perTool
		t.text(tool.Name)
		t.text(tool.Description)
		t.json(tool.InputSchema)
	}
	for i := range messages {
		t.fixed += perMessage
		t.blocks(messages[i].Content)
	}
	return t.tokens(e.Factor)
}

// Text estimates the tokens of a text on its own.
func (e Estimator) Text(s string) int {
	t := e.tally()
	t.text(s)
	return t.tokens(e.Factor)
}

func (e Estimator) tally() tally { return tally{rule: e.Family.rule()} }
