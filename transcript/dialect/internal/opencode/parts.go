package opencode

import (
	"iter"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// first returns the bodies of a message with parts.
func first(info fields.Record, parts iter.Seq[fields.Record]) []transcript.Body {
	role := info.Str("role")
	m := &message{}
	var ask, more bool // for a compaction; parts that an answer was cut in
	for p := range parts {
		kind := p.Str("type")
		ask = ask || kind == "compaction"
		more = more || kind != "step-start" && kind != "reasoning"
		m.part(kind, p)
	}
	failed := info.Object("error").Str("name")
	switch {
	case role == "user" && ask && len(m.Blocks) == 0:
		return []transcript.Body{fields.Aside("compaction")}
	case role == "user":
		return []transcript.Body{fields.User(m.Blocks...)}
	case role != "assistant":
		return []transcript.Body{transcript.Unknown{Kind: role}}
	case info["error"] != nil && (failed != "MessageAbortedError" || !more),
		info.Flag("summary") && info.Str("finish") == "":
		return []transcript.Body{fields.Aside("excluded")} // as the program does
	case info.Flag("summary"):
		return []transcript.Body{transcript.Compaction{Summary: fields.Answer(m.Blocks...).Message().Text()}}
	}
	return answer(info, m)
}

func (m *message) part(kind string, p fields.Record) {
	switch kind {
	case "text":
		if !p.Flag("ignored") {
			m.Blocks = append(m.Blocks, fields.Texts(p.Str("text"))...)
		}
	case "reasoning":
		m.Blocks = append(m.Blocks, reasoning(p.Str("text"), p.Object("metadata")))
	case "file":
		// The program sends the text of these as a part of its own.
		if mime := p.Str("mime"); mime != "text/plain" && mime != "application/x-directory" {
			m.Blocks = append(m.Blocks, fields.Media(p.Str("url"), mime, p.Str("filename")))
		}
	case "tool":
		m.tool(p)
	case "subtask":
		m.Blocks = append(m.Blocks, fields.Texts(p.Str("prompt"))...)
	case "step-start":
		m.Flush()
	case "step-finish", "snapshot", "patch", "agent", "retry", "compaction": // of the program
	default:
		m.Blocks = append(m.Blocks, fields.Note(kind, ""))
	}
}

func (m *message) tool(p fields.Record) {
	state, id := p.Object("state"), p.Str("callID")
	m.Blocks = append(m.Blocks, transcript.ToolCallBlock{ID: id, Name: p.Str("tool"), Input: fields.Input(state["input"], "input")})
	switch state.Str("status") {
	case "completed":
		content := []transcript.Block{transcript.TextBlock{Text: state.Str("output")}}
		for a := range state.Objects("attachments") {
			content = append(content, fields.Media(a.Str("url"), a.Str("mime"), a.Str("filename")))
		}
		m.Results = append(m.Results, fields.Result(id, false, content...))
	case "error":
		if output := state.Object("metadata"); output.Flag("interrupted") && output.Str("output") != "" {
			m.Results = append(m.Results, fields.Result(id, false, fields.Texts(output.Str("output"))...))
			return
		}
		m.Results = append(m.Results, fields.Result(id, true, transcript.TextBlock{Text: state.Str("error")}))
	}
}
