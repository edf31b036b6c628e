package wire

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// opaqueGemini is the type of blocks that hold a part of a kind for which this
// package has no block: {"type":"gemini_part","part":{...}}.
const opaqueGemini = "gemini_part"

// document returns the parts of a document: what it is about, and its texts and images
// or its bytes.
func (r *geminiRenderer) document(entry string, b transcript.DocumentBlock) (parts []transcript.Block) {
	if about := aboutDocument(b); about != "" {
		r.note(rebuild.ReplacedBlock, entry, "the title of a document")
		parts = plainText(about)
	}
	if content := b.Source.Extra["content"]; b.Source.Type == "content" && isDocumentContent(content) {
		for _, b := range blocksOfDocument(content) {
			parts = append(parts, r.parts(r, entry, b)...)
		}
		return parts
	}
	clean, problem := r.source(b.Source, "document")
	if problem != "" {
		return append(parts, plainText(r.leftOut(entry, "document", problem))...)
	}
	return append(parts, transcript.DocumentBlock{Source: clean})
}

// source returns an image or a document as bytes or by its URI, or what is wrong
// with it.
func (r *geminiRenderer) source(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	uri := s.URL
	if s.Type == "file" {
		uri = s.FileID
	}
	mime, data := geminiBlob(s, kind)
	switch {
	case data != "":
		return transcript.Source{MediaType: mime, Data: data}, ""
	case (s.Type == "url" || s.Type == "file") && isFileURI(uri):
		return transcript.Source{MediaType: cmp.Or(s.MediaType, uriTypes[strings.ToLower(path.Ext(uri))]), URL: uri}, ""
	}
	return s, sourceProblem(s)
}

// geminiJSON returns a block of a user content as it goes out.
func geminiJSON(b transcript.Block) written {
	var s transcript.Source
	switch b := b.(type) {
	case transcript.TextBlock:
		return textJSON(b.Text)
	case transcript.ImageBlock:
		s = b.Source
	case transcript.DocumentBlock:
		s = b.Source
	}
	if s.URL != "" {
		return object("fileData", object("mimeType", opt(s.MediaType), "fileUri", s.URL))
	}
	return object("inlineData", object("mimeType", s.MediaType, "data", s.Data))
}

// geminiBlob returns the type and the base64 of an image or a document in the block;
// no data if the API does not take it. A plain text becomes base64.
func geminiBlob(s transcript.Source, kind string) (mime, data string) {
	switch {
	case s.Type == "text" && kind == "document" && s.Data != "":
		return "text/plain", textBase64(s.Data)
	case s.Type == "base64" && isBase64(s.Data) && slices.Contains(geminiTypes[kind], s.MediaType):
		return s.MediaType, s.Data
	}
	return "", ""
}

// geminiTypes are the media types of images and documents that the API takes.
var geminiTypes = map[string][]string{
	"image": {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"},
	"document": {
		"application/pdf", "text/plain", "text/html", "text/css", "text/markdown", "text/csv", "text/xml", "text/rtf", "text/javascript",
	},
}

// isGeminiMedia reports whether the API takes bytes of a media type.
func isGeminiMedia(mime string) bool {
	return slices.Contains(geminiTypes["image"], mime) || slices.Contains(geminiTypes["document"], mime) ||
		strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

// isFileURI reports whether the API can fetch uri: a web page, or a file of
// Google's.
func isFileURI(uri string) bool {
	scheme, rest, _ := strings.Cut(uri, "://")
	return (scheme == "https" || scheme == "gs") && rest != ""
}

// uriTypes are the media types of what is at a URI, by how that ends.
var uriTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
	".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown", ".html": "text/html",
}

// geminiSignature returns the thought signature in ext, empty if there is none
// that the API can read.
func geminiSignature(extra transcript.Extra) string {
	signature := stringMember(extObject(extra), "thoughtSignature")
	if !isBase64(signature) {
		return ""
	}
	return signature
}

// opaquePart returns the part that a block holds, nil if it is none that the
// API takes back. Parts that only the API knows go back as they came.
func opaquePart(b transcript.RawBlock) []byte {
	part := get(b.JSON, "part")
	if b.BlockType() != opaqueGemini || !jsontext.Valid(b.JSON) || !hasEachOnce(part) {
		return nil
	}
	ok, known, others := true, 0, 0
	for name, value := range jsontext.Members(part) {
		known++
		switch name {
		case "text", "functionCall", "functionResponse":
			return nil // in another place
		case "executableCode":
			ok = ok && stringMember(value, "code") != "" && stringMember(value, "language") != ""
		case "codeExecutionResult":
			ok = ok && stringMember(value, "outcome") != ""
		case "inlineData":
			ok = ok && hasOnly(value, "mimeType", "data", "displayName") && isGeminiMedia(stringMember(value, "mimeType")) && isBase64(stringMember(value, "data"))
		case "fileData":
			ok = ok && hasOnly(value, "mimeType", "fileUri", "displayName") && isFileURI(stringMember(value, "fileUri"))
		case "thoughtSignature":
			ok = ok && isBase64(stringMember(value))
			known--
		default:
			others++
			known--
		}
	}
	if !ok || known > 1 || known+others == 0 {
		return nil
	}
	return part
}

// hasOnly reports whether a value is an object without other members than
// these, each at most once: of two equal names not everybody takes the same.
func hasOnly(value []byte, names ...string) bool {
	return len(without(value, names...)) == 0 && hasEachOnce(value)
}
