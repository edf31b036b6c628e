package codex

import (
	"cmp"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// item returns the bodies of an item of the Responses API.
func item(r fields.Record) []transcript.Body {
	switch kind := r.Str("type"); kind {
	case "message":
		return []transcript.Body{message(r)}
	case "agent_message": // of another agent to this one
		if text := joined(r.Elements("content"), "text", "\n"); text != "" {
			return []transcript.Body{fields.User(transcript.TextBlock{Text: text})}
		}
		return []transcript.Body{fields.Aside(kind)}
	case "reasoning":
		return []transcript.Body{reasoning(r)}
	case "function_call", "custom_tool_call", "local_shell_call":
		return []transcript.Body{fields.Call(call(r))}
	case "function_call_output", "custom_tool_call_output":
		return []transcript.Body{result(r)}
	case "web_search_call", "image_generation_call":
		if b, err := transcript.UnmarshalBlock(object(r)); err == nil { // by the provider
			return []transcript.Body{fields.Answer(b)}
		}
		return []transcript.Body{fields.Aside(kind)}
	default:
		return []transcript.Body{other(kind)}
	}
}

// message returns a message. Texts of the program to its model are asides: newer files
// name the kind of each, and older ones show it by the beginning.
func message(r fields.Record) transcript.Body {
	role := r.Str("role")
	var blocks []transcript.Block
	context := r[rows.Own] == nil
	if kinds := string(r.Object("internal_chat_message_metadata_passthrough")["content_item_kinds"]); strings.Contains(kinds, `"user.`) {
		context = false
	}
	for _, raw := range r.Elements("content") {
		b := content(raw)
		t, isText := b.(transcript.TextBlock)
		context = context && isText && isContext(t.Text)
		if isText && role == "assistant" {
			t.Extra = itemExtra(r, "id", "status", "phase")
			b = t
		}
		blocks = append(blocks, b)
	}
	switch {
	case role == "assistant":
		return fields.Answer(blocks...)
	case role == "user" && (!context || len(blocks) == 0):
		return fields.User(blocks...)
	case role == "user":
		return fields.Aside("context")
	case role == "developer" || role == "system":
		return fields.Aside(role)
	}
	return transcript.Unknown{Kind: "message"}
}

// content returns the block of a part of a message or of a result.
func content(raw []byte) transcript.Block {
	p := fields.Of(raw)
	switch p.Str("type") {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		return transcript.TextBlock{Text: p.Str("text")}
	case "input_image", "image":
		url := cmp.Or(p.Str("image_url"), p.Object("image_url").Str("url"))
		if url == "" {
			return fields.Note("image", p.Str("file_id"))
		}
		return fields.Media(url, "", "")
	case "local_image":
		return fields.Note("image", p.Str("path"))
	}
	if b, err := transcript.UnmarshalBlock(raw); err == nil {
		return b
	}
	return transcript.TextBlock{Text: fields.Text(raw)}
}

// reasoning returns reasoning with its item, which goes back to the provider whole.
func reasoning(r fields.Record) transcript.Body {
	text := cmp.Or(joined(r.Elements("content"), "text", "\n\n"), joined(r.Elements("summary"), "text", "\n\n"))
	return fields.Answer(transcript.ThinkingBlock{Thinking: text, Extra: itemExtra(r, "type", "id", "summary", "content", "encrypted_content")})
}

func call(r fields.Record) transcript.ToolCallBlock {
	c := transcript.ToolCallBlock{ID: cmp.Or(r.Str("call_id"), r.Str("id")), Name: r.Str("name"), Extra: itemExtra(r, "id", "status")}
	kind := r.Str("type")
	switch kind {
	case "function_call":
		c.Input = fields.Input(r["arguments"], "arguments")
		return c
	case "custom_tool_call":
		o := jsontext.AppendObject(nil)
		o.String("input", r.Text("input"))
		c.Input = o.End()
	default:
		c.Name = "local_shell"
		o := jsontext.AppendObject(nil)
		o.OptValue("action", r["action"])
		c.Input = o.End()
	}
	if c.Extra == nil {
		c.Extra = transcript.Extra{"ext": []byte(`{}`)}
	}
	o := jsontext.AppendObject(nil)
	o.String("type", kind)
	if kept, ok := jsontext.Member(c.Extra["ext"], "item"); ok {
		o.Value("item", kept)
	}
	c.Extra["ext"] = o.End()
	return c
}

// result returns the output of a call: text, parts, or an object with a text.
func result(r fields.Record) transcript.Body {
	output, failed := r["output"], false
	if jsontext.IsObject(output) {
		o := fields.Of(output)
		if success, ok := jsontext.Bool(o["success"]); ok {
			failed = !success
		}
		output = o["content"]
	}
	if !jsontext.IsArray(output) {
		return fields.Result(r.Str("call_id"), failed, transcript.TextBlock{Text: fields.Text(output)})
	}
	blocks := []transcript.Block{}
	for part := range jsontext.Elements(output) {
		blocks = append(blocks, content(part))
	}
	return fields.Result(r.Str("call_id"), failed, blocks...)
}

// itemExtra keeps members of an item for the API that made it, and for no other.
func itemExtra(r fields.Record, names ...string) transcript.Extra {
	kept := fields.Record{}
	for _, name := range names {
		if r[name] != nil {
			kept[name] = r[name]
		}
	}
	if kept["id"] == nil && kept["phase"] == nil {
		return nil
	}
	o := jsontext.AppendObject(nil)
	o.Value("item", object(kept, names...))
	return transcript.Extra{"ext": o.End()}
}

// object returns the JSON of a record, the named members first.
func object(r fields.Record, names ...string) []byte {
	o := jsontext.AppendObject(nil)
	for name := range r {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if r[name] != nil {
			o.Value(name, r[name])
		}
	}
	return o.End()
}
