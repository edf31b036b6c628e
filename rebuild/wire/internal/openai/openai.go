// Package openai holds the code that both APIs of OpenAI share.
package openai

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// CacheKey names the member for a key, if there is one.
func CacheKey(key string) string {
	if key == "" {
		return ""
	}
	return "prompt_cache_key"
}

// NoParameters is the schema of a tool without one.
const NoParameters = `{"type":"object","properties":{}}`

// A Renderer is the part of rendering that both APIs of OpenAI share.
type Renderer struct{ format.Talk }

// Source returns the source of an image or a file, or a problem.
func (r *Renderer) Source(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	clean, problem = format.CleanSource(s, kind)
	chat := r.API == format.APIOpenAIChat
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

// SourceURL returns the URL of a source, a data URL for data; empty for a file.
func SourceURL(s transcript.Source) string {
	if s.Type == "base64" {
		return "data:" + s.MediaType + ";base64," + s.Data
	}
	return s.URL
}

// Document returns the parts of a document: its subject, and its texts, or its
// bytes, named by its title.
func (r *Renderer) Document(entry string, b transcript.DocumentBlock) (parts []transcript.Block) {
	text := func(texts ...string) {
		for _, s := range texts {
			if !neutral.IsBlank(s) {
				parts = append(parts, transcript.TextBlock{Text: s})
			}
		}
	}
	clean, problem := r.Source(b.Source, "document")
	audio, isAudio := strings.CutPrefix(b.Source.MediaType, "audio/")
	switch {
	case isAudio && r.API == format.APIOpenAIChat && b.Source.Type == "base64" && format.IsBase64(b.Source.Data):
		text(b.Title, b.Context)
		input := js.Object("data", b.Source.Data, "format", cmp.Or(audioFormats[audio], audio))
		return append(parts, transcript.RawBlock{JSON: js.Object("type", "input_audio", "input_audio", input).Bytes()})
	case problem != "":
		text(b.Context)
		return append(parts, format.PlainText(r.LeftOut(entry, "document", problem))...)
	case clean.Type == "text":
		text(b.Title, b.Context, clean.Data)
		if len(parts) == 0 {
			return format.PlainText(r.LeftOut(entry, "document", "empty"))
		}
		return parts
	case clean.Type == "content":
		text(b.Title, b.Context)
		for _, inner := range format.BlocksOfDocument(clean.Extra["content"]) {
			parts = append(parts, r.Parts(r, entry, inner)...)
		}
		return parts
	}
	text(b.Context)
	name := ""
	if clean.Type != "base64" {
		text(b.Title)
	} else if name = b.Title; neutral.IsBlank(name) {
		name = "document"
	}
	const suffix = ".pdf" // tells the API the type
	if name != "" && !strings.HasSuffix(strings.ToLower(name), suffix) {
		name += suffix
	}
	return append(parts, transcript.DocumentBlock{Source: clean, Title: name})
}

// audioFormats are the names of types of audio in Chat Completions, if they differ.
var audioFormats = map[string]string{"x-wav": "wav", "mpeg": "mp3"}

// Content returns parts as the API wants them: one text as a string.
func Content(parts []transcript.Block, part func(transcript.Block) js.Written) any {
	if len(parts) == 0 {
		return ""
	}
	if t, ok := parts[0].(transcript.TextBlock); ok && len(parts) == 1 {
		return t.Text
	}
	return js.List(parts, part)
}

// CallArguments returns the input of a call as these APIs write it: JSON in a
// string, without halves of surrogate pairs. It does not repair input that is not a
// JSON object.
func CallArguments(input json.RawMessage) string {
	if jsontext.IsNull(input) {
		return "{}"
	}
	if s, ok := jsontext.String(input); ok {
		input = []byte(s)
	}
	if jsontext.HalfSurrogate(input) >= 0 {
		input = slices.Clone(input)
		jsontext.MendSurrogates(input)
	}
	return string(input)
}

// Usage reads counts whose members have these names. Cached tokens are a
// part of the prompt; all members that are not counted here are in Extra.
func Usage(usage json.RawMessage, prompt, completion, details string) (u transcript.Usage) {
	u.Extra = format.ReadCounts(usage, map[string]*int{prompt: &u.Input, completion: &u.Output})
	n, _ := jsontext.Int(js.Get(u.Extra[details], "cached_tokens"))
	u.CacheRead = min(max(int(n), 0), max(u.Input, 0))
	u.Input -= u.CacheRead
	return u
}
