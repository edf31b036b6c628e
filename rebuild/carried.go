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
	section := func(heading string, items []transcript.Carried, write func(transcript.Carried) string) {
		for i, item := range items {
			if i == 0 {
				sb.WriteString("\n" + heading)
			}
			sb.WriteString(write(item))
		}
	}
	path := func(i transcript.Carried) string { return " " + quoted(i.Text) }
	said := func(i transcript.Carried) string { return "\n- " + i.Text }
	isRead, isModified := divide(c.Files, func(i transcript.Carried) bool { return i.Modified })
	before, open := divide(c.Said, func(i transcript.Carried) bool { return i.Open })
	section(carriedPins, c.Pins, said)
	section(carriedModified, isModified, path)
	section(carriedRead, isRead, path)
	section(carriedErrors, c.Errors, func(i transcript.Carried) string { return "\n- " + quoted(i.Tool) + ": " + quoted(i.Text) })
	section(carriedIDs, c.IDs, func(i transcript.Carried) string { return " " + i.Text })
	section(carriedSaid, before, said)
	section(carriedOpen, open, said)
	if sb.Len() == 0 {
		return ""
	}
	return CarriedHeading + sb.String()
}

// divide returns the items of which ok is false, and those of which it is true.
func divide(items []transcript.Carried, ok func(transcript.Carried) bool) (others, those []transcript.Carried) {
	for _, i := range items {
		if ok(i) {
			those = append(those, i)
		} else {
			others = append(others, i)
		}
	}
	return others, those
}

// quoted is a text as a JSON string.
func quoted(s string) string { return string(jsontext.AppendString(nil, s)) }
