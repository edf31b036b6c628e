package wire

import (
	"strconv"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// source returns an image as bytes.
func (r *bedrockRenderer) source(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	clean, problem = cleanSource(s, kind)
	switch {
	case r.media.take(kind):
		return s, "more than " + strconv.Itoa(maxImages)
	case problem != "" || s.Type != "base64":
		return s, sourceProblem(s)
	}
	return clean, ""
}

// documentFormats holds the formats of documents by media type.
var documentFormats = map[string]string{
	"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
	"application/msword": "doc", "application/vnd.ms-excel": "xls",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
}

func (r *bedrockRenderer) document(entry string, b transcript.DocumentBlock) []transcript.Block {
	data := b.Source.Data
	switch {
	case r.media.take("document"):
		return plainText(r.leftOut(entry, "document", "more than "+strconv.Itoa(maxDocuments)))
	case b.Source.Type == "content" && isDocumentContent(b.Source.Extra["content"]):
		return r.contentBlocks(entry, b)
	case b.Source.Type == "text" && !rebuild.IsBlank(data):
		b.Source.MediaType, b.Source.Data = "text/plain", textBase64(data)
	case b.Source.Type != "base64" || documentFormats[b.Source.MediaType] == "" || !isBase64(data):
		return plainText(r.leftOut(entry, "document", sourceProblem(b.Source)))
	}
	name := r.documentName(b.Title)
	if b.Title != "" && name != b.Title {
		r.note(rebuild.BadName, entry, "document "+b.Title+" became "+name)
	}
	if b.Title = name; rebuild.IsBlank(b.Context) {
		b.Context = ""
	}
	return []transcript.Block{b}
}

// contentBlocks returns the texts and images that a document consists of.
func (r *bedrockRenderer) contentBlocks(entry string, b transcript.DocumentBlock) (out []transcript.Block) {
	if about := aboutDocument(b); about != "" {
		out = plainText(about)
	}
	r.note(rebuild.ReplacedBlock, entry, "a document of texts and images")
	for _, part := range blocksOfDocument(b.Source.Extra["content"]) {
		if image, ok := part.(transcript.ImageBlock); ok {
			// It is not in the count of images, so it does not go out.
			out = append(out, plainText(r.leftOut(entry, image.BlockType(), "in a document"))...)
		} else {
			out = append(out, r.parts(r, entry, part)...)
		}
	}
	return out
}

// documentName makes a name of the characters that the API allows, without two
// spaces in a row, of at most 200 bytes, that no document of the request has.
func (r *bedrockRenderer) documentName(title string) string {
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

func textJSON(text string) written { return object("text", text) }
