package wire

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A bedrockRenderer turns the messages of one request into those of Converse.
type bedrockRenderer struct {
	renderer
	format Bedrock
	called []string        // names of tools in the messages, in the order of the calls
	names  map[string]bool // of documents
}

// A bedrockMessage is a message whose results are still apart.
type bedrockMessage struct {
	role    transcript.Role
	entry   string
	results []bedrockResult
	content []written // what follows the results
}

// A bedrockResult is a result whose content may still grow.
type bedrockResult struct {
	id      string
	isError bool
	content []written
}

// messages returns the member of that name.
func (r *bedrockRenderer) messages() written {
	r.media = countMedia(r.req.Messages)
	var out []bedrockMessage
	for i, m := range r.req.Messages {
		next := bedrockMessage{role: m.Role, entry: originOf(m, 0).Entry}
		if m.Role == transcript.RoleAssistant {
			next.content = r.answer(i, m)
		} else {
			next.results, next.content = r.user(m)
		}
		n := len(out)
		switch {
		case len(next.results)+len(next.content) == 0:
			if len(m.Content) > 0 {
				r.note(rebuild.EmptyMessage, next.entry, "nothing is left of a message")
			}
		case n > 0 && out[n-1].role == m.Role && m.Role == transcript.RoleUser:
			out[n-1].results = append(out[n-1].results, next.results...)
			out[n-1].content = append(out[n-1].content, next.content...)
			r.note(rebuild.MergedMessages, next.entry, "")
		default:
			out = append(out, next)
		}
	}
	if r.format.Cache != "" && !r.format.PureResults {
		for _, i := range markedMessages(out, func(m bedrockMessage) transcript.Role { return m.role }) {
			out[i].content = append(out[i].content, r.format.Cache.cachePoint())
		}
	}
	return list(out, func(m bedrockMessage) written {
		return object("role", string(m.role), "content", list(r.together(m), as))
	})
}

// together returns the content of a message: results first, then the rest, or all
// of it in the last result for models that want that.
func (r *bedrockRenderer) together(m bedrockMessage) (out []written) {
	if n := len(m.results); n > 0 && r.format.PureResults && len(m.content) > 0 {
		m.results[n-1].content = append(m.results[n-1].content, m.content...)
		m.content = nil
		r.note(rebuild.ReplacedBlock, m.entry, "what is beside results is in the last of them")
	}
	for _, res := range m.results {
		status := opt("")
		if res.isError {
			status = "error"
		}
		out = append(out, object("toolResult", object("toolUseId", res.id, "content", list(res.content, as), "status", status)))
	}
	return append(out, m.content...)
}

// answer returns the content of answer i, with the reasoning that the Messages API
// takes.
func (r *bedrockRenderer) answer(i int, m transcript.Message) (out []written) {
	r.ids.open()
	for _, b := range r.answerContent(i, m, r.ranByProvider(m), r.answerBlock) {
		out = append(out, answerJSON(b))
	}
	return out
}

// answerBlock returns nil for what cannot be in an answer. paired says that a
// block of a tool that the provider ran has its other half.
func (r *bedrockRenderer) answerBlock(o transcript.Origin, b transcript.Block, paired bool) transcript.Block {
	switch b := b.(type) {
	case transcript.RawBlock:
		if paired {
			return b
		}
	case transcript.TextBlock:
		r.dropExtra(o.Entry, "text", b.Extra)
		if rebuild.IsBlank(b.Text) {
			r.note(rebuild.BlankText, o.Entry, "")
			return nil
		}
		citations := get(r.ext(o, b.Extra), "citations")
		if b.Extra = nil; jsontext.IsArray(citations) {
			b.Extra = transcript.Extra{"citations": citations}
		}
		return b
	case transcript.ThinkingBlock:
		r.dropExtra(o.Entry, "thinking", b.Extra)
		return b
	case transcript.RedactedThinkingBlock:
		if !isBase64(b.Data) {
			b.Data = "" // what is not whole is left out as such
		}
		return b
	case transcript.ToolCallBlock:
		id, name := r.callID(o.Entry, b.ID), r.format.ToolName(b.Name)
		if name != b.Name {
			r.note(rebuild.BadName, o.Entry, b.Name+" became "+name)
		}
		r.dropExtra(o.Entry, "tool_use", b.Extra)
		b.ID, b.Name = id, name
		if !slices.Contains(r.called, name) {
			r.called = append(r.called, name)
		}
		return b
	case transcript.ContextBlock:
		return transcript.TextBlock{Text: r.plain(o.Entry, b)}
	}
	r.drop(o.Entry, b)
	return nil
}

// answerJSON returns a block of an answer as it goes out.
func answerJSON(b transcript.Block) written {
	switch b := b.(type) {
	case transcript.TextBlock:
		if b.Extra == nil {
			return textJSON(b.Text)
		}
		return object("citationsContent", object("content", list([]string{b.Text}, textJSON), "citations", b.Extra["citations"]))
	case transcript.ThinkingBlock:
		return object("reasoningContent", object("reasoningText", object("text", b.Thinking, "signature", b.Signature)))
	case transcript.RedactedThinkingBlock:
		return object("reasoningContent", object("redactedContent", b.Data))
	case transcript.ToolCallBlock:
		return object("toolUse", object("toolUseId", b.ID, "name", b.Name, "input", inputObject(b)))
	case transcript.RawBlock:
		return value(get(b.JSON, "block"))
	}
	return nil
}

// user returns the results of a user message and what follows them.
func (r *bedrockRenderer) user(m transcript.Message) (results []bedrockResult, rest []written) {
	text, documents := false, false
	for j, b := range m.Content {
		entry := originOf(m, j).Entry
		if res, ok := b.(transcript.ToolResultBlock); ok {
			results = append(results, bedrockResult{r.ids.result(res.CallID), res.IsError, r.result(entry, res)})
			continue
		}
		for _, p := range r.userBlocks(entry, b) {
			text, documents = text || p.text, documents || p.document
			rest = append(rest, p.json)
		}
	}
	if documents && !text {
		rest = append(rest, textJSON("[see the documents]"))
		r.note(rebuild.ReplacedBlock, originOf(m, 0).Entry, "a text beside a document")
	}
	return results, rest
}

// result returns the content of a result.
func (r *bedrockRenderer) result(entry string, b transcript.ToolResultBlock) (out []written) {
	r.dropExtra(entry, "tool_result", b.Extra)
	for _, c := range b.Content {
		switch c.(type) {
		case transcript.ToolResultBlock, transcript.ToolCallBlock:
			out = append(out, textJSON(r.leftOut(entry, c.BlockType(), "inside a result")))
			continue
		case transcript.ImageBlock, transcript.DocumentBlock:
			if b.IsError {
				r.media.take(c)
				out = append(out, textJSON(r.leftOut(entry, c.BlockType(), "in an error")))
				continue
			}
		}
		for _, p := range r.userBlocks(entry, c) {
			out = append(out, p.json)
		}
	}
	if b.IsError && len(out) == 0 {
		out = append(out, textJSON("[error without a text]"))
		r.note(rebuild.BlankText, entry, "of an error")
	}
	return out
}

// ranByProvider returns the indexes of the opaque blocks of an answer that go back: a
// call of a tool which the provider ran itself, with its result behind it, and what
// is of a kind that only the API knows.
func (r *bedrockRenderer) ranByProvider(m transcript.Message) map[int]bool {
	keep := map[int]bool{}
	open := map[string]int{} // index of the call by its ID
	for j, b := range m.Content {
		raw, ok := b.(transcript.RawBlock)
		if !ok || raw.BlockType() != opaqueBedrock || !r.native(originOf(m, j)) || !jsontext.Valid(raw.JSON) {
			continue
		}
		block := get(raw.JSON, "block")
		kind, part := typed(block)
		id, ran := stringMember(part, "toolUseId"), stringMember(part, "type") != ""
		switch {
		case !hasOnly(block, kind):
		case kind == "toolUse" && ran && id != "" && !r.ids.used[id]:
			open[id] = j
		case kind == "toolResult" && ran:
			if at, found := open[id]; found {
				keep[at], keep[j] = true, true
				r.ids.take(id)
				delete(open, id)
			}
		default:
			keep[j] = !slices.Contains(bedrockKinds, kind)
		}
	}
	return keep
}

// bedrockKinds are the kinds of content blocks that the API has.
var bedrockKinds = strings.Fields("text image document video audio toolUse toolResult reasoningContent cachePoint guardContent searchResult citationsContent")
