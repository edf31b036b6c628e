package gemini

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// skipSignature is the signature that Google documents for calls that its model
// did not make. It goes out as it is: the types of Google's SDKs would write it
// in base64, which the API takes for a signature and refuses
// (langchain-ai/langchain-google#1570). Replace it before decoding a request into
// these types.
const skipSignature = "skip_thought_signature_validator"

// A renderer turns the messages of one request into contents.
type renderer struct {
	format.Talk
	format Format
	calls  []pendingCall // of the last answer, without those that have a result
}

// A pendingCall is a call that waits for its result.
type pendingCall struct{ id, name, wireID string }

// An answerPart is an outgoing block of an answer.
type answerPart struct {
	block   transcript.Block
	origin  transcript.Origin
	members []any
	json    js.Written // replaces members
	signed  js.Opt     // its signature
}

// Native hides the method of format.Rendering: the API takes model names with
// their collection.
func (r *renderer) Native(o transcript.Origin) bool {
	return o == format.Vouched || o.API == format.APIGemini && format.SameModel(baseName(o.Model), baseName(r.Req.Model))
}

// baseName returns the name of a model without the collection that it is in.
func baseName(model string) string { return model[strings.LastIndexByte(model, '/')+1:] }

// Result adds a function response, and returns images and documents that do not fit
// into it.
func (r *renderer) Result(entry string, b transcript.ToolResultBlock) (moved []transcript.Block) {
	call := pendingCall{name: "tool"}
	if i := slices.IndexFunc(r.calls, func(c pendingCall) bool { return c.id == b.CallID }); i >= 0 {
		call = r.calls[i]
		r.calls = slices.Delete(r.calls, i, i+1)
	}
	var texts []string
	var media []js.Written
	for _, c := range b.Content {
		switch c := c.(type) {
		case transcript.TextBlock:
			texts = append(texts, c.Text)
		case transcript.ContextBlock, transcript.RawBlock:
			texts = append(texts, r.Plain(entry, c))
		case transcript.ImageBlock, transcript.DocumentBlock:
			for _, p := range r.Parts(r, entry, c) {
				text, isText := p.(transcript.TextBlock)
				switch s := sourceOf(p); {
				case isText:
					texts = append(texts, text.Text)
				case s.Data != "" && isGemini3(r.Req.Model) && slices.Contains(inResponses, s.MediaType):
					media = append(media, partJSON(p))
				default:
					moved = append(moved, format.PlainText("[" + transcript.BlockType(p) + " that " + call.name + " returned]")[0], p)
					texts = append(texts, "["+transcript.BlockType(p)+": see below]")
					r.Note("moved-media", entry, transcript.BlockType(p)+" of a result of "+call.name)
				}
			}
		default:
			texts = append(texts, r.LeftOut(entry, format.BlockType(c), "inside a result"))
		}
	}
	name := map[bool]string{false: "output", true: "error"}[b.IsError]
	r.DropExtra(entry, "tool_result", b.Extra)
	response := js.Object("id", js.Opt(call.wireID), "name", call.name, "response", js.Object(name, strings.Join(texts, "\n")), "parts", js.OptList(media, js.As))
	if r.Last().Role != "function" {
		r.Out = append(r.Out, format.Said{Role: "function"})
	}
	last := r.Last()
	last.Items = append(last.Items, js.Object("functionResponse", response))
	return moved
}

// inResponses are the media types that a function response may have.
var inResponses = []string{"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"}

func (r *renderer) Answer(_ int, m transcript.Message) bool {
	r.calls = nil
	parts := make([]answerPart, 0, len(m.Content))
	spoken := false // something other than thoughts
	for j, b := range m.Content {
		o := format.OriginOf(m, j)
		if p, ok := r.answerPart(o, b); ok {
			parts, spoken = append(parts, p), spoken || !transcript.IsReasoning(b)
		}
	}
	if !spoken {
		for _, p := range parts {
			r.Note("dropped-thinking", p.origin.Entry, "the rest of the answer is gone")
		}
		return false
	}
	first := slices.IndexFunc(parts, func(p answerPart) bool { return format.IsType[transcript.ToolCallBlock](p.block) })
	signed := func(p answerPart) bool { return p.signed != "" }
	// Another part may carry the signature of a call, but not for a call of
	// another model.
	if first >= 0 && isGemini3(r.Req.Model) && !signed(parts[first]) && (!r.Native(parts[first].origin) || !slices.ContainsFunc(parts, signed)) {
		parts[first].signed = skipSignature
	}
	content := format.Said{Role: "model"}
	for _, p := range parts {
		if p.json == nil {
			p.json = js.Object(append(p.members, signatureName, p.signed)...)
		}
		content.Items = append(content.Items, p.json)
	}
	r.Out = append(r.Out, content)
	return true
}

// answerPart returns false for blocks that cannot be in an answer.
func (r *renderer) answerPart(o transcript.Origin, b transcript.Block) (p answerPart, ok bool) {
	native := r.Native(o)
	p.block, p.origin = b, o
	end := func(extra transcript.Extra, members ...any) (answerPart, bool) {
		p.members, p.signed = members, r.signature(o.Entry, extra, native)
		return p, true
	}
	switch b := b.(type) {
	case transcript.TextBlock:
		if neutral.IsBlank(b.Text) && (!native || signatureOf(b.Extra) == "") {
			r.Note("blank-text", o.Entry, "")
			return p, false
		}
		return end(b.Extra, "text", b.Text)
	case transcript.ThinkingBlock:
		switch {
		case !native:
			r.Note("dropped-thinking", o.Entry, "of another model")
			return p, false
		case b.Thinking != "":
			return end(b.Extra, "text", b.Thinking, thoughtName, true)
		case signatureOf(b.Extra) != "":
			return end(b.Extra, "text", "")
		}
		r.Note("dropped-thinking", o.Entry, "without its text or signature")
		return p, false
	case transcript.ToolCallBlock:
		call := pendingCall{id: b.ID, name: toolName(b.Name)}
		if native && r.Req.Takes.Has(transcript.CallIDs) {
			call.wireID = js.String(format.ExtObject(b.Extra), "functionCall", "id")
		}
		r.calls = append(r.calls, call)
		if call.name != b.Name {
			r.Note("bad-name", o.Entry, b.Name+" became "+call.name)
		}
		return end(b.Extra, "functionCall", js.Object("id", js.Opt(call.wireID), "name", call.name, "args", format.InputObject(b)))
	case transcript.ContextBlock:
		r.Note("replaced-block", o.Entry, "a context block in an answer")
		p.json = js.Text(r.Plain(o.Entry, b))
		return p, true
	case transcript.ImageBlock:
		if mime, data := blobOf(b.Source, "image"); data != "" {
			return end(b.Extra, "inlineData", js.Object("mimeType", mime, "data", data))
		}
	case transcript.RawBlock:
		part := opaquePart(b)
		if part != nil && !native {
			part = js.Without(part, signatureName).Object()
		}
		if ran := js.HasOnly(part, "executableCode") || js.HasOnly(part, "codeExecutionResult"); part != nil && (native || ran && r.Kin(o)) {
			p.json, p.signed = js.Value(part), js.Opt(js.String(part, signatureName))
			return p, true
		}
	}
	text, ok := r.Instead(o.Entry, b)
	p.json = js.Text(text.Text)
	return p, ok
}

// signature returns the signature of a part by the target, and reports unknown
// members.
func (r *renderer) signature(entry string, extra transcript.Extra, native bool) js.Opt {
	r.DropExtra(entry, "block", extra)
	signature := signatureOf(extra)
	if signature != "" && !native {
		r.Note("dropped-thinking", entry, "the signature of another model")
		return ""
	}
	return js.Opt(signature)
}

// isGemini3 reports whether a model is Gemini 3 or later. These refuse calls without a
// signature, and take media in responses.
func isGemini3(model string) bool {
	for _, old := range []string{"gemini-1", "gemini-2", "gemini-pro-vision", "gemma", "learnlm"} {
		if strings.Contains(model, old) {
			return false
		}
	}
	return true
}

func contentJSON(m format.Said) js.Written {
	role, items := "user", m.Items
	if m.Role == "model" {
		role = m.Role
	}
	for _, b := range m.Parts {
		items = append(items, partJSON(b))
	}
	return js.Object("role", role, "parts", js.List(items, js.As))
}
