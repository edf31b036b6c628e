package guardtest

import (
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// thinking is the member of that name: how the model is to reason.
type thinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens"`
}

// minBudget is the least budget for reasoning, in tokens.
const minBudget = 1024

func (e *envelope) setThinking(value json.RawMessage) *refusal {
	if value == nil {
		return nil
	}
	if isNull(value) || json.Unmarshal(value, &e.thinking) != nil {
		return invalid("thinking: Input should be a valid dictionary")
	}
	switch e.thinking.Type {
	case "enabled", "disabled", "adaptive":
		return nil
	}
	return invalid("thinking: Input tag '%s' found using 'type' does not match any of the expected tags: 'adaptive', 'disabled', 'enabled'", e.thinking.Type)
}

// judgeThinking checks what a request that demands reasoning must have: a
// budget, and in the last answer, if that called tools, reasoning to go on from.
func (e *envelope) judgeThinking() *refusal {
	if e.thinking.Type != "enabled" {
		return nil
	}
	if e.thinking.Budget < minBudget {
		return invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to %d", minBudget)
	}
	if e.request.MaxOutput > 0 && e.request.MaxOutput <= e.thinking.Budget {
		return invalid("`max_tokens` must be greater than `thinking.budget_tokens`.")
	}
	for i, m := range slices.Backward(e.request.Messages) {
		if m.Role != transcript.RoleAssistant {
			continue
		}
		if len(m.ToolCalls()) == 0 {
			return nil
		}
		switch first := m.Content[0].(type) {
		case transcript.ThinkingBlock, transcript.RedactedThinkingBlock:
		default:
			return invalid("messages.%d.content.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block.",
				i, first.BlockType())
		}
		return nil
	}
	return nil
}
