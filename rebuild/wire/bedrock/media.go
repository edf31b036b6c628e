package bedrock

import (
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/messages"
	"github.com/convolog/convolog/transcript"
)

// Limits of a request to Converse.
const (
	maxDocuments = 5
	maxImages    = 20
)

// countMedia counts how many documents and images are too many for Converse.
func countMedia(asked []transcript.Message) messages.MediaBudget {
	excess := map[string]int{"document": -maxDocuments, "image": -maxImages}
	for _, m := range asked {
		for _, b := range m.Content {
			all := []transcript.Block{b}
			if res, ok := b.(transcript.ToolResultBlock); ok {
				all = res.Content
			}
			for _, b := range all {
				sent := format.IsType[transcript.ImageBlock](b) || format.IsType[transcript.DocumentBlock](b)
				excess[format.BlockType(b)] += messages.Count(sent && m.Role == transcript.RoleUser)
			}
		}
	}
	return messages.MediaBudget{Blocks: excess}
}

// Source returns an image as bytes.
func (r *renderer) Source(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	clean, problem = format.CleanSource(s, kind)
	switch {
	case r.Media.Take(kind):
		return s, "more than " + strconv.Itoa(maxImages)
	case problem != "" || s.Type != "base64":
		return s, format.SourceProblem(s)
	}
	return clean, format.ImageProblem(s)
}

// documentFormats holds the formats of documents by media type.
var documentFormats = map[string]string{
	"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
	"application/msword": "doc", "application/vnd.ms-excel": "xls",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
}

func (r *renderer) Document(entry string, b transcript.DocumentBlock) []transcript.Block {
	data := b.Source.Data
	switch {
	case r.Media.Take("document"):
		return format.PlainText(r.LeftOut(entry, "document", "more than "+strconv.Itoa(maxDocuments)))
	case b.Source.Type == "content" && format.IsDocumentContent(b.Source.Extra["content"]):
		return r.contentBlocks(entry, b)
	case b.Source.Type == "text" && !neutral.IsBlank(data):
		b.Source.MediaType, b.Source.Data = "text/plain", format.TextBase64(data)
	case b.Source.Type == "base64" && (b.Source.MediaType == "application/pdf") != (format.MediaType(data) == "application/pdf"):
		return format.PlainText(r.LeftOut(entry, "document", "unreadable data"))
	case b.Source.Type != "base64" || documentFormats[b.Source.MediaType] == "" || !format.IsBase64(data):
		return format.PlainText(r.LeftOut(entry, "document", format.SourceProblem(b.Source)))
	}
	name := r.documentName(b.Title)
	if b.Title != "" && name != b.Title {
		r.Note("bad-name", entry, "document "+b.Title+" became "+name)
	}
	if b.Title = name; neutral.IsBlank(b.Context) {
		b.Context = ""
	}
	return []transcript.Block{b}
}

// contentBlocks returns the texts and images that a document consists of.
func (r *renderer) contentBlocks(entry string, b transcript.DocumentBlock) (out []transcript.Block) {
	if about := format.AboutDocument(b); about != "" {
		out = format.PlainText(about)
	}
	r.Note("replaced-block", entry, "a document of texts and images")
	for _, part := range format.BlocksOfDocument(b.Source.Extra["content"]) {
		if image, ok := part.(transcript.ImageBlock); ok {
			// The count of images lacks it, so it does not go out.
			out = append(out, format.PlainText(r.LeftOut(entry, transcript.BlockType(image), "in a document"))...)
		} else {
			out = append(out, r.Parts(r, entry, part)...)
		}
	}
	return out
}

// documentName makes a name that is new in the request, has at most 200 bytes
// and only characters that the API allows, and has no two spaces in a row.
func (r *renderer) documentName(title string) string {
	const most = 200
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune(" -()[]", c):
			return c
		}
		return '-'
	}, title)
	clean = strings.Join(strings.Fields(clean), " ")
	clean = strings.TrimSpace(clean[:min(len(clean), most-len(" 1000"))])
	if strings.Trim(clean, "-") == "" {
		clean = "document"
	}
	name := clean
	for n := 2; r.names[name]; n++ {
		name = clean + " " + strconv.Itoa(n)
	}
	r.names[name] = true
	return name
}
