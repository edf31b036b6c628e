package messages

import (
	"slices"

	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/transcript"
)

// roleSystem is the role of a message of the Messages API with instructions from there on. It
// follows a message of the user, and precedes an answer or the end.
const roleSystem transcript.Role = "system"

// systemSince holds the first version, see claudeVersion, of each line of Claude
// that takes messages of that role. Other models refuse them.
var systemSince = map[string]int{"opus": 408, "sonnet": 505, "haiku": 505, "fable": 500, "mythos": 500}

func takesSystem(model string) bool {
	line, version := claudeVersion(model)
	since, known := systemSince[line]
	return known && version >= since
}

// A systemText is a later system prompt that may have that role.
type systemText struct{ transcript.TextBlock }

// asSystem reports whether the later system prompts in message i may have the role:
// if the model takes it, and so does the one that made the next answer. So a prompt
// keeps its form from the request for that answer.
func (r *Renderer) asSystem(i int) bool {
	if r.PlainPrompts || !takesSystem(r.Req.Model) {
		return false
	}
	for _, m := range r.Req.Messages[i+1:] {
		if m.Role == transcript.RoleAssistant {
			o := format.OriginOf(m, 0)
			return o == format.Vouched || o.API == format.APIAnthropic && takesSystem(o.Model)
		}
	}
	return true
}

// withSystem appends a message, and another with the system prompts at its end.
// Prompts before a text, or with nothing before them, stay texts.
func withSystem(out []transcript.Message, m transcript.Message) []transcript.Message {
	said := 0 // end of the blocks before the last prompts
	for j, b := range m.Content {
		if prompt, ok := b.(systemText); ok {
			m.Content[j] = prompt.TextBlock
		} else {
			said = j + 1
		}
	}
	if said == 0 || said == len(m.Content) {
		return append(out, m)
	}
	system := transcript.Message{Role: roleSystem, Content: slices.Clone(m.Content[said:])}
	m.Content = slices.Clip(m.Content[:said])
	return append(out, m, system)
}
