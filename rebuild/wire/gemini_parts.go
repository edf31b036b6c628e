package wire

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// opaqueGemini is the type of blocks that hold a part of a kind for which this
// package has no block: {"type":"gemini_part","part":{...}}.
const opaqueGemini = "gemini_part"

// userParts returns what a user content has in the place of b.
func (r *geminiRenderer) userParts(entry string, b transcript.Block) []geminiPart {
	switch b := b.(type) {
	case transcript.TextBlock:
		r.dropExtra(entry, "text", b.Extra)
		if rebuild.IsBlank(b.Text) {
			r.note(rebuild.BlankText, entry, "")
			return nil
		}
		return []geminiPart{textPart(entry, b.Text)}
	case transcript.ImageBlock:
		r.dropExtra(entry, "image", b.Extra)
		return r.media(entry, b.Source, "image")
	case transcript.DocumentBlock:
		r.dropExtra(entry, "document", b.Extra)
		var parts []geminiPart
		if about := aboutDocument(b); about != "" {
			r.note(rebuild.ReplacedBlock, entry, "the title of a document")
			parts = append(parts, textPart(entry, about))
		}
		return append(parts, r.media(entry, b.Source, "document")...)
	}
	return []geminiPart{textPart(entry, r.plain(entry, b))}
}

// media returns the parts for an image or a document.
func (r *geminiRenderer) media(entry string, s transcript.Source, kind string) []geminiPart {
	blob := func(mime, data string) []geminiPart {
		o := jsontext.AppendObject(nil)
		o.Func("inlineData", func(dst []byte) []byte { return appendBlob(dst, mime, data) })
		return []geminiPart{{json: o.End(), entry: entry}}
	}
	mime, data := geminiImage(s)
	if kind == "document" {
		mime, data = geminiDocument(s)
	}
	uri := s.URL
	if s.Type == "file" {
		uri = s.FileID
	}
	switch {
	case data != "":
		return blob(mime, data)
	case (s.Type == "url" || s.Type == "file") && isFileURI(uri):
		o := jsontext.AppendObject(nil)
		o.Object("fileData", func(f *jsontext.Object) {
			f.OptString("mimeType", uriType(s.MediaType, uri))
			f.String("fileUri", uri)
		})
		return []geminiPart{{json: o.End(), entry: entry}}
	case s.Type == "content" && kind == "document" && isDocumentContent(s.Extra["content"]):
		var parts []geminiPart
		for _, b := range blocksOfDocument(s.Extra["content"]) {
			parts = append(parts, r.userParts(entry, b)...)
		}
		return parts
	}
	return []geminiPart{textPart(entry, r.leftOut(entry, kind, sourceProblem(s)))}
}

func textPart(entry, text string) geminiPart {
	o := jsontext.AppendObject(nil)
	o.String("text", text)
	return geminiPart{json: o.End(), entry: entry}
}

func appendBlob(dst []byte, mime, data string) []byte {
	o := jsontext.AppendObject(dst)
	o.String("mimeType", mime)
	o.String("data", data)
	return o.End()
}

// geminiImage returns the type and the base64 of an image in the block; no
// data if the API does not take it.
func geminiImage(s transcript.Source) (mime, data string) {
	if slices.Contains(imageTypes, s.MediaType) && s.Type == "base64" && isBase64(s.Data) {
		return s.MediaType, s.Data
	}
	return "", ""
}

// geminiDocument does the same for a document; a plain text becomes base64.
func geminiDocument(s transcript.Source) (mime, data string) {
	switch {
	case s.Type == "text" && s.Data != "":
		return "text/plain", textBase64(s.Data)
	case s.Type == "base64" && isBase64(s.Data) && slices.Contains(documentTypes, s.MediaType):
		return s.MediaType, s.Data
	}
	return "", ""
}

// The media types of images and documents that the API takes.
var (
	imageTypes    = []string{"image/png", "image/jpeg", "image/webp", "image/heic", "image/heif"}
	documentTypes = []string{
		"application/pdf", "text/plain", "text/html", "text/css", "text/markdown", "text/csv", "text/xml", "text/rtf", "text/javascript",
	}
)

// isGeminiMedia reports whether the API takes bytes of a media type.
func isGeminiMedia(mime string) bool {
	return slices.Contains(imageTypes, mime) || slices.Contains(documentTypes, mime) ||
		strings.HasPrefix(mime, "audio/") || strings.HasPrefix(mime, "video/")
}

// isFileURI reports whether the API can fetch uri: a web page, or a file of
// Google's.
func isFileURI(uri string) bool {
	for _, scheme := range []string{"https://", "gs://"} {
		if rest, ok := strings.CutPrefix(uri, scheme); ok && rest != "" {
			return true
		}
	}
	return false
}

// uriType returns the media type of what is at uri, empty if it is not known.
func uriType(given, uri string) string {
	if given != "" {
		return given
	}
	for ext, mime := range map[string]string{
		".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp",
		".pdf": "application/pdf", ".txt": "text/plain", ".md": "text/markdown", ".html": "text/html",
	} {
		if len(uri) > len(ext) && strings.EqualFold(uri[len(uri)-len(ext):], ext) {
			return mime
		}
	}
	return ""
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

// geminiCallID returns the ID that the API gave a call.
func geminiCallID(extra transcript.Extra) string {
	call, _ := jsontext.Member(extObject(extra), "functionCall")
	if !jsontext.IsObject(call) {
		return ""
	}
	return stringMember(call, "id")
}

// opaquePart returns the part that a block holds, nil if it is none that the
// API takes back. Parts that only the API knows go back as they came.
func opaquePart(b transcript.RawBlock) []byte {
	part, _ := jsontext.Member(b.JSON, "part")
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
			signature, _ := jsontext.String(value)
			ok = ok && isBase64(signature)
			known--
		default:
			others++
			known--
		}
	}
	if !ok || known > 1 || known+others == 0 {
		return nil
	}
	return jsontext.AppendValue(nil, part)
}

// hasOnly reports whether a value is an object without other members than
// these, each at most once: of two equal names not everybody takes the same.
func hasOnly(value []byte, names ...string) bool {
	if !jsontext.IsObject(value) {
		return false
	}
	names = slices.Clone(names)
	for name := range jsontext.Members(value) {
		i := slices.Index(names, name)
		if i < 0 {
			return false
		}
		names = slices.Delete(names, i, i+1)
	}
	return true
}
