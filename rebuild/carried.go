package rebuild

import (
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// CarriedText is what is shown behind the summary of a compaction; empty if it
// carries nothing. What tools have said is written as JSON strings, so that none
// of it can be taken for anything else.
func CarriedText(c transcript.Compaction) string {
	var sb strings.Builder
	section := func(heading string, items []transcript.Carried, which func(transcript.Carried) bool, write func(transcript.Carried) string) {
		for _, item := range items {
			if !which(item) {
				continue
			}
			if heading != "" {
				sb.WriteString("\n" + heading)
				heading = ""
			}
			sb.WriteString(write(item))
		}
	}
	path := func(i transcript.Carried) string { return " " + quoted(i.Text) }
	said := func(i transcript.Carried) string { return "\n- " + i.Text }
	every := func(transcript.Carried) bool { return true }
	section(carriedPins, c.Pins, every, said)
	section(carriedModified, c.Files, func(i transcript.Carried) bool { return i.Modified }, path)
	section(carriedRead, c.Files, func(i transcript.Carried) bool { return !i.Modified }, path)
	section(carriedErrors, c.Errors, every, func(i transcript.Carried) string { return "\n- " + quoted(i.Tool) + ": " + quoted(i.Text) })
	section(carriedIDs, c.IDs, every, func(i transcript.Carried) string { return " " + i.Text })
	section(carriedSaid, c.Said, func(i transcript.Carried) bool { return !i.Open }, said)
	section(carriedOpen, c.Said, func(i transcript.Carried) bool { return i.Open }, said)
	if sb.Len() == 0 {
		return ""
	}
	return CarriedHeading + sb.String()
}

// quoted is a text as a JSON string.
func quoted(s string) string { return string(jsontext.AppendString(nil, s)) }
