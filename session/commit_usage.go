package session

import (
	"context"
	"iter"
	"time"

	"github.com/convolog/convolog/transcript"
)

// Use records what really helped to answer.
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
	Success bool      `json:"success,omitempty"`
}

// UsageRecords yields what was used, the oldest first.
func (s *Session) UsageRecords(ctx context.Context) iter.Seq2[UsageRecord, error] {
	return func(yield func(UsageRecord, error) bool) { yield(UsageRecord{}, errTODO) }
}

// Stats counts what a session has done.
type Stats struct {
	Turns        int `json:"total_turns"`
	Tokens       int `json:"total_tokens"`
	Compressions int `json:"compression_count"`
	Contexts     int `json:"contexts_used"`
	Skills       int `json:"skills_used"`
	Memories     int `json:"memories_extracted"`
	Commits      int `json:"commit_count"`
}

// Stats returns what the session has done.
func (s *Session) Stats() Stats { return Stats{} }
