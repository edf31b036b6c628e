package rebuild

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/transcript"
)

// PromptHash returns the hash of the system prompt and tools of a request, for
// [transcript.Made]. It ignores cache marks, and a prompt or a tool in the Params of a
// format. After a change of prompt or tools a provider may refuse the reasoning so far;
// Do of package guard then leaves it out.
func PromptHash(system string, tools []transcript.Tool) string {
	type tool struct {
		Name, Description    string
		Schema               json.RawMessage
		Strict, DeferLoading bool            `json:",omitempty"`
		AllowedCallers       []string        `json:",omitempty"`
		InputExamples        json.RawMessage `json:",omitempty"`
	}
	list := make([]tool, len(tools))
	for i, t := range tools {
		list[i] = tool{t.Name, t.Description, compact(t.InputSchema), t.Strict, t.DeferLoading, t.AllowedCallers, compact(t.InputExamples)}
		for _, value := range []*json.RawMessage{&list[i].Schema, &list[i].InputExamples} {
			if !json.Valid(*value) {
				*value = nil
			}
		}
	}
	text, _ := json.Marshal([]any{system, list}) // never fails
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// Reasoned returns messages of a [History] as a request with the given [PromptHash] can
// hold them. It also returns the entry ID of the first answer whose reasoning is
// included, for [transcript.Made]; the ID may be empty.
//
// Providers that sign reasoning accept it only where it was made: after the same
// prompt, messages and reasoning. Among the answers that recorded their request,
// reasoning therefore stays in the last ones for which three things hold: the answer is
// [transcript.Answer.Intact], its prompt hash is the given one, and it was made with
// the reasoning of all earlier answers that keep theirs. The other answers lose their
// reasoning. The renderer handles all remaining reasoning: of answers without a
// recorded request, of APIs that sign nothing, and of models that imitate Claude.
//
// Applied to its own result, Reasoned returns the same messages. It does not modify the
// given messages.
func Reasoned(messages []transcript.Message, promptHash string) (out []transcript.Message, thought string) {
	keep := map[*transcript.Answer]bool{}
	var answers []*transcript.Answer         // answers whose reasoning, if any, is signed
	place := map[string]int{}                // indexes in answers, by entry
	reasons := map[*transcript.Answer]bool{} // answers with reasoning
	for _, m := range messages {
		for j, b := range m.Content {
			if j >= len(m.Origins) || m.Origins[j].Answer == nil || !binds(m.Origins[j]) {
				continue
			}
			a := m.Origins[j].Answer
			if len(answers) == 0 || answers[len(answers)-1] != a {
				place[a.Entry] = len(answers)
				answers = append(answers, a)
			}
			if transcript.IsReasoning(b) {
				reasons[a] = true
			}
		}
	}
	held := -1 // every kept answer was made with the reasoning from this index on
	for i, a := range slices.Backward(answers) {
		if !a.Intact || a.Made.PromptHash != promptHash {
			continue
		}
		if i < held {
			break
		}
		from := i // made without earlier reasoning
		if a.Made.Thought != "" {
			from = -1 // with reasoning that is no longer shown
			if at, known := place[a.Made.Thought]; known {
				from = min(at, i)
			}
		}
		held, keep[a] = max(held, from), true
		if reasons[a] {
			thought = a.Entry
		}
	}
	return Without(messages, func(b transcript.Block, o transcript.Origin) bool { return isBound(b, o) && !keep[o.Answer] }), thought
}

// signs reports whether an API binds reasoning to its request.
func signs(api string) bool { return api == "anthropic" || api == "bedrock" }

// isBound reports whether a block is signed reasoning of an answer that recorded its
// request.
func isBound(b transcript.Block, o transcript.Origin) bool {
	return transcript.IsReasoning(b) && o.Answer != nil && binds(o)
}

// binds reports whether the model of a block binds its reasoning to its request.
func binds(o transcript.Origin) bool { return signs(o.API) && !neutral.Imitates(o) }

// Without returns messages without the blocks for which drop returns true. For a block
// without an origin, drop gets the zero origin. Without removes a message that becomes
// empty, and joins its neighbours if their roles are equal. It does not modify the
// given messages.
func Without(messages []transcript.Message, drop func(transcript.Block, transcript.Origin) bool) []transcript.Message {
	out := make([]transcript.Message, 0, len(messages))
	gone := false // whether the previous message was removed
	for _, m := range messages {
		left, cut := m, false
		for j, b := range m.Content {
			var o transcript.Origin
			if j < len(m.Origins) {
				o = m.Origins[j]
			}
			switch dropped := drop(b, o); {
			case dropped && !cut:
				cut = true
				left.Content = slices.Grow(slices.Clip(m.Content[:j]), len(m.Content)-j-1)
				left.Origins = slices.Grow(slices.Clip(m.Origins[:min(j, len(m.Origins))]), max(len(m.Origins)-j-1, 0))
			case !dropped && cut:
				left.Content = append(left.Content, b)
				if j < len(m.Origins) {
					left.Origins = append(left.Origins, o)
				}
			}
		}
		last := len(out) - 1
		switch {
		case cut && len(left.Content) == 0:
			gone = true
			continue
		case gone && last >= 0 && out[last].Role == m.Role:
			out[last] = join(out[last], left)
		default:
			out = append(out, left)
		}
		gone = false
	}
	return out
}

// join returns one message of the blocks of two.
func join(x, y transcript.Message) transcript.Message {
	return transcript.Message{
		Role: x.Role, Content: slices.Concat(x.Content, y.Content), Origins: slices.Concat(x.Origins, y.Origins),
	}
}
