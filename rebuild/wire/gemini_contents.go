package wire

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// skipSignature is the signature that Google documents for calls that its model
// did not make. It goes out as it is: in base64, which the types of Google's SDKs
// would make of it, the API takes it for a signature and refuses it
// (langchain-ai/langchain-google#1570). A request that is decoded into these
// types has to replace it first.
const skipSignature = "skip_thought_signature_validator"

// A geminiRenderer turns the messages of one request into contents.
type geminiRenderer struct {
	talk
	format Gemini
	calls  []geminiCall // of the last answer, without those that have a result
}

// A geminiCall is a call that waits for its result.
type geminiCall struct{ id, name, wireID string }

// A geminiPart is a block of an answer as it goes out.
type geminiPart struct {
	block   transcript.Block
	origin  transcript.Origin
	members []any
	json    written // in place of members
	signed  opt     // its signature
}

// native hides that of rendering: the API takes names of models with the
// collection that they are in.
func (r *geminiRenderer) native(o transcript.Origin) bool {
	return o == vouched || o.API == apiGemini && sameModel(baseName(o.Model), baseName(r.req.Model))
}

// baseName returns the name of a model without the collection that it is in.
func baseName(model string) string { return model[strings.LastIndexByte(model, '/')+1:] }

// result adds a function response, and returns its images and documents, which the
// response cannot hold.
func (r *geminiRenderer) result(entry string, b transcript.ToolResultBlock) (moved []transcript.Block) {
	call := geminiCall{name: "tool"}
	if i := slices.IndexFunc(r.calls, func(c geminiCall) bool { return c.id == b.CallID }); i >= 0 {
		call = r.calls[i]
		r.calls = slices.Delete(r.calls, i, i+1)
	}
	var texts []string
	for _, c := range b.Content {
		switch c := c.(type) {
		case transcript.TextBlock:
			texts = append(texts, c.Text)
		case transcript.ContextBlock, transcript.RawBlock:
			texts = append(texts, r.plain(entry, c))
		case transcript.ImageBlock, transcript.DocumentBlock:
			moved = append(moved, plainText("["+c.BlockType()+" that "+call.name+" returned]")...)
			moved = append(moved, r.parts(r, entry, c)...)
			texts = append(texts, "["+c.BlockType()+": see below]")
			r.note(rebuild.MovedMedia, entry, c.BlockType()+" of a result of "+call.name)
		default:
			texts = append(texts, r.leftOut(entry, blockType(c), "inside a result"))
		}
	}
	name := map[bool]string{false: "output", true: "error"}[b.IsError]
	r.dropExtra(entry, "tool_result", b.Extra)
	response := object("id", opt(call.wireID), "name", call.name, "response", object(name, strings.Join(texts, "\n")))
	if r.last().role != "function" {
		r.out = append(r.out, said{role: "function"})
	}
	last := r.last()
	last.items = append(last.items, object("functionResponse", response))
	return moved
}

func (r *geminiRenderer) answer(_ int, m transcript.Message) bool {
	r.calls = nil
	parts := make([]geminiPart, 0, len(m.Content))
	spoken := false // something besides thoughts
	for j, b := range m.Content {
		o := originOf(m, j)
		if p, ok := r.answerPart(o, b); ok {
			parts, spoken = append(parts, p), spoken || !isThinking(b)
		}
	}
	if !spoken {
		for _, p := range parts {
			r.note(rebuild.DroppedThinking, p.origin.Entry, "the rest of the answer is gone")
		}
		return false
	}
	first := slices.IndexFunc(parts, func(p geminiPart) bool { return isType[transcript.ToolCallBlock](p.block) })
	signed := func(p geminiPart) bool { return p.signed != "" }
	// The signature of a call may be on another part, but not one for a call
	// that another model made.
	if first >= 0 && wantsSignature(r.req.Model) && !signed(parts[first]) && (!r.native(parts[first].origin) || !slices.ContainsFunc(parts, signed)) {
		parts[first].signed = skipSignature
	}
	content := said{role: "model"}
	for _, p := range parts {
		if p.json == nil {
			p.json = object(append(p.members, geminiSigned, p.signed)...)
		}
		content.items = append(content.items, p.json)
	}
	r.out = append(r.out, content)
	return true
}

// answerPart returns false for what cannot be in an answer.
func (r *geminiRenderer) answerPart(o transcript.Origin, b transcript.Block) (p geminiPart, ok bool) {
	native := r.native(o)
	p.block, p.origin = b, o
	end := func(extra transcript.Extra, members ...any) (geminiPart, bool) {
		p.members, p.signed = members, r.signature(o.Entry, extra, native)
		return p, true
	}
	switch b := b.(type) {
	case transcript.TextBlock:
		if rebuild.IsBlank(b.Text) && (!native || geminiSignature(b.Extra) == "") {
			r.note(rebuild.BlankText, o.Entry, "")
			return p, false
		}
		return end(b.Extra, "text", b.Text)
	case transcript.ThinkingBlock:
		switch {
		case !native:
			r.note(rebuild.DroppedThinking, o.Entry, "of another model")
			return p, false
		case b.Thinking != "":
			return end(b.Extra, "text", b.Thinking, geminiThought, true)
		case geminiSignature(b.Extra) != "":
			return end(b.Extra, "text", "")
		}
		r.note(rebuild.DroppedThinking, o.Entry, "without its text or signature")
		return p, false
	case transcript.ToolCallBlock:
		call := geminiCall{id: b.ID, name: r.format.ToolName(b.Name)}
		if native {
			call.wireID = stringMember(extObject(b.Extra), "functionCall", "id")
		}
		r.calls = append(r.calls, call)
		if call.name != b.Name {
			r.note(rebuild.BadName, o.Entry, b.Name+" became "+call.name)
		}
		return end(b.Extra, "functionCall", object("id", opt(call.wireID), "name", call.name, "args", inputObject(b)))
	case transcript.ContextBlock:
		r.note(rebuild.ReplacedBlock, o.Entry, "a context block in an answer")
		p.json = textJSON(r.plain(o.Entry, b))
		return p, true
	case transcript.ImageBlock:
		if mime, data := geminiBlob(b.Source, "image"); data != "" {
			return end(b.Extra, "inlineData", object("mimeType", mime, "data", data))
		}
	case transcript.RawBlock:
		if part := opaquePart(b); native && part != nil {
			p.json, p.signed = value(part), opt(stringMember(part, geminiSigned))
			return p, true
		}
	}
	r.drop(o.Entry, b)
	return p, false
}

// signature returns what a part of the target's own was signed with, and reports
// members that no part has.
func (r *geminiRenderer) signature(entry string, extra transcript.Extra, native bool) opt {
	r.dropExtra(entry, "block", extra)
	signature := geminiSignature(extra)
	if signature != "" && !native {
		r.note(rebuild.DroppedThinking, entry, "the signature of another model")
		return ""
	}
	return opt(signature)
}

// wantsSignature reports whether a model refuses calls without a signature:
// Gemini 3 and later do.
func wantsSignature(model string) bool {
	for _, old := range []string{"gemini-1", "gemini-2", "gemini-pro-vision", "gemma", "learnlm"} {
		if strings.Contains(model, old) {
			return false
		}
	}
	return true
}

func contentJSON(m said) written {
	role, items := "user", m.items
	if m.role == "model" {
		role = m.role
	}
	for _, b := range m.parts {
		items = append(items, geminiJSON(b))
	}
	return object("role", role, "parts", list(items, as))
}
