package rebuild

import (
	"cmp"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// The texts the fold makes up. They decide bytes that models are shown, so
// they belong to format version 1 and never change within it.
const (
	// Interrupted is the content of the error result made up for a call whose
	// result was never recorded.
	Interrupted = "interrupted"
	// mayHaveRun takes its place for a call that was dispatched, waiting for one
	// that is held, and denied, followed by the reason, for one that was rejected.
	mayHaveRun = "interrupted: the tool was started and may have run"
	waiting    = "not run yet: waiting for approval"
	denied     = "denied, not run"
	// lateResult is the first line of a tool result that is shown as a text,
	// because a request was answered that showed the call without it; the verbs
	// are "result" or "error", the call and its tool.
	lateResult = "[late %s of tool call %s]"
	// noAnswer is the note of a turn that ended without an answer, and stopped the one of
	// a turn that was stopped on request.
	noAnswer = "[This turn ended without an answer]"
	stopped  = "[The user stopped this turn]"
	// Opening is the user message put before a history that would start with an
	// assistant message.
	Opening = "[conversation continues]"
	// promptHeading stands on the line before a system prompt that is shown as a
	// text of the user, because the conversation began with another one.
	promptHeading = "[The system prompt from here on]"
	// toolsHeading stands on the line before the names of the tools that may be
	// called from there on, or "none".
	toolsHeading = "[Only these tools may be called from here on]"
	// SummaryHeading stands on the line before a summary.
	SummaryHeading = "[Previous conversation summary]"
	// CarriedHeading is the first line of the items that a compaction carries.
	CarriedHeading = "[Carried over from what was summarised, as it was recorded]"
	// summaryReply is the assistant's part of a summary shown as a pair.
	summaryReply = "Understood, I have the context from our previous conversation."
)

// promptText is the visible text of a system prompt or tools entry. It is empty
// for others.
func promptText(b transcript.Body) string {
	switch b := b.(type) {
	case transcript.System:
		return promptHeading + "\n" + b.Text
	case transcript.Tools:
		names := make([]string, len(b.Names))
		for i, name := range b.Names {
			names[i] = ToolName(name)
		}
		return toolsHeading + "\n" + cmp.Or(strings.Join(names, ", "), "none")
	}
	return ""
}

// endText is the visible text of the end of a turn.
func endText(end transcript.Interrupt) string {
	if end.Ended == "stopped" {
		return stopped
	}
	return noAnswer
}

// CarriedText is the text after the summary of a compaction; empty if it carries
// nothing. Tool output is quoted as JSON strings, so that it cannot pass for
// anything else.
func CarriedText(c transcript.Compaction) string {
	var sb strings.Builder
	section := func(heading string, items []transcript.Carried, which func(transcript.Carried) bool, write func(transcript.Carried) string) {
		heading = "\n" + heading
		for _, item := range items {
			if which(item) {
				sb.WriteString(heading + write(item))
				heading = ""
			}
		}
	}
	path := func(i transcript.Carried) string { return " " + quoted(i.Text) }
	said := func(i transcript.Carried) string { return "\n- " + i.Text }
	every := func(transcript.Carried) bool { return true }
	section("Pinned:", c.Pins, every, said)
	section("Files modified:", c.Files, func(i transcript.Carried) bool { return i.Modified }, path)
	section("Files read:", c.Files, func(i transcript.Carried) bool { return !i.Modified }, path)
	section("Errors of tools:", c.Errors, every, func(i transcript.Carried) string { return "\n- " + quoted(i.Tool) + ": " + quoted(i.Text) })
	section("Named by the user:", c.IDs, every, func(i transcript.Carried) string { return " " + i.Text })
	section("The user said:", c.Said, func(i transcript.Carried) bool { return !i.Open }, said)
	section("The user said in the turn that goes on below:", c.Said, func(i transcript.Carried) bool { return i.Open }, said)
	if sb.Len() == 0 {
		return ""
	}
	return CarriedHeading + sb.String()
}

func quoted(s string) string { return string(jsontext.AppendString(nil, s)) }
