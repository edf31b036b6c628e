package wire

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// source returns what a source becomes, or what is wrong with it or its size.
func (r *renderer) source(entry string, s transcript.Source, kind string) (transcript.Source, string) {
	clean, problem := cleanSource(s, kind)
	if problem != "" {
		return s, problem
	}
	if s.Type == "content" {
		clean.Extra = transcript.Extra{"content": r.documentContent(entry, s.Extra["content"])}
	}
	lost := (clean.MediaType != s.MediaType && s.Type != "text") || clean.Data != s.Data || clean.URL != s.URL || clean.FileID != s.FileID
	for name := range s.Extra {
		_, kept := clean.Extra[name]
		lost = lost || !kept && name != "ext"
	}
	if lost {
		r.note(rebuild.DroppedMember, entry, "in the source, "+kind+" block")
	}
	return clean, r.media.takeBytes(clean, kind)
}

// documentContent returns the texts and images of a document as the target takes
// them.
func (r *renderer) documentContent(entry string, content json.RawMessage) json.RawMessage {
	if !jsontext.IsArray(content) {
		return content
	}
	return list(blocksOfDocument(content), func(b transcript.Block) written {
		return value(transcript.MarshalBlock(r.userBlocks(entry, b)[0]))
	}).bytes()
}

// cleanSource returns s with the members of its type alone, or what is wrong
// with it.
func cleanSource(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	clean.Type = s.Type
	document := kind == "document"
	switch {
	case s.Type == "base64":
		clean.MediaType, clean.Data = s.MediaType, s.Data
		switch {
		case !slices.Contains(mediaTypes[kind], s.MediaType):
			return s, "unsupported media type"
		case !isBase64(s.Data):
			return s, "unreadable data"
		}
	case s.Type == "url":
		clean.URL = s.URL
		const scheme = "https://"
		if len(s.URL) <= len(scheme) || !strings.EqualFold(s.URL[:len(scheme)], scheme) {
			return s, "not an https URL"
		}
	case s.Type == "file":
		clean.FileID = s.FileID
		if s.FileID == "" {
			return s, "no file ID"
		}
	case s.Type == "text" && document:
		clean.MediaType, clean.Data = "text/plain", s.Data
		if s.Data == "" {
			return s, "empty"
		}
	case s.Type == "content" && document:
		content := s.Extra["content"]
		if !isDocumentContent(content) {
			return s, "unreadable content"
		}
		clean.Extra = transcript.Extra{"content": content}
	default:
		return s, "unsupported source"
	}
	return clean, ""
}

// mediaTypes are those of images and documents that Anthropic and OpenAI take.
var mediaTypes = map[string][]string{
	"image":    {"image/jpeg", "image/png", "image/gif", "image/webp"},
	"document": {"application/pdf"},
}

// isBase64 reports whether s is padded standard base64 of at least one byte.
func isBase64(s string) bool {
	body := strings.TrimSuffix(strings.TrimSuffix(s, "="), "=")
	return len(s) > 0 && len(s)%4 == 0 && !strings.ContainsFunc(body, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '+' && c != '/'
	})
}

// textBase64 returns a text as the bytes of a file.
func textBase64(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.ToValidUTF8(text, "\uFFFD")))
}

// sourceProblem says what is wrong with a source that a target did not take.
func sourceProblem(s transcript.Source) string {
	switch s.Type {
	case "base64":
		if isBase64(s.Data) {
			return "unsupported media type"
		}
		return "unreadable data"
	case "url":
		return "not an https URL"
	case "file":
		return "a file of another provider"
	case "blob":
		return "its bytes were not loaded"
	}
	return "unsupported source"
}

// isDocumentContent reports whether value is a text, or a list of texts and
// images.
func isDocumentContent(value []byte) bool {
	if !jsontext.Valid(value) {
		return false
	}
	if s, ok := jsontext.String(jsontext.Trim(value)); ok {
		return !rebuild.IsBlank(s)
	}
	content := elements(value)
	return len(content) > 0 && !slices.ContainsFunc(content, func(e json.RawMessage) bool {
		kind := stringMember(e, "type")
		return kind != "image" && (kind != "text" || rebuild.IsBlank(stringMember(e, "text")))
	})
}

// blocksOfDocument returns the texts and images that a document is made of.
func blocksOfDocument(content json.RawMessage) (blocks []transcript.Block) {
	if text, ok := jsontext.String(jsontext.Trim(content)); ok {
		return []transcript.Block{transcript.TextBlock{Text: text}}
	}
	for e := range jsontext.Elements(content) {
		if b, err := transcript.UnmarshalBlock(e); err == nil {
			blocks = append(blocks, b)
		}
	}
	return blocks
}

// Limits of a request to Converse.
const (
	maxDocuments = 5
	maxImages    = 20
)

// Limits of a request to the Messages API, in bytes of JSON: the API counts
// an image as the base64 that it gets.
const (
	maxImageBytes = 5 << 20
	maxBody       = 32 << 20
)

// A mediaBudget says how much is still to be left out: what comes first.
type mediaBudget struct {
	blocks map[string]int // by their type
	bytes  int
}

// countMedia counts how many documents and images are too many for Converse.
func countMedia(messages []transcript.Message) mediaBudget {
	excess := map[string]int{"document": -maxDocuments, "image": -maxImages}
	for _, m := range messages {
		for _, b := range m.Content {
			all := []transcript.Block{b}
			if res, ok := b.(transcript.ToolResultBlock); ok {
				all = res.Content
			}
			for _, b := range all {
				sent := isType[transcript.ImageBlock](b) || isType[transcript.DocumentBlock](b)
				excess[blockType(b)] += count(sent && m.Role == transcript.RoleUser)
			}
		}
	}
	return mediaBudget{blocks: excess}
}

// take reports whether the next image or document is one of those too many.
func (m *mediaBudget) take(kind string) bool {
	if m.blocks[kind] <= 0 {
		return false
	}
	m.blocks[kind]--
	return true
}

// takeBytes says what is wrong with the next image or document by its bytes,
// nothing if it can go out.
func (m *mediaBudget) takeBytes(source transcript.Source, kind string) string {
	switch n := len(source.Data); {
	case kind == "image" && n > maxImageBytes:
		return "more than 5 MB"
	case m.bytes > 0 && n > 0:
		m.bytes -= n
		return "the request has more than 32 MB"
	}
	return ""
}
