// Package wordstest compares package words with the normalization of
// golang.org/x/text, and makes its table from that.
package wordstest

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"github.com/convolog/convolog/internal/words"
)

var update = flag.Bool("update", false, "rewrite the table of package words")

const formsFile = "../words/forms.txt"

// omitted are characters that package words compares as they are.
var omitted = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x2b0, Hi: 0x2e4, Stride: 1}, // rare modifiers
		{Lo: 0x1d00, Hi: 0x1dbf, Stride: 1},
		{Lo: 0x3131, Hi: 0x318e, Stride: 1}, // single letters of Hangul
		{Lo: 0xa640, Hi: 0xabff, Stride: 1}, // rare modifiers
		{Lo: 0xac00, Hi: 0xd7a3, Stride: 1}, // syllables of Hangul: arithmetic
		{Lo: 0xfbea, Hi: 0xfd3d, Stride: 1}, // ligatures of Arabic
		{Lo: 0xfd50, Hi: 0xfdfb, Stride: 1},
		{Lo: 0xffa0, Hi: 0xffdc, Stride: 1}, // half-width Hangul
	},
	R32: []unicode.Range32{
		{Lo: 0x10780, Hi: 0x1cfff, Stride: 1}, // rare scripts and modifiers
		{Lo: 0x1d100, Hi: 0x1d1ff, Stride: 1}, // music
		{Lo: 0x1df00, Hi: 0x1efff, Stride: 1}, // rare modifiers, Arabic of formulas
		{Lo: 0x2f800, Hi: 0x2fa1f, Stride: 1}, // rare duplicates of Han
	},
}

// decompose returns the compatibility decomposition of a character, with whole
// syllables of Hangul.
func decompose(r rune) string {
	var sb strings.Builder
	for _, c := range norm.NFKC.String(string(r)) {
		if unicode.In(c, unicode.Hangul) {
			sb.WriteRune(c)
			continue
		}
		sb.WriteString(norm.NFD.String(string(c)))
	}
	return sb.String()
}

// The table equals x/text's without the omitted characters, characters that
// become a space with something, and letters of Hangul.
func TestForms(t *testing.T) {
	require.Equal(t, unicode.Version, norm.Version)
	forms := map[string][]rune{}
	for r := rune(utf8.RuneSelf); r <= unicode.MaxRune; r++ {
		key := decompose(r)
		if key == string(r) || unicode.Is(omitted, r) || strings.Contains(key, " ") || strings.ContainsFunc(key, isJamo) {
			continue
		}
		forms[key] = append(forms[key], r)
	}
	var lines []string
	for key, list := range forms {
		lines = append(lines, key+" "+string(list)+"\n")
	}
	slices.Sort(lines)
	table := strings.Join(lines, "")
	if *update {
		require.NoError(t, os.WriteFile(formsFile, []byte(table), 0o644))
	}
	got, err := os.ReadFile(formsFile)
	require.NoError(t, err)
	require.Equal(t, table, string(got), "run go test -run Forms -update")
}

// Every other character folds like its normal forms.
func TestFold(t *testing.T) {
	for r := rune(1); r <= unicode.MaxRune; r++ {
		text := string(r)
		full := norm.NFKC.String(text)
		if strings.Contains(full, " ") || strings.ContainsFunc(full, isJamo) || !unicode.In(r, unicode.L, unicode.N, unicode.P, unicode.S) {
			continue
		}
		forms := []norm.Form{norm.NFC, norm.NFD, norm.NFKC, norm.NFKD}
		if unicode.Is(omitted, r) {
			forms = nil
			if 0xac00 <= r && r <= 0xd7a3 {
				forms = []norm.Form{norm.NFD}
			}
		}
		for _, form := range forms {
			require.Equal(t, words.Fold(text), words.Fold(form.String(text)), "%+q", text)
		}
	}
}

func isJamo(r rune) bool { return 0x1100 <= r && r <= 0x11ff }
