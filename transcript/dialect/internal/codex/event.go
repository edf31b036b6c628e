package codex

import (
	"cmp"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// event returns the bodies of an event. Those that show a part of the conversation are
// messages; Place sets them aside where items hold the same. All others are asides.
func event(r fields.Record) []transcript.Body {
	kind := r.Str("type")
	text := func(s string) transcript.Block { return transcript.TextBlock{Text: s} }
	switch kind {
	case "user_message":
		return []transcript.Body{fields.User(append(fields.Texts(r.Str("message")), images(r)...)...)}
	case "agent_message":
		return []transcript.Body{fields.Answer(text(r.Str("message")))}
	case "agent_reasoning", "agent_reasoning_raw_content":
		return []transcript.Body{fields.Answer(transcript.ThinkingBlock{Thinking: r.Str("text")})}
	case "item_completed":
		if bodies := completed(r.Object("item")); bodies != nil {
			return bodies
		}
	case "thread_name_updated":
		return []transcript.Body{transcript.Meta{Title: new(r.Str("thread_name"))}}
	case "":
		kind = "event_msg"
	}
	return []transcript.Body{fields.Aside(kind)}
}

func images(r fields.Record) []transcript.Block {
	var blocks []transcript.Block
	for _, raw := range r.Elements("images") {
		blocks = append(blocks, fields.Media(fields.Text(raw), "", ""))
	}
	for _, raw := range r.Elements("local_images") {
		blocks = append(blocks, fields.Note("image", fields.Text(raw)))
	}
	return blocks
}

// completed returns the bodies of an item of a paginated history, nil for those that
// are not part of the conversation.
func completed(r fields.Record) []transcript.Body {
	var blocks []transcript.Block
	for _, raw := range r.Elements("content") {
		p := fields.Of(raw)
		switch p.Str("type") {
		case "Text", "text":
			blocks = append(blocks, transcript.TextBlock{Text: p.Str("text")})
		default:
			blocks = append(blocks, content(raw))
		}
	}
	id := r.Str("id")
	call := func(name string, input []byte, failed bool, output string) []transcript.Body {
		return []transcript.Body{
			fields.Call(transcript.ToolCallBlock{ID: id, Name: name, Input: input}),
			fields.Result(id, failed, transcript.TextBlock{Text: output}),
		}
	}
	status := r.Str("status")
	failed := status == "failed" || status == "declined"
	switch r.Str("type") {
	case "UserMessage":
		return []transcript.Body{fields.User(blocks...)}
	case "AgentMessage":
		return []transcript.Body{fields.Answer(blocks...)}
	case "Plan":
		return []transcript.Body{fields.Answer(transcript.TextBlock{Text: r.Str("text")})}
	case "Reasoning":
		text := cmp.Or(joined(r.Elements("raw_content"), "", "\n\n"), joined(r.Elements("summary_text"), "", "\n\n"))
		return []transcript.Body{fields.Answer(transcript.ThinkingBlock{Thinking: text})}
	case "CommandExecution":
		o := jsontext.AppendObject(nil)
		o.OptValue("command", r["command"])
		output := cmp.Or(r.Str("aggregated_output"), r.Str("stdout")+r.Str("stderr"))
		return call("shell", o.End(), failed, output)
	case "McpToolCall":
		output := joined(r.Object("result").Elements("content"), "text", "\n")
		return call(r.Str("tool"), fields.Input(r["arguments"], "arguments"), failed, output+r.Object("error").Str("message"))
	case "DynamicToolCall":
		return call(r.Str("tool"), fields.Input(r["arguments"], "arguments"), failed, joined(r.Elements("content_items"), "text", "\n")+r.Str("error"))
	}
	return nil
}
