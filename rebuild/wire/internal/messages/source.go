package messages

import (
	"encoding/json"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// source returns what a source becomes, or what is wrong with it or its size.
func (r *Renderer) source(entry string, s transcript.Source, kind string) (transcript.Source, string) {
	clean, problem := format.CleanSource(s, kind)
	if problem != "" {
		return s, problem
	}
	if s.Type == "content" {
		clean.Extra = transcript.Extra{"content": r.documentContent(entry, s.Extra["content"])}
	}
	lost := (clean.MediaType != s.MediaType && s.Type != "text") || clean.Data != s.Data || clean.URL != s.URL || clean.FileID != s.FileID
	for name := range s.Extra {
		_, kept := clean.Extra[name]
		lost = lost || !kept && name != "ext"
	}
	if lost {
		r.Note(rebuild.DroppedMember, entry, "in the source, "+kind+" block")
	}
	return clean, r.Media.takeBytes(clean, kind)
}

// documentContent returns the texts and images of a document as the target takes
// them.
func (r *Renderer) documentContent(entry string, content json.RawMessage) json.RawMessage {
	if !jsontext.IsArray(content) {
		return content
	}
	return js.List(format.BlocksOfDocument(content), func(b transcript.Block) js.Written {
		return js.Value(transcript.MarshalBlock(r.UserBlocks(entry, b)[0]))
	}).Bytes()
}

// maxImageBytes is how many bytes of JSON an image may have: the Messages API counts
// the base64 that it gets.
const maxImageBytes = 5 << 20

// A MediaBudget says how much is still to be left out: what comes first.
type MediaBudget struct {
	Blocks map[string]int // by their type
	Bytes  int
}

// Take reports whether the next image or document is one of those too many.
func (m *MediaBudget) Take(kind string) bool {
	if m.Blocks[kind] <= 0 {
		return false
	}
	m.Blocks[kind]--
	return true
}

// takeBytes says what is wrong with the next image or document by its bytes,
// nothing if it can go out.
func (m *MediaBudget) takeBytes(source transcript.Source, kind string) string {
	switch n := len(source.Data); {
	case kind == "image" && n > maxImageBytes:
		return "more than 5 MB"
	case m.Bytes > 0 && n > 0:
		m.Bytes -= n
		return "the request has more than 32 MB"
	}
	return ""
}
