package fields

import (
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// WithContent sets the content of f, as a string if plain.
func WithContent(f transcript.MessageLine, content []transcript.Block, plain bool) transcript.MessageLine {
	if plain {
		return f.WithContent(content...)
	}
	f.Content = content
	return f
}

// Content returns the blocks of a member that is a string, an array of blocks
// and strings, or missing.
func (r Record) Content(name string) ([]transcript.Block, bool) {
	v := r[name]
	if v == nil || jsontext.IsString(v) {
		return []transcript.Block{transcript.TextBlock{Text: r.Text(name)}}, true
	}
	if !jsontext.IsArray(v) {
		return nil, false
	}
	blocks := []transcript.Block{}
	for element := range jsontext.Elements(v) {
		if s, ok := jsontext.String(element); ok {
			blocks = append(blocks, transcript.TextBlock{Text: s})
			continue
		}
		b, err := transcript.UnmarshalBlock(element)
		if err != nil {
			return nil, false
		}
		blocks = append(blocks, b)
	}
	return blocks, true
}

// Message returns the line of a message whose content is a member of r.
func (r Record) Message(role, name string) (f transcript.MessageLine, ok bool) {
	content, ok := r.Content(name)
	f = transcript.MessageLine{Kind: role, Role: transcript.Role(role)}
	return WithContent(f, content, !jsontext.IsArray(r[name])), ok
}

// A Kept is the kept part of a compaction: the ID of its first entry, or without a
// kept part the ID of the last entry before the compaction.
type Kept struct{ First, CoversTo string }

// Place returns the entries of a record with the kept part in their compaction.
func (k Kept) Place(made []transcript.Entry) []transcript.Entry {
	if c, ok := made[0].Body.(transcript.Compaction); ok {
		c.FirstKept, c.CoversTo = k.First, k.CoversTo
		made[0].Body = c
	}
	return made
}
