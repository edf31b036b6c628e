package wire

import (
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// plain returns the text that stands for a context reference, a search result
// or a block that the target does not take.
func (r *rendering) plain(entry string, b transcript.Block) string {
	switch b := b.(type) {
	case transcript.ContextBlock:
		r.note(rebuild.ReplacedBlock, entry, "a context block")
		return rebuild.ContextText(b).Text
	case transcript.RawBlock:
		if isSearchResult(b.JSON) {
			r.note(rebuild.ReplacedBlock, entry, "a search result")
			return searchText(b.JSON)
		}
	}
	return r.leftOut(entry, blockType(b), "")
}

// leftOut returns the text that stands for a block that the target does not
// take.
func (r *rendering) leftOut(entry, kind, why string) string {
	text, detail := "["+printable(kind)+" left out", kind
	if why != "" {
		text, detail = text+": "+why, detail+": "+why
	}
	r.note(rebuild.ReplacedBlock, entry, detail)
	return text + "]"
}

// printable keeps the type of a block short and on one line.
func printable(kind string) string {
	if kind == "" || len(kind) > 64 || strings.ContainsFunc(kind, func(c rune) bool { return c < ' ' }) {
		return "block"
	}
	return kind
}

// blockType is BlockType for a block that may be nil.
func blockType(b transcript.Block) string {
	if b == nil {
		return "block"
	}
	return b.BlockType()
}

// searchText returns the title, the source and the texts of a search result.
func searchText(obj []byte) string {
	texts := []string{"[" + stringMember(obj, "title") + ", " + stringMember(obj, "source") + "]"}
	for e := range jsontext.Elements(get(obj, "content")) {
		texts = append(texts, stringMember(e, "text"))
	}
	return strings.Join(texts, "\n")
}

// aboutDocument returns the title and the context of a document as a text.
func aboutDocument(b transcript.DocumentBlock) string {
	var about []string
	if !rebuild.IsBlank(b.Title) {
		about = append(about, "[document "+b.Title+"]")
	}
	if !rebuild.IsBlank(b.Context) {
		about = append(about, b.Context)
	}
	return strings.Join(about, "\n")
}
