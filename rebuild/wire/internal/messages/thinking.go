package messages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// runningTurn returns the index of the user message that started the running
// turn: the last one after an answer without calls. It is -1 if there is no
// user message.
func runningTurn(messages []transcript.Message) int {
	start, calls := -1, false
	for i, m := range messages {
		switch m.Role {
		case transcript.RoleAssistant:
			calls = format.HasCalls(m.Content)
		case transcript.RoleUser:
			if !calls {
				start = i
			}
		}
	}
	return start
}

// Ask returns the request's member "thinking" with a budget below the output
// limit, if there is a limit, and notes its type.
func (r *Renderer) Ask(thinking json.RawMessage, limit int) json.RawMessage {
	const name, least = "budget_tokens", 1024
	r.thinking = js.String(thinking, "type")
	n, ok := jsontext.Int(js.Get(thinking, name))
	if r.thinking != "enabled" || limit == 0 || !ok || n < int64(limit) {
		return thinking
	}
	budget := limit * 3 / 4
	if budget < least {
		r.Note("thinking-off", "", fmt.Sprintf("an output limit of %d tokens leaves no room for it", limit))
		r.thinking = ""
		return nil
	}
	r.Note("thinking-less", "", fmt.Sprintf("a budget of %d tokens, as the output limit is %d", budget, limit))
	asked := js.MembersOf(thinking)
	asked.Set(name, strconv.AppendInt(nil, int64(budget), 10))
	return asked.Object()
}

// Asked returns the member for the rendered messages.
func (r *Renderer) Asked(thinking json.RawMessage) json.RawMessage {
	if r.thinking != "enabled" || r.reasons {
		return thinking
	}
	r.Note("thinking-off", "", "the answer that the last results belong to has no reasoning to go on from")
	return nil
}

// fitThinking leaves out the reasoning that answer i cannot have. Signed
// reasoning must be neither changed nor moved, so nothing else is possible.
func (r *Renderer) fitThinking(i int, content []transcript.Block, origins []transcript.Origin) []transcript.Block {
	if !slices.ContainsFunc(content, transcript.IsReasoning) {
		return content
	}
	end := len(content)
	for end > 0 && transcript.IsReasoning(content[end-1]) {
		end--
	}
	out := make([]transcript.Block, 0, len(content))
	for j, b := range content {
		if transcript.IsReasoning(b) {
			why := r.unfit(i, content, b, origins[j])
			if j >= end && !neutral.Imitates(origins[j]) {
				why = cmp.Or(why, "the end of the answer")
			}
			if r.API == format.APIBedrock && format.HasCalls(out) {
				why = cmp.Or(why, "behind a call")
			}
			if why != "" {
				r.Note("dropped-thinking", origins[j].Entry, why)
				continue
			}
		}
		out = append(out, b)
	}
	return out
}

// unfit returns the reason why a block of reasoning in answer i is left out, or
// "". For answers with a recorded request [rebuild.Reasoned] has chosen, for
// every model: models that cannot read reasoning ignore it. Other reasoning goes
// back within the running turn, to the model that made it, unless that model
// checks its prefix.
func (r *Renderer) unfit(i int, content []transcript.Block, b transcript.Block, o transcript.Origin) string {
	// An answer without calls may end the request; there the API takes reasoning
	// only if thinking is on, or if the API paused the answer.
	wanted := r.thinking != "" && r.thinking != "disabled" || format.HasCalls(content) || isServerTool(content[len(content)-1])
	switch {
	case r.API == format.APIAnthropic && r.Native(o) && (neutral.Imitates(o) || !r.Req.Takes.Has(transcript.Signatures)):
		return "" // as it came, signed or not
	case !isWhole(b):
		return "without its text or signature"
	case o.Answer != nil && o.API == r.API:
		if r.thinking == "disabled" {
			return "thinking is off"
		}
	case i < r.turn || r.turn < 0:
		return "of an earlier turn"
	case !r.Native(o):
		return "of another model"
	case !wanted:
		return "thinking is off"
	case o != format.Vouched && checksPrefix(r.Req.Model):
		return "the answer does not say what it was made from"
	}
	return ""
}

// checksPrefix reports whether a model refuses reasoning after a changed prefix, if only
// for some accounts: Claude since Fable 5.1 and Opus, Sonnet and Haiku 5.5, and newer
// ones. Names are as in [transcript.Request]: of the Messages API
// "claude-opus-5-5-20260901", of Bedrock also "us.anthropic.claude-opus-5-5-v1:0", of
// Vertex "claude-opus-5-5@20260901".
func checksPrefix(model string) bool {
	_, version := claudeVersion(model)
	return version > 500
}

// claudeVersion returns the line of a model of Claude and its version, "opus" and
// 408 for Opus 4.8; nothing for other names and for those before Claude 4.
func claudeVersion(model string) (line string, version int) {
	model, _ = format.CutDate(model)
	_, name, isClaude := strings.Cut(model, "claude-")
	parts := strings.Split(name, "-")
	if !isClaude || len(parts) < 2 {
		return "", 0
	}
	generation, err := strconv.Atoi(parts[1])
	if err != nil || '0' <= name[0] && name[0] <= '9' { // claude-3-7-sonnet and older
		return "", 0
	}
	minor := 0
	if len(parts) > 2 && len(parts[2]) < 3 { // not a date
		minor, _ = strconv.Atoi(parts[2])
	}
	return parts[0], generation*100 + minor
}

// isWhole reports whether reasoning can go back at all: the API refuses it
// without its signature. Its text may be empty: newer models hide it and want
// the signed block back as it was.
func isWhole(b transcript.Block) bool {
	switch b := b.(type) {
	case transcript.ThinkingBlock:
		return b.Signature != ""
	case transcript.RedactedThinkingBlock:
		return b.Data != ""
	}
	return true
}
