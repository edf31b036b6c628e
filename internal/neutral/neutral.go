// Package neutral holds texts and rules that are the same for every provider. Packages
// rebuild, rebuild/wire, guard and search call it.
package neutral

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/transcript"
)

// Texts that packages compact and exchange recognise in a history. Like the texts in
// rebuild/texts.go they belong to format version 1, and never change in this version.
const (
	// Interrupted is the error result of a call whose result was never recorded.
	Interrupted = "interrupted"
	// Opening is a user message that is put before a history which would start with an
	// assistant message.
	Opening = "[conversation continues]"
	// SummaryHeading is the line before a summary.
	SummaryHeading = "[Previous conversation summary]"
	// CarriedHeading is the first line of the items that a compaction carries.
	CarriedHeading = "[Carried over from what was summarised, as it was recorded]"
)

// IsBlank reports whether providers treat a text as empty: it contains only white space
// and the separators U+001C to U+001F.
func IsBlank(s string) bool {
	if s != "" && ' ' < s[0] && s[0] < utf8.RuneSelf {
		return false // the usual case
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsSpace(r) && (r < 0x1c || r > 0x1f) })
}

// ContextText returns the text that models see for a context reference. The abstract is
// quoted.
func ContextText(b transcript.ContextBlock) transcript.TextBlock {
	text := quote.Rest("[" + cmp.Or(b.Kind, "context") + " " + b.URI + "]")
	if !IsBlank(b.Abstract) {
		text += "\n" + quote.Lines(b.Abstract)
	}
	return transcript.TextBlock{Text: text}
}

// ToolName returns a name of a tool that every provider accepts. All characters except
// A-Z a-z 0-9 _ - become _, and only the first 64 characters stay.
func ToolName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return cmp.Or(name[:min(len(name), 64)], "tool")
}

// MediaNote returns the text that a model sees instead of an image or a document of an
// entry. why is the reason and may be empty.
func MediaNote(b transcript.Block, entry, why string) string {
	var src transcript.Source
	switch b := b.(type) {
	case transcript.ImageBlock:
		src = b.Source
	case transcript.DocumentBlock:
		src = b.Source
	}
	kind := transcript.BlockType(b)
	if src.MediaType != "" {
		kind += " (" + src.MediaType + ")"
	}
	if why != "" {
		why = ", because " + why
	}
	return quote.Rest(fmt.Sprintf("[%s of %d bytes left out%s; it is in entry %s]", kind, len(src.Data), why, entry))
}

// Imitates reports whether a model other than Claude made a block in the Messages API.
// Such models require their reasoning in all turns, signed or unsigned.
func Imitates(o transcript.Origin) bool {
	return o.API == "anthropic" && o.Model != "" && o.Model[0] != 0 && !strings.Contains(strings.ToLower(o.Model), "claude")
}
