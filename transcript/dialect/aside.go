package dialect

import "github.com/convolog/convolog/transcript"

// aside is a record that no model is shown. The package doc lists the names.
func aside(name string) transcript.Body { return transcript.Custom{Name: name} }

// setAside returns the entries of a record as one that is not part of the
// history. Descriptions of the session stay unchanged.
func setAside(made []transcript.Entry, name string) []transcript.Entry {
	switch made[0].Body.(type) {
	case transcript.MessageLine, transcript.Compaction:
		e := made[0]
		e.Body = aside(name)
		return []transcript.Entry{e}
	default:
		return made
	}
}
