package session

import (
	"context"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
)

// Use records what really helped to answer: contexts, by their URIs, or a skill, or
// both. A context that was merely offered to the model need not be recorded. No
// model sees the record. A call that names nothing and one with an empty URI are
// refused. The error means what it means for [Session.Append].
func (s *Session) Use(ctx context.Context, contexts []string, skill *transcript.SkillUse) error {
	_, err := s.Append(ctx, transcript.Used{Contexts: contexts, Skill: skill})
	return err
}

// UsageRecord is one use of a context or a skill.
type UsageRecord struct {
	Entry   string    `json:"entry"`
	At      time.Time `json:"timestamp"`
	URI     string    `json:"uri"`
	Type    string    `json:"type"` // context or skill
	Input   string    `json:"input,omitempty"`
	Output  string    `json:"output,omitempty"`
	Success bool      `json:"success,omitempty"` // of a skill
}

// using is the type of the lines that say what was used.
var using = words.NewLiterals(`"used"`, `"commit"`)

// UsageRecords returns what [Session.Use] has recorded, the oldest first, one record
// for each URI of a call. It reads the whole transcript, but decodes few of its
// lines.
func (s *Session) UsageRecords(ctx context.Context) (all []UsageRecord, err error) {
	var a ledger
	if err := a.read(s.ownRecords(ctx), using); err != nil {
		return nil, s.store.wrap("read", s.ref, err)
	}
	for _, r := range slices.Backward(a.records) {
		u, _ := r.Entry.Body.(transcript.Used)
		of := UsageRecord{Entry: r.Entry.ID, At: r.Entry.Time, Type: "context"}
		for _, of.URI = range u.Contexts {
			all = append(all, of)
		}
		if u.Skill != nil {
			of.URI, of.Type, of.Input, of.Output, of.Success = u.Skill.URI, "skill", u.Skill.Input, u.Skill.Output, u.Skill.Success
			all = append(all, of)
		}
	}
	return all, nil
}

// Stats counts what a session has done. A context counts once for each commit, and
// once since the last one, however often it was used; so does a skill.
type Stats struct {
	Turns        int `json:"total_turns"`        // of the conversation as it stands
	Tokens       int `json:"total_tokens"`       // of the history, by estimate
	Compressions int `json:"compression_count"`  // compactions, those of commits included
	Contexts     int `json:"contexts_used"`      // by their URIs
	Skills       int `json:"skills_used"`        // by their URIs
	Memories     int `json:"memories_extracted"` // added or merged, see [transcript.Extracted]
	Commits      int `json:"commit_count"`
}

// Stats returns what the session has done. Like [Session.Info], it costs what was
// added since the last call, however long the session is; after the index was lost it
// reads the whole transcript, once.
func (s *Session) stats(ctx context.Context) (sum Stats, err error) {
	err = s.View(ctx, func(v *View) error {
		info, err := v.Info()
		of := v.Fold().Standing().Stats()
		sum = Stats{
			Turns: info.Turns, Tokens: info.Tokens, Compressions: info.Compactions,
			Contexts: of.Contexts, Skills: of.Skills, Memories: of.Memories, Commits: of.Commits,
		}
		return err
	})
	return sum, err
}
