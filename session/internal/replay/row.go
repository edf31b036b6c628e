package replay

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/title"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A summary makes the row of a session from its lines, one by one.
type summary struct {
	row        driver.Row // without Size, Turns, TokenEstimate and Waits: see [Reader.Row]
	version    int        // of the format: set from the header, 0 before
	copiedLeft int        // how many of the next lines are copies: set from the header, counted down by note
}

// note brings the row up to date with one entry.
func (s *summary) note(e transcript.Entry) error {
	switch b := e.Body.(type) {
	case transcript.Header:
		if s.version != 0 {
			return nil // a second header is ignored
		}
		if e.ID != s.row.ID {
			return fmt.Errorf("its header names session %q: the file was renamed or copied; give it back its name unless a file has that name", e.ID)
		}
		s.version, s.copiedLeft = b.Version, b.Base.Lines
		s.row.Owner, s.row.Key, s.row.CreatedAt, s.row.UpdatedAt = b.Owner, b.Key, b.Created, e.Time
		s.row.Gen, s.row.Rev = max(s.row.Gen, b.Gen), b.Rev
		s.row.Base, s.row.Descent, s.row.Parent = b.Base, b.Descent, b.Parent
		ApplyMeta(&s.row, b.Meta)
		return nil
	case transcript.Meta:
		if s.copiedLeft == 0 { // else copied with a message
			ApplyMeta(&s.row, b)
		}
	case transcript.Compaction:
		if s.copiedLeft == 0 {
			s.row.Compactions++
		}
	case transcript.Current:
		s.row.Gen = max(s.row.Gen, b.Gen)
	case transcript.MessageLine:
		if b.Of == "" && (b.Kind == transcript.TypeUser || b.Kind == transcript.TypeAssistant) {
			s.row.Messages++
		}
		if s.copiedLeft == 0 { // the base counts copies
			spent(&s.row, b)
		}
		if b.Kind == transcript.TypeUser {
			s.row.LastUserAt = e.Time
			if s.row.Title == "" && !s.row.TitleByHand {
				s.row.Title = title.Of(b.Message().Text())
			}
		}
	}
	s.copiedLeft = max(s.copiedLeft-1, 0)
	if e.ID != "" {
		s.row.LastID = e.ID
	}
	if transcript.IsHead(e.Type()) && e.Time.After(s.row.UpdatedAt) {
		s.row.UpdatedAt = e.Time
	}
	return nil
}

// spent adds an answer to the usage of a row.
func spent(row *driver.Row, f transcript.MessageLine) {
	if f.Kind != transcript.TypeAssistant || f.Usage.IsZero() {
		return
	}
	sum := map[string]driver.Usage{}
	maps.Copy(sum, row.Usage)
	sum[f.Model] = sum[f.Model].Plus(driver.Usage{
		Answers: 1, Input: f.Usage.Input, Output: f.Usage.Output, CacheRead: f.Usage.CacheRead, CacheWrite: f.Usage.CacheWrite,
	})
	row.Usage = sum
}

// maxListed is how many bytes the listed values of a row may have, names included.
const maxListed = 4 << 10

// listed returns the listed values that fit into a row, those set last first, and how
// many do not fit.
func listed(values []rebuild.Value) (list map[string]json.RawMessage, left int) {
	size := 0
	for _, v := range slices.Backward(values) {
		if !v.Listed {
			continue
		}
		text, err := json.Marshal(v.Value) // as the index would write it
		if n := size + len(v.Name) + len(text); err == nil && n <= maxListed && utf8.ValidString(v.Name) {
			if list == nil {
				list = map[string]json.RawMessage{}
			}
			size, list[v.Name] = n, text
		} else {
			left++
		}
	}
	return list, left
}

// ApplyMeta writes the metadata into a row.
func ApplyMeta(row *driver.Row, m transcript.Meta) {
	if m.Title != nil {
		row.Title, row.TitleByHand, row.TitledAt = title.Clean(*m.Title), m.TitleBy != transcript.ByModel, row.Messages
	}
	if m.Labels != nil {
		row.Labels = slices.Clone(m.Labels)
	}
	if m.TTL != nil {
		row.TTL = *m.TTL
	}
	if m.Keep != nil {
		row.Keep = *m.Keep
	}
	if m.Trashed != nil {
		row.Trashed = *m.Trashed
	}
}
