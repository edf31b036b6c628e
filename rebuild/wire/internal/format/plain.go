package format

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

func PlainText(text string) []transcript.Block {
	return []transcript.Block{transcript.TextBlock{Text: text}}
}

// Plain returns the text that stands for a context reference, a search result
// or a block that the target does not take.
func (r *Rendering) Plain(entry string, b transcript.Block) string {
	switch b := b.(type) {
	case transcript.ContextBlock:
		r.Note(rebuild.ReplacedBlock, entry, "a context block")
		return rebuild.ContextText(b).Text
	case transcript.RawBlock:
		if IsSearchResult(b.JSON) {
			r.Note(rebuild.ReplacedBlock, entry, "a search result")
			return searchText(b.JSON)
		}
	}
	return r.LeftOut(entry, BlockType(b), "")
}

// LeftOut returns the text that stands for a block that the target does not
// take.
func (r *Rendering) LeftOut(entry, kind, why string) string {
	text, detail := "["+printable(kind)+" left out", kind
	if why != "" {
		text, detail = text+": "+why, detail+": "+why
	}
	r.Note(rebuild.ReplacedBlock, entry, detail)
	return text + "]"
}

// printable keeps the type of a block short and on one line.
func printable(kind string) string {
	if kind == "" || len(kind) > 64 || strings.ContainsFunc(kind, func(c rune) bool { return c < ' ' }) {
		return "block"
	}
	return kind
}

// BlockType is BlockType for a block that may be nil.
func BlockType(b transcript.Block) string {
	if b == nil {
		return "block"
	}
	return b.BlockType()
}

// searchText returns the title, the source and the texts of a search result.
func searchText(obj []byte) string {
	texts := []string{"[" + js.String(obj, "title") + ", " + js.String(obj, "source") + "]"}
	for e := range jsontext.Elements(js.Get(obj, "content")) {
		texts = append(texts, js.String(e, "text"))
	}
	return strings.Join(texts, "\n")
}

// AboutDocument returns the title and the context of a document as a text.
func AboutDocument(b transcript.DocumentBlock) string {
	var about []string
	if !rebuild.IsBlank(b.Title) {
		about = append(about, "[document "+b.Title+"]")
	}
	if !rebuild.IsBlank(b.Context) {
		about = append(about, b.Context)
	}
	return strings.Join(about, "\n")
}

// IsSearchResult reports whether obj is a search result that a user or a tool
// gives: a source, a title and texts.
func IsSearchResult(obj []byte) bool {
	if !jsontext.Valid(obj) || js.String(obj, "type") != "search_result" ||
		js.String(obj, "source") == "" || js.String(obj, "title") == "" {
		return false
	}
	content := js.Elements(js.Get(obj, "content"))
	return len(content) > 0 && !slices.ContainsFunc(content, func(e json.RawMessage) bool {
		return js.String(e, "type") != "text" || rebuild.IsBlank(js.String(e, "text"))
	})
}
