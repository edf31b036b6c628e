package opencode

import (
	"cmp"
	"strings"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// second returns the bodies of a message with a type.
func second(r fields.Record) []transcript.Body {
	switch kind := r.Str("type"); kind {
	case "user":
		blocks := fields.Texts(r.Str("text"))
		for f := range r.Objects("files") {
			blocks = append(blocks, file(f))
		}
		return []transcript.Body{fields.User(blocks...)}
	case "synthetic":
		return []transcript.Body{fields.User(fields.Texts(r.Str("text"))...)}
	case "shell": // that the user ran
		text := "Ran `" + r.Str("command") + "`\n```\n" + strings.TrimRight(r.Str("output"), "\n") + "\n```"
		return []transcript.Body{fields.User(transcript.TextBlock{Text: text})}
	case "assistant":
		m := &message{}
		for c := range r.Objects("content") {
			m.content(c)
		}
		return answer(r, m)
	case "compaction":
		summary := r.Str("summary")
		if recent := r.Str("recent"); recent != "" {
			summary += "\n\n" + recent
		}
		return []transcript.Body{transcript.Compaction{Summary: summary}}
	case "system", "agent-switched", "model-switched":
		return []transcript.Body{fields.Aside(kind)}
	default:
		return []transcript.Body{transcript.Unknown{Kind: kind}}
	}
}

func file(f fields.Record) transcript.Block {
	url := cmp.Or(f.Str("uri"), f.Str("url"))
	return fields.Media(url, f.Str("mime"), f.Str("name"))
}

func (m *message) content(p fields.Record) {
	switch kind := p.Str("type"); kind {
	case "text":
		m.Blocks = append(m.Blocks, fields.Texts(p.Str("text"))...)
	case "reasoning":
		m.Blocks = append(m.Blocks, reasoning(p.Str("text"), p.Object("providerMetadata")))
	case "tool":
		state, id := p.Object("state"), p.Str("id")
		m.Blocks = append(m.Blocks, transcript.ToolCallBlock{ID: id, Name: p.Str("name"), Input: fields.Input(state["input"], "input")})
		output := []transcript.Block{}
		for _, member := range []string{"content", "attachments"} {
			for c := range state.Objects(member) {
				if c.Str("type") == "text" {
					output = append(output, transcript.TextBlock{Text: c.Str("text")})
				} else {
					output = append(output, file(c))
				}
			}
		}
		switch state.Str("status") {
		case "completed":
			m.Results = append(m.Results, fields.Result(id, false, output...))
		case "error":
			output = append(output, fields.Texts(state.Object("error").Str("message"))...)
			m.Results = append(m.Results, fields.Result(id, true, output...))
		}
	default:
		m.Blocks = append(m.Blocks, fields.Note(kind, ""))
	}
}
