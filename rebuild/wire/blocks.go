package wire

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

const (
	cacheControl = "cache_control"
	// toolsetName says of which toolset of the provider a tool is, in a call; its
	// result has to say it again.
	toolsetName = "toolset_name"
)

// optional names the members that a block of the Messages API may have besides its own.
var optional = map[string][]string{
	"text":        {cacheControl, "citations"},
	"image":       {cacheControl},
	"document":    {cacheControl, "citations", "context", "title"},
	"tool_use":    {cacheControl, "caller", toolsetName},
	"tool_result": {cacheControl},
}

// userBlocks returns what a user message or a result has in the place of b.
func (r *renderer) userBlocks(entry string, b transcript.Block) []transcript.Block {
	if raw, ok := b.(transcript.RawBlock); ok && (isSearchResult(raw.JSON) || isUpload(raw)) {
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
		return plainText(r.plain(entry, b))
	}
	if problem != "" {
		return plainText(r.leftOut(entry, b.BlockType(), problem))
	}
	return []transcript.Block{r.known(entry, b, true)}
}

func plainText(text string) []transcript.Block {
	return []transcript.Block{transcript.TextBlock{Text: text}}
}

// result renders the content of a tool result, of which block makes the blocks.
func (r *renderer) result(entry string, b transcript.ToolResultBlock, block func(entry string, b transcript.Block) []transcript.Block) transcript.Block {
	content := make([]transcript.Block, 0, len(b.Content))
	for _, c := range b.Content {
		text := ""
		switch c.(type) {
		case transcript.ToolResultBlock, transcript.ToolCallBlock:
			text = r.leftOut(entry, c.BlockType(), "inside a result")
		case transcript.ImageBlock, transcript.DocumentBlock:
			if b.IsError {
				r.media.take(c.BlockType())
				text = r.leftOut(entry, c.BlockType(), "in an error")
			}
		case transcript.RawBlock:
			if b.IsError {
				text = r.plain(entry, c)
			}
		}
		if text != "" {
			content = append(content, plainText(text)...)
		} else {
			content = append(content, block(entry, c)...)
		}
	}
	if b.IsError && len(content) == 0 && r.api == apiBedrock {
		content = plainText("[error without a text]")
		r.note(rebuild.BlankText, entry, "of an error")
	}
	b.Content = content // b stays a plain text if it was one
	b.Extra = maps.Clone(b.Extra)
	delete(b.Extra, toolsetName)
	b, _ = r.known(entry, b, true).(transcript.ToolResultBlock)
	if name := r.toolsets[b.CallID]; name != nil {
		b.Extra = withMember(b.Extra, toolsetName, name)
	}
	return b
}

// known returns b without the members that a block of its type cannot have. What
// refers to the provider's own state goes back only to a native block; ext is
// no other's business and not worth a report.
func (r *renderer) known(entry string, b transcript.Block, native bool) transcript.Block {
	kind := b.BlockType()
	text, isText := b.(transcript.TextBlock)
	markable := !isText || !rebuild.IsBlank(text.Text)
	b, _ = withExtra(b, func(extra transcript.Extra) (out transcript.Extra) {
		if len(extra) == 0 {
			return nil
		}
		for _, name := range slices.Sorted(maps.Keys(extra)) {
			value := extra[name]
			switch {
			case name == "ext":
			case !slices.Contains(r.optional[kind], name) || !shaped(kind, name, value),
				name == cacheControl && !markable,
				(name == "citations" || name == "caller" || name == toolsetName) && !native:
				r.note(rebuild.DroppedMember, entry, name+" of a "+kind+" block")
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
	cacheControl: func(value []byte) bool { return stringMember(value, "type") == "ephemeral" },
	"citations":  jsontext.IsObject,
	"caller":     jsontext.IsObject,
	toolsetName:  jsontext.IsString,
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
