package rebuild

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/transcript"
)

// The texts that the fold makes up. They are part of the bytes for models, so they
// belong to format version 1 and never change within it.
const (
	// mayHaveRun, waiting and denied replace neutral.Interrupted: mayHaveRun for a call
	// that was dispatched, waiting for one that is held, and denied for one that was
	// rejected, followed by the reason.
	mayHaveRun = "interrupted: the tool was started and may have run"
	waiting    = "not run yet: waiting for approval"
	denied     = "denied, not run"
	// lateResult is the first line of a tool result that is shown as a text, because a
	// request with the call but without the result was answered. Its verbs are "result"
	// or "error", and the call with its tool.
	lateResult = "[late %s of tool call %s]"
	// noAnswer is the note on a turn that ended without an answer, and stopped the note
	// on a turn that was stopped on request.
	noAnswer = "[This turn ended without an answer]"
	stopped  = "[The user stopped this turn]"
	// promptHeading is the line before a system prompt that is shown as a user text,
	// because the conversation began with another prompt.
	promptHeading = "[The system prompt from here on]"
	// toolsHeading is the line before the names of the tools that may be called from
	// there on, or before "none".
	toolsHeading = "[Only these tools may be called from here on]"
	// summaryReply is the assistant's message of a summary that is shown as a pair.
	summaryReply = "Understood, I have the context from our previous conversation."
)

// promptText returns the visible text of a system prompt or tools entry, and "" for
// other entries.
func promptText(b transcript.Body) string {
	switch b := b.(type) {
	case transcript.System:
		return promptHeading + "\n" + b.Text
	case transcript.Tools:
		names := make([]string, len(b.Names))
		for i, name := range b.Names {
			names[i] = neutral.ToolName(name)
		}
		return toolsHeading + "\n" + cmp.Or(strings.Join(names, ", "), "none")
	}
	return ""
}

// endText returns the visible text of the end of a turn.
func endText(end transcript.Interrupt) string {
	if end.Ended == "stopped" {
		return stopped
	}
	return noAnswer
}

// CarriedText returns the text after the summary of a compaction; it is empty if the
// compaction carries nothing. Paths, tool output and files are quoted as JSON strings.
// The lines of a user text are indented, except the first. An item begins with "- ", or
// with the question that it answers. So no text can pass for another one, for a
// heading, or for its own question.
func CarriedText(c transcript.Compaction) string {
	var sb strings.Builder
	section := func(heading string, items []transcript.Carried, write func(transcript.Carried) string) {
		for i, item := range items {
			if i == 0 {
				sb.WriteString("\n" + heading)
			}
			sb.WriteString(write(item))
		}
	}
	said := func(i transcript.Carried) string {
		mark := "- "
		if i.To != "" {
			mark = "Answer to " + quoted(i.To) + ": "
		}
		return "\n" + mark + quote.Rest(i.Text)
	}
	except := func(items []transcript.Carried, is func(transcript.Carried) bool) []transcript.Carried {
		return slices.DeleteFunc(slices.Clone(items), is)
	}
	section("Pinned:", c.Pins, said)
	section("Instructions in files that were read:", c.Rules, func(i transcript.Carried) string { return "\n- " + quoted(i.Path) + ": " + quoted(i.Text) })
	paths(&sb, "Files modified:", except(c.Files, func(i transcript.Carried) bool { return !i.Modified }))
	paths(&sb, "Files read:", except(c.Files, func(i transcript.Carried) bool { return i.Modified }))
	section("Errors of tools:", c.Errors, func(i transcript.Carried) string { return "\n- " + quoted(i.Tool) + ": " + quoted(i.Text) })
	section("Named by the user:", c.IDs, func(i transcript.Carried) string { return " " + quote.Rest(i.Text) })
	section("The user said:", except(c.Said, func(i transcript.Carried) bool { return i.Open }), said)
	section("The user said in the turn that goes on below:", except(c.Said, func(i transcript.Carried) bool { return !i.Open }), said)
	if sb.Len() == 0 {
		return ""
	}
	return neutral.CarriedHeading + sb.String()
}

// paths writes a list of files. Several files of a folder share a line.
func paths(sb *strings.Builder, heading string, files []transcript.Carried) {
	if len(files) == 0 {
		return
	}
	sb.WriteString("\n" + heading)
	in := map[string][]string{}
	var dirs []string
	for _, f := range files {
		at := strings.LastIndexAny(f.Text, `/\`) + 1
		dir := f.Text[:at]
		if in[dir] == nil {
			dirs = append(dirs, dir)
		}
		in[dir] = append(in[dir], f.Text[at:])
	}
	shared := func(dir string) bool { return dir != "" && len(in[dir]) > 1 }
	for _, dir := range dirs {
		for _, name := range in[dir] {
			if !shared(dir) {
				sb.WriteString(" " + quoted(dir+name))
			}
		}
	}
	for _, dir := range dirs {
		if shared(dir) {
			sb.WriteString("\n- in " + quoted(dir) + ":")
			for _, name := range in[dir] {
				sb.WriteString(" " + quoted(name))
			}
		}
	}
}

// quoted returns a JSON string without a line end.
func quoted(s string) string {
	return strings.ReplaceAll(string(jsontext.AppendString(nil, s)), "\u0085", `\u0085`)
}

func isObject(input json.RawMessage) bool {
	return jsontext.IsObject(input) && jsontext.Valid(input)
}

// inputObject turns any other input into an object. No input becomes an empty object,
// an object inside a string is taken out, and any other value becomes the member
// "input".
func inputObject(input json.RawMessage) json.RawMessage {
	if jsontext.IsNull(input) {
		return json.RawMessage("{}")
	}
	if s, ok := jsontext.String(input); ok {
		if isObject(json.RawMessage(s)) {
			return compact(json.RawMessage(s))
		}
		if neutral.IsBlank(s) {
			return json.RawMessage("{}")
		}
	}
	o := jsontext.AppendObject(nil)
	o.Value("input", input)
	return o.End()
}

// compact returns v without white space between its tokens.
func compact(v json.RawMessage) json.RawMessage {
	var buf bytes.Buffer
	if json.Compact(&buf, v) != nil {
		return v
	}
	return buf.Bytes()
}
