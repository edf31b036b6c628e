package session

import (
	"context"
	"errors"
	"time"

	"github.com/convolog/convolog/compact"
)

// CommitOptions says how [Session.Commit] archives. Nil and zero fields are those
// of [Options].Commit.
type CommitOptions struct {
	// Keep is how much of what is archived the history goes on to show verbatim.
	// The zero value shows none of it: the overview takes its place.
	Keep compact.Keep
	// KeepHistory leaves the history as it is: nothing is compacted.
	KeepHistory bool
	// Summarizer writes the overview; nil means that of [Options].Compact.
	Summarizer compact.Summarizer
	// Timeout is how long the summarizer may take; 0 means that of
	// [Options].Compact.
	Timeout time.Duration
}

// Committed is what [Session.Commit] did.
type Committed struct {
	Archived bool `json:"archived"`
	// Reason says why nothing was archived: NothingNew or TurnOpen.
	Reason string `json:"reason,omitempty"`

	Archive  string `json:"archive,omitempty"`  // the name, such as "archive_001"
	Entry    string `json:"entry,omitempty"`    // of the commit
	First    string `json:"first,omitempty"`    // the first entry that was archived
	Last     string `json:"last,omitempty"`     // the last one
	Abstract string `json:"abstract,omitempty"` // one line
	Overview string `json:"overview,omitempty"`
	Messages int    `json:"messages,omitempty"`
}

var errTODO = errors.New("not there yet")

// Commit archives what was said since the last commit.
func (s *Session) Commit(ctx context.Context, opts *CommitOptions) (Committed, error) {
	return Committed{}, errTODO
}
