package session

import (
	"fmt"

	"github.com/convolog/convolog/transcript"
)

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
		return &InputError{"labels", fmt.Sprintf("%d labels; %d are allowed", n, maxLabels)}
	}
	for i, label := range m.Labels {
		if len(label) > maxLabel {
			return tooLong(fmt.Sprint("labels/", i), len(label), maxLabel)
		}
	}
	return nil
}

func tooLong(member string, size, most int) error {
	return &InputError{member, fmt.Sprintf("%d bytes; %d are allowed", size, most)}
}
