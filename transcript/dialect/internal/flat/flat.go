// Package flat reads the flat records of mini-claw and claw0.
package flat

import (
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// Decoder returns a decoder of flat records, for ScanOptions. The names are
// members that may hold the text of a result, in order of preference.
func Decoder(resultNames ...string) func(line []byte, offset int64) (transcript.Entry, error) {
	return func(line []byte, offset int64) (transcript.Entry, error) {
		r, err := fields.Parse(line)
		if err != nil {
			return transcript.Entry{}, err
		}
		kind, _ := jsontext.String(r["type"])
		if kind == "" {
			return transcript.Entry{}, fields.Malformed("no type")
		}
		e := transcript.Entry{ID: fields.AtOffset(offset), Time: fields.Time(r["ts"])}
		switch kind {
		case "session":
			e.Body = transcript.Header{Key: r.Text("key"), Created: fields.Time(r["created"])}
			if id := r.Text("id"); id != "" {
				e.ID = id
			}
		case transcript.TypeUser, transcript.TypeAssistant:
			f, ok := r.Message(kind, "content")
			if !ok {
				return transcript.Entry{}, fields.Malformed(kind + ` record: unusable "content"`)
			}
			e.Body = f
		case transcript.TypeToolUse:
			call := transcript.ToolCallBlock{ID: r.Text("tool_use_id"), Name: r.Text("name"), Input: json.RawMessage(`{}`)}
			if input := r["input"]; input != nil {
				call.Input = slices.Clone(input)
			}
			e.Body = fields.Call(call)
		case transcript.TypeToolResult:
			e.Body = transcript.MessageLine{Kind: kind, Role: transcript.RoleUser, Content: []transcript.Block{resultOf(r, resultNames)}}
		default:
			e.Body = transcript.Unknown{Kind: kind}
		}
		return e.WithLine(line), nil
	}
}

// result returns the block of a tool_result record. Output that is neither
// text nor blocks is kept as the text of its JSON.
func resultOf(r fields.Record, names []string) transcript.ToolResultBlock {
	b := transcript.ToolResultBlock{CallID: r.Text("tool_use_id")}
	b.IsError, _ = jsontext.Bool(r["is_error"])
	for _, name := range names {
		v := r[name]
		if v == nil {
			continue
		}
		content, ok := r.Content(name)
		if b.Content = content; jsontext.IsString(v) {
			return b.WithContent(content...)
		} else if ok {
			return b
		}
		return b.WithContent(transcript.TextBlock{Text: string(v)})
	}
	return b.WithContent(transcript.TextBlock{})
}
