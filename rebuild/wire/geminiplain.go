package wire

import (
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// aboutDocument returns the title and the context of a document as a text.
func aboutDocument(b transcript.DocumentBlock) string {
	var about []string
	if !isBlank(b.Title) {
		about = append(about, "[document "+b.Title+"]")
	}
	if !isBlank(b.Context) {
		about = append(about, b.Context)
	}
	return strings.Join(about, "\n")
}

// plainText returns the text that stands for a block of another kind.
func plainText(report *rebuild.Report, entry string, b transcript.Block) string {
	switch b := b.(type) {
	case transcript.ContextBlock:
		*report = append(*report, rebuild.Repair{Rule: rebuild.ReplacedBlock, Entry: entry, Detail: "a context block"})
		text, _ := contextText(b).(transcript.TextBlock)
		return text.Text
	case transcript.RawBlock:
		if isSearchResult(b.JSON) {
			*report = append(*report, rebuild.Repair{Rule: rebuild.ReplacedBlock, Entry: entry, Detail: "a search result"})
			texts := []string{"[" + stringMember(b.JSON, "title") + ", " + stringMember(b.JSON, "source") + "]"}
			content, _ := jsontext.Member(b.JSON, "content")
			for e := range jsontext.Elements(content) {
				texts = append(texts, stringMember(e, "text"))
			}
			return strings.Join(texts, "\n")
		}
	}
	return replacedText(report, entry, blockType(b), "")
}

// replacedText returns the text that stands for a block that a target does not
// take.
func replacedText(report *rebuild.Report, entry, kind, why string) string {
	r := renderer{}
	text, _ := r.replaced(entry, kind, why).(transcript.TextBlock)
	*report = append(*report, r.report...)
	return text.Text
}

// dropExtra reports the members of a block that a target has no place for. What
// is in ext is no other's business and not worth a report.
func dropExtra(report *rebuild.Report, entry, kind string, extra transcript.Extra) {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if name != "ext" {
			*report = append(*report, rebuild.Repair{Rule: rebuild.DroppedMember, Entry: entry, Detail: name + " of a " + kind + " block"})
		}
	}
}

// sourceProblem says what is wrong with a source that was not taken.
func sourceProblem(s transcript.Source) string {
	switch s.Type {
	case "base64":
		if isBase64(s.Data) {
			return "unsupported media type"
		}
		return "unreadable data"
	case "url":
		return "not an https URL"
	case "file":
		return "a file of another provider"
	}
	return "unsupported source"
}

// blockType is BlockType for a block that may be nil.
func blockType(b transcript.Block) string {
	if b == nil {
		return "block"
	}
	return b.BlockType()
}
