package pi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// branchHeading precedes the summary of a branch that was left,
// summaryHeading one that is stored as a message. Both are the program's
// words to its model.
const (
	branchHeading  = "The following is a summary of a branch that this conversation came back from:"
	summaryHeading = "The conversation history before this point was compacted into the following summary:"
)

func message(m fields.Record) (transcript.Body, error) {
	switch role := m.Str("role"); role {
	case "user", "custom", "hookMessage":
		return userOf(m["content"])
	case "assistant":
		return answerOf(m)
	case "toolResult", "tool":
		content, plain, ok := contentOf(m["content"])
		if !ok {
			return nil, fields.Malformed(`toolResult message: unusable "content"`)
		}
		r := transcript.ToolResultBlock{Content: content, IsError: m.Flag("isError")}
		if plain {
			r = r.WithContent(content...)
		}
		r.CallID = cmp.Or(m.Text("toolCallId"), m.Text("toolUseId"), m.Text("tool_call_id"), m.Text("tool_use_id"), m.Text("callId"), m.Text("call_id"))
		return transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser, Content: []transcript.Block{r}}, nil
	case "bashExecution":
		if m.Flag("excludeFromContext") {
			return fields.Aside("excluded"), nil
		}
		return fields.User(transcript.TextBlock{Text: shell(m)}), nil
	case "branchSummary":
		return summary(branchHeading, m), nil
	case "compactionSummary":
		return summary(summaryHeading, m), nil
	case "system": // the state of the prompt
		return fields.Aside(role), nil
	}
	return transcript.Unknown{Kind: "message"}, nil
}

// shell is the program's text to its model about a command that the user ran.
func shell(m fields.Record) string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "Ran `%s`\n", m.Str("command"))
	if output := m.Str("output"); output != "" {
		fmt.Fprintf(&sb, "```\n%s\n```", output)
	} else {
		sb.WriteString("(no output)")
	}
	if m.Flag("cancelled") {
		sb.WriteString("\n\n(command cancelled)")
	} else if code := m.Number("exitCode"); code != 0 {
		fmt.Fprintf(&sb, "\n\nCommand exited with code %d", code)
	}
	if file := m.Str("fullOutputPath"); m.Flag("truncated") && file != "" {
		fmt.Fprintf(&sb, "\n\n[Output truncated. Full output: %s]", file)
	}
	return sb.String()
}

func summary(heading string, r fields.Record) transcript.MessageLine {
	return fields.User(transcript.TextBlock{Text: heading + "\n\n<summary>\n" + words.Printable(r.Str("summary")) + "\n</summary>"})
}

func userOf(content []byte) (transcript.Body, error) {
	blocks, plain, ok := contentOf(content)
	if !ok {
		return nil, fields.Malformed(`message: unusable "content"`)
	}
	return fields.WithContent(transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}, blocks, plain), nil
}

// answerOf returns an answer of a model. One with a call whose stream was cut
// counts as cut, whatever its stop reason.
func answerOf(m fields.Record) (transcript.Body, error) {
	content, plain, ok := contentOf(m["content"])
	if !ok {
		return nil, fields.Malformed(`assistant message: unusable "content"`)
	}
	f := transcript.MessageLine{
		Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant,
		API: m.Str("api"), Model: m.Str("model"), RequestID: m.Str("responseId"),
	}
	if f.API == "anthropic-messages" {
		f.API = "anthropic"
	}
	switch reason := m.Str("stopReason"); reason {
	case "stop", "endTurn":
		f.StopReason = transcript.StopEndTurn
	case "length":
		f.StopReason = transcript.StopMaxTokens
	case "toolUse":
		f.StopReason = transcript.StopToolUse
	default:
		f.StopReason = transcript.StopReason(reason)
	}
	f.Usage = m.Object("usage").Usage("input", "output", "cacheRead", "cacheWrite")
	for _, b := range content {
		if c, ok := b.(transcript.ToolCallBlock); ok && jsontext.IsString(c.Input) {
			if s, _ := jsontext.String(c.Input); !jsontext.Valid([]byte(s)) {
				f.StopReason = transcript.StopAborted
			}
		}
	}
	return fields.WithContent(f, content, plain), nil
}

// contentOf returns the blocks of content that is missing, a string, a block
// or an array of them.
func contentOf(v []byte) (blocks []transcript.Block, plain, ok bool) {
	switch {
	case jsontext.IsNull(v):
		return []transcript.Block{}, false, true
	case jsontext.IsString(v):
		s, ok := jsontext.String(v)
		return []transcript.Block{transcript.TextBlock{Text: s}}, true, ok
	case jsontext.IsObject(v):
		b, err := blockOf(v)
		return []transcript.Block{b}, false, err == nil
	case !jsontext.IsArray(v):
		return nil, false, false
	}
	blocks = []transcript.Block{}
	for element := range jsontext.Elements(v) {
		if s, isText := jsontext.String(element); isText {
			blocks = append(blocks, transcript.TextBlock{Text: s})
			continue
		}
		b, err := blockOf(element)
		if err != nil {
			return nil, false, false
		}
		blocks = append(blocks, b)
	}
	return blocks, false, true
}

func blockOf(v []byte) (transcript.Block, error) {
	b := fields.Of(v)
	// ext keeps a member for the provider that made the block and for no other.
	ext := func(name string) transcript.Extra {
		if b[name] == nil {
			return nil
		}
		o := jsontext.AppendObject(nil)
		o.Value(name, b[name])
		return transcript.Extra{"ext": o.End()}
	}
	switch b.Str("type") {
	case "text":
		if b["text"] != nil && !jsontext.IsString(b["text"]) {
			break
		}
		return transcript.TextBlock{Text: b.Str("text"), Extra: ext("textSignature")}, nil
	case "thinking":
		if b.Flag("redacted") {
			return transcript.RedactedThinkingBlock{Data: b.Str("thinkingSignature")}, nil
		}
		return transcript.ThinkingBlock{Thinking: b.Str("thinking"), Signature: b.Str("thinkingSignature")}, nil
	case "image":
		if b["mimeType"] != nil {
			return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: b.Str("mimeType"), Data: b.Str("data")}}, nil
		}
	case "toolCall", "toolUse", "functionCall", "tool_call", "tool_use", "function_call":
		c := transcript.ToolCallBlock{ID: b.Text("id"), Name: b.Text("name"), Input: json.RawMessage(`{}`), Extra: ext("thoughtSignature")}
		for _, name := range []string{"partialJson", "arguments", "input"} {
			if b[name] != nil {
				c.Input = slices.Clone(b[name])
				break
			}
		}
		return c, nil
	}
	return transcript.UnmarshalBlock(v)
}
