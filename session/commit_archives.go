package session

import (
	"context"
	"iter"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// ArchiveInfo describes an archive of a session: the part of it that a
// [Session.Commit] has put away.
type ArchiveInfo struct {
	Name      string           `json:"name"`  // such as "archive_001"
	Entry     string           `json:"entry"` // of the commit
	At        time.Time        `json:"at"`    // the time of the commit
	First     string           `json:"first,omitempty"`
	Last      string           `json:"last,omitempty"`
	Runs      []transcript.Run `json:"runs,omitempty"`
	Messages  int              `json:"messages,omitempty"`
	Abstract  string           `json:"abstract,omitempty"`
	Overview  string           `json:"overview,omitempty"`
	Owner     string           `json:"owner,omitempty"`
	Extracted bool             `json:"extracted,omitempty"` // its memories were extracted, without an error
}

// Archives yields the archives of the session, the oldest first.
func (s *Session) Archives(ctx context.Context) iter.Seq2[ArchiveInfo, error] {
	return func(yield func(ArchiveInfo, error) bool) { yield(ArchiveInfo{}, errTODO) }
}

// Archived returns the messages of an archive.
func (s *Session) Archived(ctx context.Context, name string) (rebuild.History, error) {
	return rebuild.History{}, errTODO
}

// Live returns the messages that are in no archive yet.
func (s *Session) Live(ctx context.Context) (rebuild.History, error) {
	return rebuild.History{}, errTODO
}

// Summary returns the summary that the history begins with, or the overview of
// the last commit if there is none.
func (s *Session) Summary(ctx context.Context) (string, error) { return "", errTODO }
