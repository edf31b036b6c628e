package transcript

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
)

// Block is one element of a message's content. The set is closed: TextBlock,
// ImageBlock, DocumentBlock, ToolCallBlock, ToolResultBlock, ThinkingBlock,
// RedactedThinkingBlock, ContextBlock, and RawBlock for everything else. All
// are values.
type Block interface{ blockType() string }

// BlockType returns the "type" member of a block's JSON. It is empty for a RawBlock whose
// JSON lacks one.
func BlockType(b Block) string { return b.blockType() }

// Extra holds the members of a block's JSON that have no field of their own,
// cache_control and citations among them. The member "ext" holds data for one
// API that no other may see (item IDs, thought signatures). It may be nil. Do
// not name members "type" or like a field: "type" is left out, and a reader may
// take either of two equal names.
type Extra map[string]json.RawMessage

// with returns e with a copy of a member added. e may be nil.
func (e Extra) with(name string, value []byte) Extra {
	if e == nil {
		e = Extra{}
	}
	e[name] = jsontext.AppendValue(nil, value)
	return e
}

func (e Extra) write(o *jsontext.Object) {
	if len(e) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(e)) {
		if name != "type" { // it would change the object's type
			o.Value(name, e[name])
		}
	}
}

// TextBlock is text.
type TextBlock struct {
	Text  string
	Extra Extra
}

// ImageBlock is an image.
type ImageBlock struct {
	Source Source
	Extra  Extra
}

// DocumentBlock is a document, a PDF for example.
type DocumentBlock struct {
	Source  Source
	Title   string
	Context string // what the document is about, for the model
	Extra   Extra
}

// Source locates the bytes of an image or a document: in the block (Type
// "base64", Data in base64; Type "text", Data as plain text), at a URL (Type
// "url"), at the provider (Type "file") or outside of the transcript (Type
// "blob").
type Source struct {
	Type      string
	MediaType string
	Data      string
	URL       string
	FileID    string
	Blob      Blob
	Extra     Extra
}

// Blob names bytes stored outside of a transcript.
type Blob struct {
	SHA256 string `json:"sha256"` // of the bytes, in lower-case hexadecimal digits
	Bytes  int    `json:"bytes"`
	// Width and Height of an image are in pixels; 0 if unknown.
	Width  int `json:"width,omitempty"`
	Height int `json:"height,omitempty"`
}

// ToolCallBlock is a model's request to run a tool.
type ToolCallBlock struct {
	ID   string
	Name string
	// Input is the JSON object of arguments as the model wrote it, spelling
	// and spaces included; if it has line breaks, the white space between its
	// tokens is lost when it is stored. Text that is not valid JSON, such as
	// the input of a cut stream, is stored as a JSON string that holds it, and
	// empty input as no member.
	Input json.RawMessage
	Extra Extra
}

// ToolResultBlock is the outcome of a tool call.
type ToolResultBlock struct {
	CallID  string // the ID of the ToolCallBlock it answers
	Content []Block
	IsError bool
	Extra   Extra
	plain   bool // Content is one text and is written as a JSON string
}

// ThinkingBlock is the visible reasoning of a model. Its signature is valid
// only for the unchanged text and the model that made it.
type ThinkingBlock struct {
	Thinking  string
	Signature string
	Extra     Extra
}

// RedactedThinkingBlock is reasoning that the provider encrypted.
type RedactedThinkingBlock struct {
	Data  string
	Extra Extra
}

// IsMedia reports whether a block is an image or a document.
func IsMedia(b Block) bool {
	switch b.(type) {
	case ImageBlock, DocumentBlock:
		return true
	}
	return false
}

// IsReasoning reports whether a block is reasoning, to read or encrypted.
func IsReasoning(b Block) bool {
	switch b.(type) {
	case ThinkingBlock, RedactedThinkingBlock:
		return true
	}
	return false
}

// ContextBlock refers to a resource, a memory or a skill that the message
// drew on. Models see it as text.
type ContextBlock struct {
	URI      string
	Kind     string // resource, memory or skill
	Abstract string // one line about it
	Extra    Extra
}

// RawBlock is a block of an unknown type, or of a known type with unusable
// members: its JSON, unchanged.
type RawBlock struct {
	JSON json.RawMessage // a valid object with a string member "type"
	kind string
}

func (TextBlock) blockType() string             { return "text" }
func (ImageBlock) blockType() string            { return "image" }
func (DocumentBlock) blockType() string         { return "document" }
func (ToolCallBlock) blockType() string         { return "tool_use" }
func (ToolResultBlock) blockType() string       { return "tool_result" }
func (ThinkingBlock) blockType() string         { return "thinking" }
func (RedactedThinkingBlock) blockType() string { return "redacted_thinking" }
func (ContextBlock) blockType() string          { return "context" }

func (b RawBlock) blockType() string {
	if b.kind != "" {
		return b.kind
	}
	return typeMember(b.JSON)
}

// Text returns the text of the result: its text blocks, joined by newlines.
func (b ToolResultBlock) Text() string { return joinText(b.Content, "\n") }

func joinText(blocks []Block, sep string) string {
	var sb strings.Builder
	for _, b := range blocks {
		if t, ok := b.(TextBlock); ok && t.Text != "" {
			if sb.Len() > 0 {
				sb.WriteString(sep)
			}
			sb.WriteString(t.Text)
		}
	}
	return sb.String()
}

func typeMember(obj []byte) string {
	raw, _ := jsontext.Member(obj, "type")
	s, _ := jsontext.String(raw)
	return s
}

var errShape = errors.New("not of the expected shape")
