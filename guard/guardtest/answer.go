package guardtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/transcript"
)

// An Answer is the answer of a model to a request. The zero value is an answer without
// content, which real models sometimes send. Answers are not checked, so that
// impossible ones can be tested.
type Answer struct {
	// Text is the first block, unless it is empty.
	Text string
	// Calls follow Text. An empty ID becomes one that is not in the request, and an
	// empty Input becomes {}.
	Calls []transcript.ToolCallBlock
	// Blocks, if not nil, are sent as they are instead of Text and Calls.
	Blocks []transcript.Block
	// Stop is the stop reason. Empty: tool_use if there are calls, else end_turn. If a
	// limit cuts the answer, the stop reason of that limit replaces Stop.
	Stop transcript.StopReason
	// Usage is the reported usage. Nil: the counted tokens.
	Usage *transcript.Usage

	fault fault
}

// Say returns an answer of one text.
func Say(text string) Answer { return Answer{Text: text} }

// Call returns an answer that calls tools.
func Call(calls ...transcript.ToolCallBlock) Answer { return Answer{Calls: calls} }

// Tool returns a call without an ID, for [Call]. The input is JSON, or broken on
// purpose. Broken input is sent unchanged over a stream, else as a JSON string.
func Tool(name, input string) transcript.ToolCallBlock {
	return transcript.ToolCallBlock{Name: name, Input: json.RawMessage(input)}
}

func (a Answer) content(req Request) []transcript.Block {
	if a.Blocks != nil {
		return a.Blocks
	}
	var content []transcript.Block
	if a.Text != "" {
		content = append(content, transcript.TextBlock{Text: a.Text})
	}
	if len(a.Calls) == 0 {
		return content
	}
	used := map[string]bool{}
	for _, m := range req.Messages {
		for _, c := range m.ToolCalls() {
			used[c.ID] = true
		}
	}
	for i, c := range a.Calls {
		if c.ID == "" {
			for k := i; c.ID == "" || used[c.ID]; k++ {
				c.ID = fmt.Sprintf("toolu_%d_%d_%d", req.N, len(req.Messages), k)
			}
			used[c.ID] = true
		}
		if len(c.Input) == 0 {
			c.Input = json.RawMessage("{}")
		}
		content = append(content, c)
	}
	return content
}

// message turns an answer into a message, cut to the limits and counted.
func (m *Model) message(req Request, a Answer) wiretest.Message {
	content := m.sign(req.Request, a.content(req))
	stop := a.Stop
	if stop == "" {
		stop = transcript.StopEndTurn
		if len(transcript.Message{Content: content}.ToolCalls()) > 0 {
			stop = transcript.StopToolUse
		}
	}
	limit, limitStop := cmp.Or(req.MaxOutput, math.MaxInt), transcript.StopMaxTokens // OpenAI does not require a limit
	if room := m.Window - req.Tokens; m.Window > 0 && room < limit {
		limit, limitStop = room, transcript.StopContextWindow
	}
	if m.outputTokens(content) > limit {
		content, stop = m.cut(content, limit), limitStop
	}
	usage := a.Usage
	if usage == nil {
		read, write := m.cached(req)
		usage = &transcript.Usage{Input: max(0, req.Tokens-read-write), CacheRead: read, CacheWrite: write, Output: m.outputTokens(content)}
	}
	return wiretest.Message{Model: cmp.Or(m.Name, req.Model), Content: content, Stop: stop, Usage: *usage}
}
