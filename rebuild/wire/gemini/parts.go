package gemini

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Document returns the parts of a document: its subject, and its texts and images or
// its bytes.
func (r *renderer) Document(entry string, b transcript.DocumentBlock) (parts []transcript.Block) {
	if about := format.AboutDocument(b); about != "" {
		r.Note("replaced-block", entry, "the title of a document")
		parts = format.PlainText(about)
	}
	if content := b.Source.Extra["content"]; b.Source.Type == "content" && format.IsDocumentContent(content) {
		for _, b := range format.BlocksOfDocument(content) {
			parts = append(parts, r.Parts(r, entry, b)...)
		}
		return parts
	}
	clean, problem := r.Source(b.Source, "document")
	if problem != "" {
		return append(parts, format.PlainText(r.LeftOut(entry, "document", problem))...)
	}
	return append(parts, transcript.DocumentBlock{Source: clean})
}

// Source returns an image or a document as bytes or by its URI, or a problem.
func (r *renderer) Source(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	uri := s.URL
	if s.Type == "file" {
		uri = s.FileID
	}
	mime, data := blobOf(s, kind)
	switch {
	case data != "":
		return transcript.Source{MediaType: mime, Data: data}, ""
	case (s.Type == "url" || s.Type == "file") && isFileURI(uri):
		return transcript.Source{MediaType: cmp.Or(s.MediaType, uriTypes[strings.ToLower(path.Ext(uri))]), URL: uri}, ""
	}
	return s, format.SourceProblem(s)
}

// partJSON returns the JSON of a block of a user's content.
func partJSON(b transcript.Block) js.Written {
	if text, ok := b.(transcript.TextBlock); ok {
		return js.Text(text.Text)
	}
	s := sourceOf(b)
	if s.URL != "" {
		return js.Object("fileData", js.Object("mimeType", js.Opt(s.MediaType), "fileUri", s.URL))
	}
	return js.Object("inlineData", js.Object("mimeType", s.MediaType, "data", s.Data))
}

func sourceOf(b transcript.Block) transcript.Source {
	switch b := b.(type) {
	case transcript.ImageBlock:
		return b.Source
	case transcript.DocumentBlock:
		return b.Source
	}
	return transcript.Source{}
}

// blobOf returns the media type and the base64 of an inline image or document;
// data is empty if the API does not take it. A plain text becomes base64.
func blobOf(s transcript.Source, kind string) (mime, data string) {
	switch {
	case s.Type == "text" && kind == "document" && s.Data != "":
		return "text/plain", format.TextBase64(s.Data)
	case s.Type == "base64" && format.IsBase64(s.Data):
		mime = s.MediaType
		if kind == "image" && !strings.HasPrefix(mime, "image/hei") || mime == "application/pdf" {
			mime = format.MediaType(s.Data)
		}
		if slices.Contains(mediaTypes[kind], mime) || kind == "document" && isSound(mime) {
			return mime, s.Data
		}
	}
	return "", ""
}

// mediaTypes are the media types of images and documents that the API takes.
var mediaTypes = map[string][]string{
	"image": {"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"},
	"document": {
		"application/pdf", "text/plain", "text/html", "text/css", "text/markdown", "text/csv", "text/xml", "text/rtf", "text/javascript",
	},
}

// isSound reports whether a media type is of audio or video, which a document may hold.
func isSound(mime string) bool {
	return strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

// isFileURI reports whether the API can fetch uri: a web page, or a file of
// Google's.
func isFileURI(uri string) bool {
	scheme, rest, _ := strings.Cut(uri, "://")
	return (scheme == "https" || scheme == "gs") && rest != ""
}

// uriTypes are media types by the extension of a URI.
var uriTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
	".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown", ".html": "text/html",
}

// signatureOf returns the thought signature in ext, or "" if it is not
// readable.
func signatureOf(extra transcript.Extra) string {
	signature := js.String(format.ExtObject(extra), "thoughtSignature")
	if signature != skipSignature && !format.IsBase64(signature) {
		return ""
	}
	return signature
}

// opaquePart returns the part in a block, or nil if the API would not take it
// back. Parts that only the API knows go back as they came.
func opaquePart(b transcript.RawBlock) []byte {
	part := js.Get(b.JSON, "part")
	if transcript.BlockType(b) != format.OpaqueGemini || !jsontext.Valid(b.JSON) || !js.HasEachOnce(part) {
		return nil
	}
	ok, known, others := true, 0, 0
	for name, value := range jsontext.Members(part) {
		known++
		switch name {
		case "text", "functionCall", "functionResponse":
			return nil // in another place
		case "executableCode":
			ok = ok && js.String(value, "code") != "" && js.String(value, "language") != ""
		case "codeExecutionResult":
			ok = ok && js.String(value, "outcome") != ""
		case "inlineData":
			mime := js.String(value, "mimeType")
			ok = ok && js.HasOnly(value, "mimeType", "data", "displayName") && format.IsBase64(js.String(value, "data")) &&
				(slices.Contains(slices.Concat(mediaTypes["image"], mediaTypes["document"]), mime) || isSound(mime))
		case "fileData":
			ok = ok && js.HasOnly(value, "mimeType", "fileUri", "displayName") && isFileURI(js.String(value, "fileUri"))
		case "thoughtSignature":
			ok = ok && format.IsBase64(js.String(value))
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
