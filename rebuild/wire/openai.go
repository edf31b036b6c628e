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

// An openAI is what rendering for both APIs of OpenAI has in common.
type openAI struct{ rendering }

// An openAIPart is an element of the content of a message.
type openAIPart struct {
	kind openAIPartKind
	text string // of openAIText
	// Of the others one of these:
	url    string // data URLs too
	fileID string
	name   string // of a file whose bytes are in url
	raw    json.RawMessage
}

type openAIPartKind int

const (
	openAIText openAIPartKind = iota
	openAIImage
	openAIFile
	openAIAudio   // of Chat Completions: raw is the member input_audio
	openAIThought // of Mistral: reasoning among the parts of an answer
)

// parts returns what a user message or a result has in the place of b.
func (r *openAI) parts(entry string, b transcript.Block) []openAIPart {
	switch b := b.(type) {
	case transcript.TextBlock:
		r.dropExtra(entry, "text", b.Extra)
		return []openAIPart{{text: b.Text}}
	case transcript.ImageBlock:
		r.dropExtra(entry, "image", b.Extra)
		return []openAIPart{r.media(entry, openAIImage, b.Source)}
	case transcript.DocumentBlock:
		r.dropExtra(entry, "document", b.Extra)
		return r.document(entry, b)
	}
	if raw, ok := b.(transcript.RawBlock); ok && r.api == apiOpenAIChat && raw.BlockType() == "input_audio" && jsontext.Valid(raw.JSON) {
		if audio := get(raw.JSON, "input_audio"); stringMember(audio, "data") != "" && stringMember(audio, "format") != "" {
			return []openAIPart{{kind: openAIAudio, raw: audio}}
		}
	}
	return []openAIPart{{text: r.plain(entry, b)}}
}

func (r *openAI) replaced(entry, kind, why string) openAIPart {
	return openAIPart{text: r.leftOut(entry, kind, why)}
}

// media returns an image or a file, or the text that stands for it.
func (r *openAI) media(entry string, kind openAIPartKind, source transcript.Source) openAIPart {
	name := "image"
	if kind == openAIFile {
		name = "document"
	}
	clean, problem := cleanSource(source, name)
	p := openAIPart{kind: kind}
	switch {
	case problem != "":
		return r.replaced(entry, name, problem)
	case clean.Type == "base64":
		p.url = "data:" + clean.MediaType + ";base64," + clean.Data
	case clean.Type == "url":
		p.url = clean.URL
	case clean.Type == "file" && isOpenAIFile(clean.FileID):
		p.fileID = clean.FileID
	default:
		return r.replaced(entry, name, "a file of another provider")
	}
	if problem := chatRefuses(p); r.api == apiOpenAIChat && problem != "" {
		return r.replaced(entry, name, problem)
	}
	return p
}

func isOpenAIFile(id string) bool { return strings.HasPrefix(id, "file-") }

// document returns the parts of a document: what it is about, and its bytes or
// texts.
func (r *openAI) document(entry string, b transcript.DocumentBlock) (parts []openAIPart) {
	text := func(texts ...string) {
		for _, s := range texts {
			if !rebuild.IsBlank(s) {
				parts = append(parts, openAIPart{text: s})
			}
		}
	}
	clean, problem := cleanSource(b.Source, "document")
	switch {
	case problem == "" && clean.Type == "text":
		text(b.Title, b.Context, clean.Data)
		if len(parts) == 0 {
			parts = append(parts, r.replaced(entry, "document", "empty"))
		}
		return parts
	case problem == "" && clean.Type == "content":
		text(b.Title, b.Context)
		for _, inner := range blocksOfDocument(clean.Extra["content"]) {
			parts = append(parts, r.parts(entry, inner)...)
		}
		return parts
	}
	text(b.Context)
	p := r.media(entry, openAIFile, b.Source)
	if p.kind == openAIFile && clean.Type == "base64" {
		const suffix = ".pdf" // the API goes by it
		if p.name = b.Title; rebuild.IsBlank(p.name) {
			p.name = "document"
		}
		if !strings.HasSuffix(strings.ToLower(p.name), suffix) {
			p.name += suffix
		}
	} else if p.kind == openAIFile {
		text(b.Title)
	}
	return append(parts, p)
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
