package format

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/imagesize"
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// CleanSource returns s with only the members of its type, or a problem.
func CleanSource(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	const scheme = "https://"
	clean.Type = s.Type
	document, ok := kind == "document", false
	switch {
	case s.Type == "base64":
		clean.MediaType, clean.Data = MediaType(s.Data), s.Data
		ok = slices.Contains(mediaTypes[kind], clean.MediaType) && IsBase64(s.Data)
	case s.Type == "url":
		clean.URL = s.URL
		ok = len(s.URL) > len(scheme) && strings.EqualFold(s.URL[:len(scheme)], scheme)
	case s.Type == "file":
		clean.FileID, ok = s.FileID, s.FileID != ""
	case s.Type == "text" && document:
		clean.MediaType, clean.Data, ok = "text/plain", s.Data, s.Data != ""
	case s.Type == "content" && document:
		content := s.Extra["content"]
		clean.Extra, ok = transcript.Extra{"content": content}, IsDocumentContent(content)
	}
	if !ok {
		return s, SourceProblem(s)
	}
	return clean, ""
}

// mediaTypes are the types of images and documents that Anthropic and OpenAI
// take.
var mediaTypes = map[string][]string{
	"image":    {"image/jpeg", "image/png", "image/gif", "image/webp"},
	"document": {"application/pdf"},
}

// MediaType returns the media type of bytes in base64, by their beginning, if
// services read such images or documents; otherwise it is empty.
func MediaType(data string) string {
	head, _ := base64.StdEncoding.DecodeString(data[:min(len(data), 64)/4*4])
	for _, t := range [][3]string{
		{"\xff\xd8\xff", "", "image/jpeg"},
		{"\x89PNG\r\n\x1a\n", "", "image/png"},
		{"GIF87a", "", "image/gif"},
		{"GIF89a", "", "image/gif"},
		{"RIFF", "WEBP", "image/webp"},
		{"%PDF-", "", "application/pdf"},
	} {
		if strings.HasPrefix(string(head), t[0]) && (t[1] == "" || len(head) > 12 && string(head[8:12]) == t[1]) {
			return t[2]
		}
	}
	return ""
}

// ImageProblem explains why Claude does not take an image by its size: the Messages
// API counts base64, Converse the bytes before it, 3.75 MB, which is the same.
func ImageProblem(s transcript.Source) string {
	const maxBytes, maxSide = 5 << 20, 8000 // of base64, and pixels
	w, h := imagesize.Of(&s)
	switch {
	case len(s.Data) > maxBytes:
		return "more than 5 MB"
	case max(w, h) > maxSide:
		return "more than 8,000 pixels"
	}
	return ""
}

// IsBase64 reports whether s is padded standard base64 of at least one byte.
func IsBase64(s string) bool {
	const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	body := strings.TrimSuffix(strings.TrimSuffix(s, "="), "=")
	return len(s) > 0 && len(s)%4 == 0 && strings.Trim(body, digits) == ""
}

// TextBase64 returns a text as a file in base64.
func TextBase64(text string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.ToValidUTF8(text, "\uFFFD")))
}

// SourceProblem explains why a target does not take a source.
func SourceProblem(s transcript.Source) string {
	switch s.Type {
	case "base64":
		if IsBase64(s.Data) && (MediaType(s.Data) != "" || !slices.Contains(slices.Concat(mediaTypes["image"], mediaTypes["document"]), s.MediaType)) {
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

// IsDocumentContent reports whether value is a text, or a list of texts and
// images.
func IsDocumentContent(value []byte) bool {
	if !jsontext.Valid(value) {
		return false
	}
	if s, ok := jsontext.String(jsontext.Trim(value)); ok {
		return !neutral.IsBlank(s)
	}
	content := js.Elements(value)
	return len(content) > 0 && !slices.ContainsFunc(content, func(e json.RawMessage) bool {
		kind := js.String(e, "type")
		return kind != "image" && (kind != "text" || neutral.IsBlank(js.String(e, "text")))
	})
}

// BlocksOfDocument returns the texts and images of a document.
func BlocksOfDocument(content json.RawMessage) (blocks []transcript.Block) {
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
