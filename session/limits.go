package session

import (
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/transcript"
)

// An InputError reports an argument that no call accepts. It matches [fs.ErrInvalid], and
// nothing was written.
type InputError struct {
	Member string // the argument by its name in JSON, such as labels/3
	Reason string
}

// Error returns the member and the reason.
func (e *InputError) Error() string {
	return strings.TrimPrefix(e.Member+": ", ": ") + e.Reason
}

// Unwrap returns [fs.ErrInvalid].
func (e *InputError) Unwrap() error { return fs.ErrInvalid }

// Limits in bytes. The index holds these texts, for all sessions of an agent.
const (
	maxTitle  = 1 << 10
	maxLabels = 64
	maxLabel  = 256 // 16 kB for all labels
	maxKey    = 1 << 10
)

// checkMeta refuses metadata that is too large for the index.
func checkMeta(m transcript.Meta) error {
	if m.Title != nil && len(*m.Title) > maxTitle {
		return tooLong("title", len(*m.Title), maxTitle)
	}
	if n := len(m.Labels); n > maxLabels {
		return &InputError{"labels", fmt.Sprintf("%d labels; at most %d are allowed", n, maxLabels)}
	}
	for i, label := range m.Labels {
		switch member := fmt.Sprint("labels/", i); {
		case len(label) > maxLabel:
			return tooLong(member, len(label), maxLabel)
		case !utf8.ValidString(label):
			return &InputError{member, fmt.Sprintf("%q is not valid UTF-8", label)}
		}
	}
	return nil
}

func tooLong(member string, size, most int) error {
	return &InputError{member, fmt.Sprintf("%d bytes; at most %d are allowed", size, most)}
}
