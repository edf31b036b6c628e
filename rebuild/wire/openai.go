package wire

import (
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// What [transcript.Response] and [transcript.Origin] call the APIs of OpenAI.
const (
	apiOpenAIChat      = "openai-chat"
	apiOpenAIResponses = "openai-responses"
)

// noParameters is the schema of a tool that has none.
const noParameters = `{"type":"object","properties":{}}`

// An openAI is what rendering for both APIs of OpenAI has in common. It goes through
// the messages once, in order, and looks back only.
type openAI struct {
	rendering
	out     []openAIMessage
	dropped bool // nothing is left of the last answer
}

// An openAIMessage is a message as these APIs have it, or an item of the Responses API.
type openAIMessage struct {
	role  string
	parts []transcript.Block
	item  written // in place of all else
	// Of Chat Completions:
	refusal   string
	calls     []transcript.ToolCallBlock
	callID    string   // of a result
	audio     string   // ID of what the answer said aloud
	reasoning []member // as the members that it came in
}

// messages gives each message to one of these functions.
func (r *openAI) messages(answer func(i int, m transcript.Message), result func(entry string, b transcript.ToolResultBlock) (moved []transcript.Block)) {
	for i, m := range r.req.Messages {
		if m.Role == transcript.RoleAssistant {
			answer(i, m)
		} else {
			r.user(m, result)
		}
	}
}

// user renders results, and one message of what they leave and of the rest. A later
// system prompt is a message of the developer's where there are such.
func (r *openAI) user(m transcript.Message, result func(entry string, b transcript.ToolResultBlock) (moved []transcript.Block)) {
	var moved, rest []transcript.Block
	for j, b := range m.Content {
		o := originOf(m, j)
		switch b := b.(type) {
		case transcript.ToolResultBlock:
			moved = append(moved, result(o.Entry, b)...)
		case transcript.ToolCallBlock:
			r.note(rebuild.DroppedBlock, o.Entry, "a call in a user message")
		default:
			parts := r.parts(o.Entry, b)
			if o.Block == transcript.PromptEntry && r.api == apiOpenAIResponses {
				r.says(m, rest)
				r.out, rest, parts = append(r.out, openAIMessage{role: "developer", parts: parts}), nil, nil
			}
			rest = append(rest, parts...)
		}
	}
	r.says(m, append(moved, rest...))
	r.dropped = false
}

// says adds what the user says; behind an answer that was left out, to the message in
// front of it.
func (r *openAI) says(m transcript.Message, parts []transcript.Block) {
	last := &openAIMessage{}
	if n := len(r.out); n > 0 {
		last = &r.out[n-1]
	}
	switch {
	case len(parts) == 0:
		return
	case r.dropped && last.role == "user":
		last.parts = append(last.parts, parts...)
		r.note(rebuild.MergedMessages, originOf(m, 0).Entry, "")
		return
	case last.role == "tool" && r.ids.form.exact:
		r.out = append(r.out, openAIMessage{role: "assistant", parts: plainText("[results received]")})
		r.note(rebuild.AddedAnswer, originOf(m, 0).Entry, "between results and what the user says")
	}
	r.out = append(r.out, openAIMessage{role: "user", parts: parts})
}

// parts returns what a user message or a result has in the place of b.
func (r *openAI) parts(entry string, b transcript.Block) []transcript.Block {
	switch b := b.(type) {
	case transcript.TextBlock:
		r.dropExtra(entry, "text", b.Extra)
		return plainText(b.Text)
	case transcript.ImageBlock:
		r.dropExtra(entry, "image", b.Extra)
		clean, problem := r.source(b.Source, "image")
		if problem != "" {
			return plainText(r.leftOut(entry, "image", problem))
		}
		return []transcript.Block{transcript.ImageBlock{Source: clean}}
	case transcript.DocumentBlock:
		r.dropExtra(entry, "document", b.Extra)
		return r.document(entry, b)
	case transcript.RawBlock:
		audio := get(b.JSON, "input_audio")
		if r.api == apiOpenAIChat && b.BlockType() == "input_audio" && jsontext.Valid(b.JSON) && stringMember(audio, "data") != "" && stringMember(audio, "format") != "" {
			return []transcript.Block{b}
		}
	}
	return plainText(r.plain(entry, b))
}

// source returns the source of an image or a file, or what is wrong with it.
func (r *openAI) source(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	clean, problem = cleanSource(s, kind)
	chat := r.api == apiOpenAIChat
	switch {
	case problem != "":
	case clean.Type == "file" && !strings.HasPrefix(clean.FileID, "file-"):
		problem = "a file of another provider"
	case chat && clean.Type == "file" && kind == "image":
		problem = "not by file ID"
	case chat && clean.Type == "url" && kind == "document":
		problem = "not by URL"
	}
	return clean, problem
}

// sourceURL returns the URL of a source, that of its data if it has these; empty if it
// is a file.
func sourceURL(s transcript.Source) string {
	if s.Type == "base64" {
		return "data:" + s.MediaType + ";base64," + s.Data
	}
	return s.URL
}

// document returns the parts of a document: what it is about, and its bytes, which are
// called by its title, or texts.
func (r *openAI) document(entry string, b transcript.DocumentBlock) (parts []transcript.Block) {
	text := func(texts ...string) {
		for _, s := range texts {
			if !rebuild.IsBlank(s) {
				parts = append(parts, transcript.TextBlock{Text: s})
			}
		}
	}
	clean, problem := r.source(b.Source, "document")
	switch {
	case problem != "":
		text(b.Context)
		return append(parts, plainText(r.leftOut(entry, "document", problem))...)
	case clean.Type == "text":
		text(b.Title, b.Context, clean.Data)
		if len(parts) == 0 {
			return plainText(r.leftOut(entry, "document", "empty"))
		}
		return parts
	case clean.Type == "content":
		text(b.Title, b.Context)
		for _, inner := range blocksOfDocument(clean.Extra["content"]) {
			parts = append(parts, r.parts(entry, inner)...)
		}
		return parts
	}
	text(b.Context)
	name := ""
	if clean.Type != "base64" {
		text(b.Title)
	} else if name = b.Title; rebuild.IsBlank(name) {
		name = "document"
	}
	const suffix = ".pdf" // the API goes by it
	if name != "" && !strings.HasSuffix(strings.ToLower(name), suffix) {
		name += suffix
	}
	return append(parts, transcript.DocumentBlock{Source: clean, Title: name})
}

// openAIContent returns parts as they are written: one text as a string.
func openAIContent(parts []transcript.Block, part func(transcript.Block) written) any {
	if len(parts) == 0 {
		return ""
	}
	if t, ok := parts[0].(transcript.TextBlock); ok && len(parts) == 1 {
		return t.Text
	}
	return list(parts, part)
}

// callArguments returns the input of a call as these APIs write it: JSON in a
// string. What is no JSON object is not repaired here.
func callArguments(input json.RawMessage) string {
	if jsontext.IsNull(input) {
		return "{}"
	}
	if s, ok := jsontext.String(input); ok {
		return s
	}
	return string(input)
}

// openAIUsage reads counts whose members have these names. Cached tokens are a
// part of the prompt; all members that are not counted here are in Extra.
func openAIUsage(usage json.RawMessage, prompt, completion, details string) (u transcript.Usage) {
	u.Extra = readCounts(usage, map[string]*int{prompt: &u.Input, completion: &u.Output})
	n, _ := jsontext.Int(get(u.Extra[details], "cached_tokens"))
	u.CacheRead = min(max(int(n), 0), max(u.Input, 0))
	u.Input -= u.CacheRead
	return u
}

// openAIRefusal returns the error in an event or in the place of an answer, nil if
// there is none.
func openAIRefusal(obj []byte) *APIError {
	failed := get(obj, "error")
	if stringMember(obj, "type") != "error" && !jsontext.IsObject(failed) && !jsontext.IsString(failed) {
		return nil
	}
	return NewAPIError(0, obj)
}
