package wire

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// runningTurn returns the index of the user message that started the running
// turn: the last one whose previous answer calls no tools. It is -1 if there is
// no user message.
func runningTurn(messages []transcript.Message) int {
	start, calls := -1, false
	for i, m := range messages {
		switch m.Role {
		case transcript.RoleAssistant:
			calls = hasCalls(m.Content)
		case transcript.RoleUser:
			if !calls {
				start = i
			}
		}
	}
	return start
}

// budget returns the type of the request's member "thinking", and the member
// with a budget that is less than the output limit.
func (r *renderer) budget(thinking json.RawMessage, limit int) (kind string, member json.RawMessage) {
	const name, least = "budget_tokens", 1024
	raw, _ := jsontext.Member(thinking, name)
	if n, ok := jsontext.Int(raw); !ok || n < int64(limit) {
		return "enabled", thinking
	}
	budget := limit * 3 / 4
	if budget < least {
		r.note(rebuild.ThinkingOff, "", fmt.Sprintf("an output limit of %d tokens leaves no room for it", limit))
		return "", nil
	}
	r.note(rebuild.ThinkingLess, "", fmt.Sprintf("a budget of %d tokens, as the output limit is %d", budget, limit))
	o := jsontext.AppendObject(nil)
	for member, value := range jsontext.Members(thinking) {
		if member == name {
			o.Int(member, int64(budget))
		} else {
			o.Value(member, value)
		}
	}
	return "enabled", o.End()
}

func hasCalls(content []transcript.Block) bool {
	return slices.ContainsFunc(content, func(b transcript.Block) bool {
		_, ok := b.(transcript.ToolCallBlock)
		return ok
	})
}

func isThinking(b transcript.Block) bool {
	switch b.(type) {
	case transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		return true
	}
	return false
}

// orderThinking leaves out the reasoning that answer i cannot have. Signed
// reasoning must not be changed and not be moved, so there is nothing else to
// do about it.
func (r *renderer) orderThinking(i int, content []transcript.Block, origins []transcript.Origin) []transcript.Block {
	if !slices.ContainsFunc(content, isThinking) {
		return content
	}
	// Reasoning leads up to calls. An answer without any is the end of the
	// request; there the API takes reasoning only if thinking is on, or if it
	// paused the answer itself.
	wanted := r.thinking != "" && r.thinking != "disabled" || hasCalls(content) || isServerTool(content[len(content)-1])
	keep := make([]bool, len(content))
	called, first, last := false, -1, -1
	drop := func(j int, why string) {
		keep[j] = false
		r.note(rebuild.DroppedThinking, origins[j].Entry, why)
	}
	for j, b := range content {
		_, isCall := b.(transcript.ToolCallBlock)
		called = called || isCall
		keep[j] = true
		if isThinking(b) {
			switch {
			case i < r.turn || r.turn < 0:
				drop(j, "of an earlier turn")
			case !r.native(origins[j]):
				drop(j, "of another model")
			case !isWhole(b):
				drop(j, "without its text or signature")
			case !wanted:
				drop(j, "thinking is off")
			case called:
				drop(j, "after a call")
			}
		}
		if keep[j] {
			if last = j; first < 0 {
				first = j
			}
		}
	}
	if first >= 0 && !isThinking(content[first]) {
		for j, b := range content {
			if keep[j] && isThinking(b) {
				drop(j, "not the start of the answer")
			}
		}
	}
	for ; last >= 0 && isThinking(content[last]); last-- {
		if keep[last] {
			drop(last, "the end of the answer")
		}
	}
	out := make([]transcript.Block, 0, len(content))
	for j, b := range content {
		if keep[j] {
			out = append(out, b)
		}
	}
	return out
}

// isWhole reports whether reasoning can be given back at all: the API refuses
// it without its signature. Its text may be empty: newer models hide it and
// want the signed block back as it was.
func isWhole(b transcript.Block) bool {
	switch b := b.(type) {
	case transcript.ThinkingBlock:
		return b.Signature != ""
	case transcript.RedactedThinkingBlock:
		return b.Data != ""
	}
	return true
}

// startsWithReasoning reports whether the answer that the last message has
// results for begins with reasoning, or calls no tools.
func startsWithReasoning(messages []transcript.Message) bool {
	for _, m := range slices.Backward(messages) {
		if m.Role == transcript.RoleAssistant {
			return !hasCalls(m.Content) || isThinking(m.Content[0])
		}
	}
	return true
}
