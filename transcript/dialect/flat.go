package dialect

import (
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// decoder returns a decoder of flat records, for ScanOptions. The names are
// members that may hold the text of a result, in order of preference.
func decoder(resultNames ...string) func(line []byte, offset int64) (transcript.Entry, error) {
	return func(line []byte, offset int64) (transcript.Entry, error) {
		r, err := parse(line)
		if err != nil {
			return transcript.Entry{}, err
		}
		kind, _ := jsontext.String(r["type"])
		if kind == "" {
			return transcript.Entry{}, malformed("no type")
		}
		e := transcript.Entry{ID: atOffset(offset), Time: parseTime(r["ts"])}
		switch kind {
		case "session":
			e.Body = transcript.Header{Key: r.text("key"), Created: parseTime(r["created"])}
			if id := r.text("id"); id != "" {
				e.ID = id
			}
		case transcript.TypeUser, transcript.TypeAssistant:
			f := transcript.MessageLine{Kind: kind, Role: transcript.Role(kind)}
			content, ok := r.content("content")
			if !ok {
				return transcript.Entry{}, malformed(kind + ` record: unusable "content"`)
			}
			e.Body = withContent(f, content, !jsontext.IsArray(r["content"]))
		case transcript.TypeToolUse:
			call := transcript.ToolCallBlock{ID: r.text("tool_use_id"), Name: r.text("name"), Input: json.RawMessage(`{}`)}
			if input := r["input"]; input != nil {
				call.Input = slices.Clone(input)
			}
			e.Body = transcript.MessageLine{Kind: kind, Role: transcript.RoleAssistant, Content: []transcript.Block{call}}
		case transcript.TypeToolResult:
			e.Body = transcript.MessageLine{Kind: kind, Role: transcript.RoleUser, Content: []transcript.Block{r.result(resultNames)}}
		default:
			e.Body = transcript.Unknown{Kind: kind}
		}
		return e.WithLine(line), nil
	}
}

// withContent sets the content of f, as a string if plain.
func withContent(f transcript.MessageLine, content []transcript.Block, plain bool) transcript.MessageLine {
	if plain {
		return f.WithContent(content...)
	}
	f.Content = content
	return f
}

// content returns the blocks of a member that is a string, an array of blocks
// and strings, or missing.
func (r record) content(name string) ([]transcript.Block, bool) {
	v := r[name]
	if v == nil || jsontext.IsString(v) {
		return []transcript.Block{transcript.TextBlock{Text: r.text(name)}}, true
	}
	if !jsontext.IsArray(v) {
		return nil, false
	}
	blocks := []transcript.Block{}
	for element := range jsontext.Elements(v) {
		if s, ok := jsontext.String(element); ok {
			blocks = append(blocks, transcript.TextBlock{Text: s})
			continue
		}
		b, err := transcript.UnmarshalBlock(element)
		if err != nil {
			return nil, false
		}
		blocks = append(blocks, b)
	}
	return blocks, true
}

// result returns the block of a tool_result record. Output that is neither
// text nor blocks is kept as the text of its JSON.
func (r record) result(names []string) transcript.ToolResultBlock {
	b := transcript.ToolResultBlock{CallID: r.text("tool_use_id")}
	b.IsError, _ = jsontext.Bool(r["is_error"])
	for _, name := range names {
		v := r[name]
		if v == nil {
			continue
		}
		content, ok := r.content(name)
		switch {
		case !ok:
			content = []transcript.Block{transcript.TextBlock{Text: string(v)}}
			return b.WithContent(content...)
		case jsontext.IsString(v):
			return b.WithContent(content...)
		}
		b.Content = content
		return b
	}
	return b.WithContent(transcript.TextBlock{})
}
