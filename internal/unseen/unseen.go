// Package unseen finds characters that a screen does not show, or that command it: controls,
// marks of direction, characters without width, tags, selectors. They hide words from a
// person that a model reads. A joiner or a selector is kept where a script or an emoji
// needs it: one after a sign, never a run of them.
package unseen

import (
	"strings"
	"unicode"

	"github.com/convolog/convolog/internal/lazy"
)

// Pattern matches in its group an unseen character, and without the group a sequence to
// keep. The page contains the same pattern in the syntax of JavaScript.
var Pattern = strings.Join([]string{
	// Signs before numbers in Arabic and other scripts, and marks of hieroglyphs, are seen.
	`[\x{600}-\x{605}\x{6dd}\x{70f}\x{890}\x{891}\x{8e2}\x{110bd}\x{110cd}\x{13430}-\x{1343f}]`,
	// Flags of England, Scotland and others like them.
	`\x{1f3f4}[\x{e0061}-\x{e007a}]{2}[\x{e0030}-\x{e0039}\x{e0061}-\x{e007a}]{1,3}\x{e007f}`,
	// Emoji, joined ones too, and signs with one of several forms.
	`\p{So}` + form + `(?:\x{200d}[\p{So}\p{Sm}]` + form + `)*`,
	`[\p{S}\p{P}\p{Nd}\p{Han}\x{2139}][\x{fe00}-\x{fe0f}]`,
	`\p{Han}[\x{e0100}-\x{e01ef}]`,
	`\p{Mongolian}[\x{180b}-\x{180f}]`,
	// Joiners, and ends of words in scripts without spaces. Marks may come between.
	`[\p{Arabic}\p{Bengali}\p{Devanagari}\p{Gujarati}\p{Gurmukhi}\p{Kannada}\p{Khmer}\p{Lao}\p{Malayalam}\p{Mongolian}\p{Myanmar}\p{Nko}\p{Oriya}\p{Sinhala}\p{Syriac}\p{Tamil}\p{Telugu}\p{Thai}\p{Tibetan}]` +
		`[\x{64b}-\x{655}\x{670}\x{951}-\x{954}]*[\x{200b}-\x{200d}]`,
	`([\p{Cc}\p{Cf}\x{34f}\x{115f}\x{1160}\x{17b4}\x{17b5}\x{180b}-\x{180f}\x{3164}\x{fe00}-\x{fe0f}\x{ffa0}\x{fff0}-\x{fff8}\x{e0000}-\x{e0fff}])`,
}, "|")

const form = `[\x{1f3fb}-\x{1f3ff}]?[\x{fe0e}\x{fe0f}]?`

var pattern = lazy.New(Pattern)

// Replace returns a text with every unseen character replaced by the result of with, line
// breaks and tabs included.
func Replace(text string, with func(r rune) string) string {
	maybe := func(r rune) bool {
		return r < ' ' || r >= 0x7f && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Mn, unicode.Other_Default_Ignorable_Code_Point)
	}
	if !strings.ContainsFunc(text, maybe) {
		return text
	}
	var sb strings.Builder
	end := 0
	for _, at := range pattern.Get().FindAllStringSubmatchIndex(text, -1) {
		if at[2] < 0 {
			continue
		}
		sb.WriteString(text[end:at[2]])
		for _, r := range text[at[2]:at[3]] {
			sb.WriteString(with(r))
		}
		end = at[3]
	}
	return sb.String() + text[end:]
}
