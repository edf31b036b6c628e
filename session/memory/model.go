package memory

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// Model is an [Extractor] and a [Decider] that ask a model. Conversations,
// candidates and memories are only in the message of the user, between marks that
// no text in them can end, followed by the task; never in the system prompt. Model
// is safe for several goroutines if Client is.
type Model struct {
	// Client is the model. It is required.
	Client guard.Client
	// Name is the requested model; empty leaves it to the Client.
	Name string
	// Window is the context window of the model in tokens. 0 means 32,768.
	Window int
	// MaxOutput is how many tokens the model may write; 0 means 4,096, or a quarter
	// of the window if that is less. A model that reasons needs more.
	MaxOutput int
	// MaxCalls is how many requests one Extract makes at most; 0 means 16. If a chapter
	// needs more, the results of tools are shortened, then all texts; then a part after
	// the first third is dropped.
	MaxCalls int
	// Instructions are added to the task of Extract.
	Instructions string
	// Counter counts tokens; nil means [tokens.Estimator].
	Counter tokens.Counter
}

var errAnswer = errors.New("the model did not answer with the requested JSON")

const (
	defaultWindow    = 32_768
	defaultMaxOutput = 4_096
	defaultCalls     = 16
	safety           = 1.25 // margin on estimated tokens
)

// Extract implements [Extractor]. Its error wraps the error of ctx or the Client,
// or quotes an answer without candidates.
func (m Model) Extract(ctx context.Context, in Input) (found []Candidate, err error) {
	parts, err := m.parts(in.Messages)
	if err != nil {
		return nil, err
	}
	for i, part := range parts {
		answer, err := m.ask(ctx, extractPrompt(part, i+1, len(parts), m.Instructions))
		if err != nil {
			return nil, fmt.Errorf("part %d of %d of the chapter: %w", i+1, len(parts), err)
		}
		more, err := parseCandidates(answer.text, answer.cut)
		if err != nil {
			return nil, fmt.Errorf("part %d of %d of the chapter: %w", i+1, len(parts), err)
		}
		if found = append(found, more...); len(found) > maxCandidates {
			break // more than the store takes
		}
	}
	return found, nil
}

// Decide implements [Decider]. If no memory at all fits into a request with the
// candidate, words decide, see [Options].
func (m Model) Decide(ctx context.Context, c Candidate, similar []Memory) (Decision, error) {
	for len(similar) > 0 && !m.fits(decidePrompt(c, similar)) {
		similar = similar[:len(similar)-1]
	}
	if len(similar) == 0 {
		return lexical{}.Decide(ctx, c, similar)
	}
	answer, err := m.ask(ctx, decidePrompt(c, similar))
	if err != nil {
		return Decision{}, err
	}
	return parseDecision(answer.text, similar)
}

// parts returns the messages as texts that each fit into a request.
func (m Model) parts(msgs []transcript.Message) ([]string, error) {
	most := cmp.Or(max(m.MaxCalls, 0), defaultCalls)
	var parts []string
	for _, d := range []compact.Document{{}, {Results: 300}, {Results: 100, Texts: 4_000}, {Results: 40, Texts: 400}} {
		parts = nil
		for text := d.Text(msgs); text != ""; {
			part := m.part(text)
			if part == "" {
				return nil, fmt.Errorf("a window of %d tokens is too small to show a conversation", cmp.Or(m.Window, defaultWindow))
			}
			parts, text = append(parts, part), text[len(part):]
		}
		if len(parts) <= most {
			return parts, nil
		}
	}
	head := most / 3
	return slices.Concat(parts[:head], parts[len(parts)-(most-head):]), nil
}

// part returns as much of the beginning of a text as fits into a request, up to the
// end of a line if one is near.
func (m Model) part(text string) string {
	size := min(len(text), 4*cmp.Or(m.Window, defaultWindow))
	for size > 0 {
		part := strings.ToValidUTF8(text[:size], "")
		if size < len(text) {
			if at := strings.LastIndexByte(part, '\n'); at >= size/2 {
				part = part[:at+1]
			}
		}
		if m.fits(extractPrompt(part, 1000, 1000, m.Instructions)) {
			return part
		}
		size = size * 3 / 4
	}
	return ""
}

func (m Model) output() int {
	return cmp.Or(max(m.MaxOutput, 0), min(defaultMaxOutput, cmp.Or(m.Window, defaultWindow)/4))
}

// fits reports whether a request leaves room for the answer.
func (m Model) fits(text string) bool {
	n := tokens.Or(m.Counter).Count(systemPrompt, nil, []transcript.Message{transcript.UserText(text)}) + 1
	return float64(n)*safety+float64(m.output()) <= float64(cmp.Or(m.Window, defaultWindow))
}

// A modelAnswer is a model's text, and whether its end is missing.
type modelAnswer struct {
	text string
	cut  bool
}

func (m Model) ask(ctx context.Context, text string) (modelAnswer, error) {
	if m.Client == nil {
		return modelAnswer{}, errors.New("Model.Client is not set")
	}
	if err := ctx.Err(); err != nil {
		return modelAnswer{}, err
	}
	resp, err := m.Client.Complete(ctx, transcript.Request{
		Model: m.Name, System: systemPrompt, MaxOutput: m.output(),
		Messages: []transcript.Message{transcript.UserText(text)},
	})
	if err != nil {
		return modelAnswer{}, err
	}
	if resp == nil {
		return modelAnswer{}, fmt.Errorf("%w: no answer", errAnswer)
	}
	switch resp.StopReason {
	case transcript.StopRefusal, transcript.StopToolUse, transcript.StopAborted, transcript.StopError, transcript.StopPauseTurn:
		return modelAnswer{}, fmt.Errorf("%w: it stopped for %q", errAnswer, resp.StopReason)
	case transcript.StopMaxTokens, transcript.StopContextWindow:
		return modelAnswer{resp.Message.Text(), true}, nil
	case transcript.StopEndTurn, transcript.StopSequence:
	default: // a provider's reason unknown here
	}
	return modelAnswer{resp.Message.Text(), false}, nil
}

// parseCandidates reads a list of candidates out of the answer of a model: an array,
// or an object with one, amid any text. Of a cut answer only whole candidates count.
// Other items become candidates without a category, so the result lists them as
// refused.
func parseCandidates(text string, cut bool) ([]Candidate, error) {
	list, ok := findList(text)
	if !ok || cut && len(list) == 0 {
		return nil, fmt.Errorf("%w: %q", errAnswer, clip(oneLine(text), 200))
	}
	found := make([]Candidate, 0, min(len(list), maxCandidates+1))
	for _, item := range list {
		found = append(found, candidateOf(item))
	}
	return found, nil
}

func candidateOf(item json.RawMessage) Candidate {
	var obj map[string]json.RawMessage
	if json.Unmarshal(item, &obj) != nil {
		return Candidate{Text: Text{Abstract: clip(oneLine(string(item)), maxAbstract)}}
	}
	c := Candidate{
		Category: Category(strings.ToLower(strings.TrimSpace(loose(obj["category"])))),
		Topic:    loose(obj["topic"]),
		Text:     textOf(obj),
	}
	switch strings.ToLower(loose(obj["instruction"])) {
	case "", "false", "0", "no", "null":
	default:
		c.Instruction = true
	}
	return c
}

func textOf(obj map[string]json.RawMessage) Text {
	return Text{loose(obj["abstract"]), loose(obj["overview"]), loose(obj["content"])}
}

// loose returns a value as a text: a string unquoted, the items of an array as lines,
// null as "", any other value as its JSON.
func loose(raw json.RawMessage) string {
	var text string
	var list []json.RawMessage
	switch {
	case len(raw) == 0 || raw[0] == 'n':
		return ""
	case json.Unmarshal(raw, &text) == nil:
		return text
	case json.Unmarshal(raw, &list) == nil:
		lines := make([]string, 0, len(list))
		for _, item := range list {
			lines = append(lines, loose(item))
		}
		return strings.Join(lines, "\n")
	}
	return string(raw)
}

// findList finds the first JSON value of a text that is or has a list of objects.
func findList(text string) (list []json.RawMessage, ok bool) {
	const tries = 50
	at := 0
	for range tries {
		next := strings.IndexAny(text[at:], "[{")
		if next < 0 {
			return nil, false
		}
		at += next
		if list, ok := listAt(text[at:]); ok {
			return list, true
		}
		at++
	}
	return nil, false
}

// listAt reads a list at the beginning of a text. Of a cut list, only whole items
// count.
func listAt(text string) ([]json.RawMessage, bool) {
	if text[0] == '[' {
		d := json.NewDecoder(strings.NewReader(text))
		_, _ = d.Token() // the bracket
		list := []json.RawMessage{}
		for d.More() {
			var item json.RawMessage
			if d.Decode(&item) != nil {
				return list, len(list) > 0
			}
			if item[0] != '{' && len(list) == 0 {
				return nil, false // brackets in prose, or a list of other things
			}
			list = append(list, item)
		}
		end, err := d.Token()
		return list, len(list) > 0 || err == nil && end == json.Delim(']')
	}
	var obj map[string]json.RawMessage
	if json.NewDecoder(strings.NewReader(text)).Decode(&obj) != nil {
		return nil, false
	}
	if _, ok := obj["category"]; ok {
		raw, _ := json.Marshal(obj)
		return []json.RawMessage{raw}, true
	}
	for _, value := range obj {
		if len(value) > 0 && value[0] == '[' && len(obj) == 1 {
			return listAt(string(value))
		}
	}
	return nil, false
}

func parseDecision(text string, similar []Memory) (Decision, error) {
	fail := func() (Decision, error) {
		return Decision{}, fmt.Errorf("%w: %q", errAnswer, clip(oneLine(text), 200))
	}
	at := strings.IndexByte(text, '{')
	if at < 0 {
		return fail()
	}
	var obj map[string]json.RawMessage
	if json.NewDecoder(strings.NewReader(text[at:])).Decode(&obj) != nil {
		return fail()
	}
	d := Decision{Action: Action(strings.ToLower(strings.TrimSpace(loose(obj["action"])))), Text: textOf(obj), Reason: loose(obj["reason"])}
	if d.Action != Create && d.Action != Merge && d.Action != Skip {
		return fail()
	}
	if d.Action != Merge {
		d.Text = Text{}
	}
	if into := loose(obj["into"]); into != "" && d.Action != Create {
		var n int
		if _, err := fmt.Sscan(into, &n); err != nil || n < 1 || n > len(similar) {
			return fail()
		}
		d.Into = similar[n-1].ID
	}
	return d, nil
}
