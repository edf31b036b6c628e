package messages

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

const (
	CacheControl = "cache_control" // the member that is a cache mark
	// ToolsetName names the provider's toolset in a call; the result has to
	// repeat it.
	ToolsetName = "toolset_name"
)

// UserBlocks returns the rendering of b in a user message or a result.
func (r *Renderer) UserBlocks(entry string, b transcript.Block) []transcript.Block {
	if raw, ok := b.(transcript.RawBlock); ok && (format.IsSearchResult(raw.JSON) || isUpload(raw)) {
		return []transcript.Block{r.rawBlock(entry, raw)}
	}
	problem := ""
	switch media := b.(type) {
	case transcript.TextBlock, transcript.ToolCallBlock: // calls are not repaired here
	case transcript.ImageBlock:
		if media.Source, problem = r.source(entry, media.Source, "image"); r.TakesNo(b) {
			problem = format.TakesNone
		}
		b = media
	case transcript.DocumentBlock:
		if media.Source, problem = r.source(entry, media.Source, "document"); r.TakesNo(b) {
			problem = format.TakesNone
		}
		b = media
	default:
		return format.PlainText(r.Plain(entry, b))
	}
	if problem != "" {
		return format.PlainText(r.LeftOut(entry, transcript.BlockType(b), problem))
	}
	return []transcript.Block{r.Known(entry, b, true)}
}

// result renders a tool result; block renders each of its blocks.
func (r *Renderer) result(entry string, b transcript.ToolResultBlock, block func(entry string, b transcript.Block) []transcript.Block) transcript.Block {
	content := make([]transcript.Block, 0, len(b.Content))
	for _, c := range b.Content {
		text := ""
		switch raw := c.(type) {
		case transcript.ToolResultBlock, transcript.ToolCallBlock:
			text = r.LeftOut(entry, transcript.BlockType(c), "inside a result")
		case transcript.ImageBlock, transcript.DocumentBlock:
			if b.IsError {
				r.Media.Take(transcript.BlockType(c))
				text = r.LeftOut(entry, transcript.BlockType(c), "in an error")
			}
		case transcript.RawBlock:
			name := neutral.ToolName(js.String(raw.JSON, "tool_name"))
			switch known := transcript.BlockType(c) == "tool_reference" && r.Tools[name]; {
			case known && !b.IsError:
				content = append(content, transcript.RawBlock{JSON: js.Object("type", "tool_reference", "tool_name", name).Bytes()})
				continue
			case b.IsError, isUpload(raw):
				text = r.Plain(entry, c)
			}
		}
		if text != "" {
			content = append(content, format.PlainText(text)...)
		} else {
			content = append(content, block(entry, c)...)
		}
	}
	if b.IsError && len(content) == 0 && r.API == format.APIBedrock {
		content = format.PlainText("[error without a text]")
		r.Note("blank-text", entry, "of an error")
	}
	b.Content = content // a plain text stays one
	b.Extra = maps.Clone(b.Extra)
	delete(b.Extra, ToolsetName)
	b, _ = r.Known(entry, b, true).(transcript.ToolResultBlock)
	if name := r.toolsets[b.CallID]; name != nil {
		b.Extra = format.WithMember(b.Extra, ToolsetName, name)
	}
	return b
}

// Known returns b without the members that a block of its type cannot have.
// Members that refer to the provider's own state stay only in a native block.
// Dropping ext is not reported: it means nothing to another provider.
func (r *Renderer) Known(entry string, b transcript.Block, native bool) transcript.Block {
	kind := transcript.BlockType(b)
	text, isText := b.(transcript.TextBlock)
	markable := !isText || !neutral.IsBlank(text.Text)
	b, _ = WithExtra(b, func(extra transcript.Extra) (out transcript.Extra) {
		if len(extra) == 0 {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(extra)) {
			value := extra[name]
			switch {
			case name == "ext":
			case !slices.Contains(r.Optional[kind], name) || !shaped(kind, name, value),
				name == "caller" && !r.isCaller(value),
				name == CacheControl && !markable,
				(name == "citations" || name == "caller" || name == ToolsetName) && !native:
				r.Note("dropped-member", entry, name+" of a "+kind+" block")
			default:
				if out == nil {
					out = transcript.Extra{}
				}
				out[name] = value
			}
		}
		return out
	})
	return b
}

// shapes check the types of optional members.
var shapes = map[string]func(value []byte) bool{
	CacheControl: func(value []byte) bool { return js.String(value, "type") == "ephemeral" },
	"citations":  jsontext.IsObject,
	"caller":     jsontext.IsObject,
	ToolsetName:  jsontext.IsString,
}

// shaped reports whether the value of an optional member has the type that the
// target wants.
func shaped(kind, name string, value json.RawMessage) bool {
	is := shapes[name]
	if kind == "text" && name == "citations" {
		is = jsontext.IsArray
	}
	return jsontext.IsNull(value) || is != nil && jsontext.Valid(value) && is(value)
}

// CheckCache returns an error for an unknown CacheTTL.
func CheckCache(c wire.CacheTTL) error {
	if c != "" && c != wire.Cache5m && c != wire.Cache1h {
		return fmt.Errorf("wire: cache %q is neither %q nor %q", string(c), wire.Cache5m, wire.Cache1h)
	}
	return nil
}

// Mark returns a mark of a type. Without a time it means five minutes.
func Mark(c wire.CacheTTL, kind string) json.RawMessage {
	return js.Object("type", kind, "ttl", js.When(c == wire.Cache1h, `"1h"`)).Bytes()
}

// MarkedMessages returns the indexes of the messages that end with a mark: the
// last user message, and the one before, where the previous request ended.
func MarkedMessages(messages []transcript.Message) (marked []int) {
	for i, m := range slices.Backward(messages) {
		if m.Role == transcript.RoleUser && len(marked) < 2 {
			marked = append(marked, i)
		}
	}
	return marked
}

// WithExtra returns a block with further members; ok is false for a block that
// cannot take a cache mark among them.
func WithExtra(b transcript.Block, change func(transcript.Extra) transcript.Extra) (changed transcript.Block, ok bool) {
	switch b := b.(type) {
	case transcript.TextBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.ImageBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.DocumentBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.ToolCallBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.ToolResultBlock:
		b.Extra = change(b.Extra)
		return b, true
	case transcript.ThinkingBlock:
		b.Extra = change(b.Extra)
		return b, false
	case transcript.RedactedThinkingBlock:
		b.Extra = change(b.Extra)
		return b, false
	}
	return b, false
}

// source returns the rendered source, or a problem with it.
func (r *Renderer) source(entry string, s transcript.Source, kind string) (transcript.Source, string) {
	clean, problem := format.CleanSource(s, kind)
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
		r.Note("dropped-member", entry, "in the source, "+kind+" block")
	}
	return clean, r.Media.takeBytes(clean, kind)
}

// documentContent returns a document's texts and images as the target takes
// them.
func (r *Renderer) documentContent(entry string, content json.RawMessage) json.RawMessage {
	if !jsontext.IsArray(content) {
		return content
	}
	return js.List(format.BlocksOfDocument(content), func(b transcript.Block) js.Written {
		return js.Value(transcript.MarshalBlock(r.UserBlocks(entry, b)[0]))
	}).Bytes()
}

// A MediaBudget is the media still to leave out, first ones first.
type MediaBudget struct {
	Blocks  map[string]int // by their type
	Bytes   int
	Sources bool // also those that are not in the request themselves
}

// Take reports whether the next image or document is to be left out.
func (m *MediaBudget) Take(kind string) bool {
	if m.Blocks[kind] <= 0 {
		return false
	}
	m.Blocks[kind]--
	return true
}

// takeBytes returns the problem with the bytes of the next image or document,
// or "".
func (m *MediaBudget) takeBytes(source transcript.Source, kind string) string {
	problem := ""
	if kind == "image" {
		problem = format.ImageProblem(source)
	}
	switch n := len(source.Data); {
	case problem != "":
		return problem
	case m.Sources && (source.Type == "url" || source.Type == "file"):
		return "the service takes only bytes"
	case m.Bytes > 0 && n > 0:
		m.Bytes -= n
		return "the request has more than 32 MB"
	}
	return ""
}
