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

// opaqueGemini is the type of blocks that hold a part of a kind for which this
// package has no block: {"type":"gemini_part","part":{...}}.
const opaqueGemini = "gemini_part"

// userParts returns what a user content has in the place of b.
func (r *geminiRenderer) userParts(entry string, b transcript.Block) []geminiPart {
	switch b := b.(type) {
	case transcript.TextBlock:
		r.dropExtra(entry, "text", b.Extra)
		if isBlank(b.Text) {
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
	case transcript.ContextBlock, transcript.RawBlock:
		return []geminiPart{textPart(entry, r.plain(entry, b))}
	}
	return []geminiPart{textPart(entry, r.replaced(entry, blockType(b), ""))}
}

// plain returns the text that stands for a context reference, a search result
// or an opaque block.
func (r *geminiRenderer) plain(entry string, b transcript.Block) string {
	return plainText(&r.report, entry, b)
}

func (r *geminiRenderer) replaced(entry, kind, why string) string {
	return replacedText(&r.report, entry, kind, why)
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
		o.Func("fileData", func(dst []byte) []byte {
			f := jsontext.AppendObject(dst)
			f.OptString("mimeType", uriType(s.MediaType, uri))
			f.String("fileUri", uri)
			return f.End()
		})
		return []geminiPart{{json: o.End(), entry: entry}}
	case s.Type == "content" && kind == "document" && isDocumentContent(s.Extra["content"]):
		return r.contentParts(entry, s.Extra["content"])
	}
	return []geminiPart{textPart(entry, r.replaced(entry, kind, sourceProblem(s)))}
}

// contentParts returns the parts of a document that is a text or a list of
// texts and images.
func (r *geminiRenderer) contentParts(entry string, content json.RawMessage) (parts []geminiPart) {
	if text, ok := jsontext.String(jsontext.Trim(content)); ok {
		return []geminiPart{textPart(entry, text)}
	}
	for e := range jsontext.Elements(content) {
		if b, err := transcript.UnmarshalBlock(e); err == nil {
			parts = append(parts, r.userParts(entry, b)...)
		}
	}
	return parts
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
	switch s.MediaType {
	case "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif":
		if s.Type == "base64" && isBase64(s.Data) {
			return s.MediaType, s.Data
		}
	}
	return "", ""
}

// geminiDocument does the same for a document; a plain text becomes base64.
func geminiDocument(s transcript.Source) (mime, data string) {
	switch {
	case s.Type == "text" && s.Data != "":
		return "text/plain", base64.StdEncoding.EncodeToString([]byte(strings.ToValidUTF8(s.Data, "\uFFFD")))
	case s.Type == "base64" && isBase64(s.Data) && (s.MediaType == "application/pdf" || slices.Contains(textTypes, s.MediaType)):
		return s.MediaType, s.Data
	}
	return "", ""
}

// textTypes are the media types of texts that the API takes as documents.
var textTypes = []string{"text/plain", "text/html", "text/css", "text/markdown", "text/csv", "text/xml", "text/rtf", "text/javascript"}

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
	ext := extra["ext"]
	if !jsontext.Valid(ext) || !jsontext.IsObject(ext) {
		return ""
	}
	signature := stringMember(ext, "thoughtSignature")
	if !isBase64(signature) {
		return ""
	}
	return signature
}

// geminiCallID returns the ID that the API gave a call.
func geminiCallID(extra transcript.Extra) string {
	ext := extra["ext"]
	if !jsontext.Valid(ext) || !jsontext.IsObject(ext) {
		return ""
	}
	call, _ := jsontext.Member(ext, "functionCall")
	if !jsontext.IsObject(call) {
		return ""
	}
	return stringMember(call, "id")
}

// opaquePart returns the part that a block holds, nil if it is none that the
// API takes back.
func opaquePart(b transcript.RawBlock) []byte {
	if b.BlockType() != opaqueGemini || !jsontext.Valid(b.JSON) {
		return nil
	}
	part, _ := jsontext.Member(b.JSON, "part")
	if !jsontext.IsObject(part) {
		return nil
	}
	o := jsontext.AppendObject(nil)
	data := 0
	for name, value := range jsontext.Members(part) {
		switch name {
		case "executableCode":
			data += count(jsontext.IsObject(value) && stringMember(value, "code") != "" && stringMember(value, "language") != "")
		case "codeExecutionResult":
			data += count(jsontext.IsObject(value) && stringMember(value, "outcome") != "")
		case "inlineData":
			data += count(jsontext.IsObject(value) && stringMember(value, "mimeType") != "" && isBase64(stringMember(value, "data")))
		case "fileData":
			data += count(jsontext.IsObject(value) && isFileURI(stringMember(value, "fileUri")))
		case "thoughtSignature":
			if signature, _ := jsontext.String(value); !isBase64(signature) {
				return nil
			}
		default:
			return nil
		}
		o.Value(name, value)
	}
	if text := o.End(); data == 1 && memberCount(text) == memberCount(part) && memberCount(text) <= 2 {
		return text
	}
	return nil
}

func memberCount(obj []byte) int {
	names := map[string]bool{}
	n := 0
	for name := range jsontext.Members(obj) {
		if names[name] {
			return -1 // one of two equal names counts, but not everybody agrees which
		}
		names[name] = true
		n++
	}
	return n
}
