package messages

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

const (
	CacheControl = "cache_control"
	// ToolsetName says of which toolset of the provider a tool is, in a call; its
	// result has to say it again.
	ToolsetName = "toolset_name"
)

// UserBlocks returns what a user message or a result has in the place of b.
func (r *Renderer) UserBlocks(entry string, b transcript.Block) []transcript.Block {
	if raw, ok := b.(transcript.RawBlock); ok && (format.IsSearchResult(raw.JSON) || isUpload(raw)) {
		return []transcript.Block{r.rawBlock(entry, raw)}
	}
	problem := ""
	switch media := b.(type) {
	case transcript.TextBlock, transcript.ToolCallBlock: // a call is not repaired here
	case transcript.ImageBlock:
		media.Source, problem = r.source(entry, media.Source, "image")
		b = media
	case transcript.DocumentBlock:
		media.Source, problem = r.source(entry, media.Source, "document")
		b = media
	default:
		return format.PlainText(r.Plain(entry, b))
	}
	if problem != "" {
		return format.PlainText(r.LeftOut(entry, b.BlockType(), problem))
	}
	return []transcript.Block{r.Known(entry, b, true)}
}

// result renders the content of a tool result, of which block makes the blocks.
func (r *Renderer) result(entry string, b transcript.ToolResultBlock, block func(entry string, b transcript.Block) []transcript.Block) transcript.Block {
	content := make([]transcript.Block, 0, len(b.Content))
	for _, c := range b.Content {
		text := ""
		switch c.(type) {
		case transcript.ToolResultBlock, transcript.ToolCallBlock:
			text = r.LeftOut(entry, c.BlockType(), "inside a result")
		case transcript.ImageBlock, transcript.DocumentBlock:
			if b.IsError {
				r.Media.Take(c.BlockType())
				text = r.LeftOut(entry, c.BlockType(), "in an error")
			}
		case transcript.RawBlock:
			if b.IsError {
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
		r.Note(rebuild.BlankText, entry, "of an error")
	}
	b.Content = content // b stays a plain text if it was one
	b.Extra = maps.Clone(b.Extra)
	delete(b.Extra, ToolsetName)
	b, _ = r.Known(entry, b, true).(transcript.ToolResultBlock)
	if name := r.toolsets[b.CallID]; name != nil {
		b.Extra = format.WithMember(b.Extra, ToolsetName, name)
	}
	return b
}

// Known returns b without the members that a block of its type cannot have. What
// refers to the provider's own state goes back only to a native block; ext is
// no other's business and not worth a report.
func (r *Renderer) Known(entry string, b transcript.Block, native bool) transcript.Block {
	kind := b.BlockType()
	text, isText := b.(transcript.TextBlock)
	markable := !isText || !rebuild.IsBlank(text.Text)
	b, _ = WithExtra(b, func(extra transcript.Extra) (out transcript.Extra) {
		if len(extra) == 0 {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(extra)) {
			value := extra[name]
			switch {
			case name == "ext":
			case !slices.Contains(r.Optional[kind], name) || !shaped(kind, name, value),
				name == CacheControl && !markable,
				(name == "citations" || name == "caller" || name == ToolsetName) && !native:
				r.Note(rebuild.DroppedMember, entry, name+" of a "+kind+" block")
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

// shapes are the types that optional members have.
var shapes = map[string]func(value []byte) bool{
	CacheControl: func(value []byte) bool { return js.String(value, "type") == "ephemeral" },
	"citations":  jsontext.IsObject,
	"caller":     jsontext.IsObject,
	ToolsetName:  jsontext.IsString,
}

// shaped reports whether the value of an optional member is of the type that
// the target wants.
func shaped(kind, name string, value json.RawMessage) bool {
	is := shapes[name]
	if kind == "text" && name == "citations" {
		is = jsontext.IsArray
	}
	return jsontext.IsNull(value) || is != nil && jsontext.Valid(value) && is(value)
}
