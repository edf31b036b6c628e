package dialect

import "github.com/convolog/convolog/transcript"

// Names of the transcript.Custom entries that stand for records which are
// understood and not part of the history. Their lines are kept. Any other name
// is the record's own type, a setting such as "model_change" for example.
const (
	AsideBranch   = "branch"    // of a branch that was left
	AsideSide     = "sidechain" // beside the conversation: a helper's, or marked so
	AsideRepeat   = "repeat"    // a message that is there already
	AsideOmitted  = "omitted"   // taken out of the history by a later record
	AsideExcluded = "excluded"  // not meant for the model from the beginning
)

func aside(name string) transcript.Body { return transcript.Custom{Name: name} }

// setAside returns the entries of a record as one that is not part of the
// history. Descriptions of the session stay what they are.
func setAside(made []transcript.Entry, name string) []transcript.Entry {
	switch made[0].Body.(type) {
	case transcript.Fragment, transcript.Compaction:
		e := made[0]
		e.Body = aside(name)
		return []transcript.Entry{e}
	default:
		return made
	}
}
