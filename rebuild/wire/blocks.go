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

// optional names the members that a block may have besides its own.
var optional = map[string][]string{
	"text":        {cacheControl, "citations"},
	"image":       {cacheControl},
	"document":    {cacheControl, "citations", "context", "title"},
	"tool_use":    {cacheControl, "caller", toolsetName},
	"tool_result": {cacheControl},
}

// userBlock returns what a user message has in the place of b.
func (r *renderer) userBlock(entry string, b transcript.Block) transcript.Block {
	switch b := b.(type) {
	case transcript.TextBlock:
		b.Extra = r.extra(entry, "text", b.Extra, true, !rebuild.IsBlank(b.Text))
		return b
	case transcript.ImageBlock:
		var problem string
		if b.Source, problem = r.source(entry, b.Source, "image"); problem != "" {
			return r.replaced(entry, "image", problem)
		}
		b.Extra = r.extra(entry, "image", b.Extra, true, true)
		return b
	case transcript.DocumentBlock:
		var problem string
		if b.Source, problem = r.source(entry, b.Source, "document"); problem != "" {
			return r.replaced(entry, "document", problem)
		}
		b.Extra = r.extra(entry, "document", b.Extra, true, true)
		return b
	case transcript.ToolResultBlock:
		return r.result(entry, b)
	case transcript.ToolCallBlock:
		return b // not repaired here
	case transcript.RawBlock:
		if isSearchResult(b.JSON) || isUpload(b) {
			return r.rawBlock(entry, b)
		}
	}
	return transcript.TextBlock{Text: r.plain(entry, b)}
}

// result renders the content of a tool result.
func (r *renderer) result(entry string, b transcript.ToolResultBlock) transcript.ToolResultBlock {
	content := make([]transcript.Block, 0, len(b.Content))
	for _, c := range b.Content {
		switch c := c.(type) {
		case transcript.ToolResultBlock, transcript.ToolCallBlock:
			content = append(content, r.replaced(entry, c.BlockType(), "inside a result"))
		case transcript.ImageBlock, transcript.DocumentBlock, transcript.RawBlock:
			if b.IsError {
				content = append(content, r.replaced(entry, c.BlockType(), "in an error"))
				continue
			}
			content = append(content, r.userBlock(entry, c))
		default:
			content = append(content, r.userBlock(entry, c))
		}
	}
	b.Content = content // b stays a plain text if it was one
	given := maps.Clone(b.Extra)
	delete(given, toolsetName)
	b.Extra = r.extra(entry, "tool_result", given, true, true)
	if name := r.toolsets[b.CallID]; name != nil {
		b.Extra = withMember(b.Extra, toolsetName, name)
	}
	return b
}

// replaced returns the text that stands for a block the target does not take.
func (r *renderer) replaced(entry, kind, why string) transcript.Block {
	return transcript.TextBlock{Text: r.leftOut(entry, kind, why)}
}

// extra returns the members of extra that a block of that kind may have. What
// refers to the provider's own state goes back only to a native block; ext is
// no other's business and not worth a report.
func (r *renderer) extra(entry, kind string, extra transcript.Extra, native, markable bool) transcript.Extra {
	if len(extra) == 0 {
		return nil
	}
	var out transcript.Extra
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		value := extra[name]
		switch {
		case name == "ext":
		case !slices.Contains(optional[kind], name) || !shaped(kind, name, value),
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
}

// shaped reports whether the value of an optional member is of the type that
// the target wants.
func shaped(kind, name string, value json.RawMessage) bool {
	if jsontext.IsNull(value) {
		return true
	}
	if !jsontext.Valid(value) {
		return false
	}
	switch name {
	case cacheControl:
		return jsontext.IsObject(value) && stringMember(value, "type") == "ephemeral"
	case "citations":
		if kind == "text" {
			return jsontext.IsArray(value)
		}
		return jsontext.IsObject(value)
	case "caller":
		return jsontext.IsObject(value)
	case toolsetName:
		return jsontext.IsString(value)
	}
	return false
}
