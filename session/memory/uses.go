package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Use is one use of a context or a skill.
type Use struct {
	Entry   string    `json:"entry"`     // set by Uses
	At      time.Time `json:"timestamp"` // set by Uses
	URI     string    `json:"uri"`
	Type    string    `json:"type"` // context (also if empty) or skill
	Input   string    `json:"input,omitempty"`
	Output  string    `json:"output,omitempty"`
	Success bool      `json:"success,omitempty"` // if a skill
}

// The types of uses.
const (
	usedContext = "context"
	usedSkill   = "skill"
)

// RecordUse records contexts and skills that really helped to answer, by their URIs. A
// context that was merely offered to the model need not be recorded. No model sees the
// record. RecordUse refuses an empty list, an empty URI and another Type. The error is
// as for [session.Session.Append].
func RecordUse(ctx context.Context, s *session.Session, uses ...Use) error {
	lines := []transcript.Used{{}}
	for _, u := range uses {
		last := &lines[len(lines)-1]
		switch {
		case u.Type == "" || u.Type == usedContext:
			last.Contexts = append(last.Contexts, u.URI)
		case u.Type != usedSkill:
			return fmt.Errorf("memory: use of %q: the type is %q, want %s or %s: nothing was written", u.URI, u.Type, usedContext, usedSkill)
		case last.Skill != nil:
			lines = append(lines, transcript.Used{})
			last = &lines[len(lines)-1]
			fallthrough
		default:
			last.Skill = &transcript.SkillUse{URI: u.URI, Input: u.Input, Output: u.Output, Success: u.Success}
		}
	}
	items := make([]transcript.Item, len(lines))
	for i, line := range lines {
		items[i] = line
	}
	_, err := s.Append(ctx, items...)
	return err
}

// used is the type of the lines of uses.
var used = words.NewLiterals(`"used"`)

// Uses returns the uses that [RecordUse] recorded, the oldest first. It reads the
// whole transcript, but decodes few of its lines.
func Uses(ctx context.Context, s *session.Session) (all []Use, err error) {
	var recs []transcript.Record
	for rec, err := range accounted(ctx, s, session.ScanOptions{}, used) {
		if err != nil {
			return nil, err
		}
		recs = append(recs, rec)
	}
	for _, r := range slices.Backward(recs) {
		line, _ := r.Entry.Body.(transcript.Used)
		u := Use{Entry: r.Entry.ID, At: r.Entry.Time, Type: usedContext}
		for _, u.URI = range line.Contexts {
			all = append(all, u)
		}
		if k := line.Skill; k != nil {
			u.URI, u.Type, u.Input, u.Output, u.Success = k.URI, usedSkill, k.Input, k.Output, k.Success
			all = append(all, u)
		}
	}
	return all, nil
}

// Stats sums up a session. A context counts once for each commit, and once since
// the last, however often it was used; so does a skill.
type Stats struct {
	Turns        int `json:"total_turns"`        // of the present conversation
	Tokens       int `json:"total_tokens"`       // of the history, by estimate
	Compressions int `json:"compression_count"`  // compactions, including commits
	Contexts     int `json:"contexts_used"`      // by their URIs
	Skills       int `json:"skills_used"`        // by their URIs
	Memories     int `json:"memories_extracted"` // added or merged, see [transcript.Extracted]
	Commits      int `json:"commit_count"`
}

// ReadStats sums up the session. It reads the transcript backwards to the last commit,
// or to its beginning, but decodes few of its lines.
func ReadStats(ctx context.Context, s *session.Session) (sum Stats, err error) {
	var info session.Info
	var end int64
	err = s.View(ctx, func(v *session.View) (err error) {
		info, err = v.Info()
		end = v.End()
		return err
	})
	if err != nil {
		return sum, err
	}
	l, err := readLedger(ctx, s, end)
	of := l.stats()
	return Stats{
		Turns: info.Turns, Tokens: info.Tokens, Compressions: info.Compactions,
		Contexts: of.Contexts, Skills: of.Skills, Memories: of.Memories, Commits: of.Commits,
	}, err
}
