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
type openAI struct{ talk }

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
			parts = append(parts, r.parts(r, entry, inner)...)
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
