package compact

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript/tokens"
)

// Where a text is divided, in tokens: a line longer than mostLine into
// sentences, a sentence longer than mostSentence into pieces of about onePiece.
const (
	mostLine     = 20
	mostSentence = 48
	onePiece     = 16
)

// A unit is carried whole or not at all.
type unit struct {
	from, to int // its place in the text, in bytes
	kind     unitKind
	size     int      // estimated tokens
	terms    []string // its different words, sorted
	gone     int      // of a note: how many runes are missing
	worth    float64  // for each token
}

type unitKind int

const (
	aSentence unitKind = iota // of a long line, or the beginning of a long sentence
	aLine
	aPiece // it continues the sentence of the unit before
	aNote  // an earlier compaction left a part out here
)

// size estimates, because units are many. The counter of the options measures
// the result.
func size(text string) int { return max(tokens.Estimator{}.Text(text), 1) }

// divide returns the units of a text, in order. No unit holds a blank line.
func divide(text string) (list []unit) {
	at := 0
	for line := range linesAndGaps(text) {
		from := at
		at += len(line)
		shown := strings.TrimRightFunc(line, unicode.IsSpace)
		if strings.TrimSpace(shown) == "" {
			continue
		}
		if gone, ok := leftOut(shown); ok {
			list = append(list, unit{from: from, to: from + len(shown), kind: aNote, gone: gone, size: size(shown)})
			continue
		}
		if n := size(shown); n <= mostLine {
			list = append(list, unit{from: from, to: from + len(shown), kind: aLine, size: n, terms: termsOf(shown)})
			continue
		}
		first := len(list)
		for len(shown) > 0 {
			end := sentenceEnd(shown)
			list = append(list, divided(shown[:end], from)...)
			from, shown = from+end, shown[end:]
		}
		if len(list) == first+1 {
			list[first].kind = aLine
		}
	}
	return list
}

// linesAndGaps divides a text into lines, and a line at each note of a short gap.
func linesAndGaps(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for line := range strings.Lines(text) {
			for line != "" {
				end := strings.Index(line, gapMark)
				switch {
				case end < 0:
					end = len(line)
				case end == 0:
					end = len(gapMark)
				}
				if !yield(line[:end]) {
					return
				}
				line = line[end:]
			}
		}
	}
}

// divided returns a sentence as one or more units.
func divided(sentence string, from int) (list []unit) {
	n := size(sentence)
	if n <= mostSentence {
		return []unit{{from: from, to: from + len(sentence), size: n, terms: termsOf(sentence)}}
	}
	step := len(sentence) / (n/onePiece + 1)
	for len(sentence) > 0 {
		end := len(sentence)
		if end > step*3/2 {
			end = runeEnd(sentence, step)
			if space := strings.IndexFunc(sentence[end:], unicode.IsSpace); space >= 0 && space < step/2 {
				end += space
			}
		}
		part := sentence[:end]
		u := unit{from: from, to: from + end, size: size(part), terms: termsOf(part)}
		if len(list) > 0 {
			u.kind = aPiece
		}
		list = append(list, u)
		from, sentence = from+end, sentence[end:]
	}
	return list
}

// sentenceEnd returns where the first sentence of a line ends.
func sentenceEnd(line string) int {
	for i, r := range line {
		_, n := utf8.DecodeRuneInString(line[i:]) // 1 for an invalid byte
		after := line[i+n:]
		switch r {
		case '.', '!', '?', '…':
			if next, _ := utf8.DecodeRuneInString(after); unicode.IsSpace(next) {
				return len(line) - len(after)
			}
		case '。', '\uff01', '\uff1f', '।', '؟', '۔':
			return len(line) - len(after)
		}
	}
	return len(line)
}

func termsOf(text string) []string {
	list := words.Terms(text)
	slices.Sort(list)
	return slices.Compact(list)
}

// shortGap is the fewest runes of a gap that names its size. Others are a gapMark.
const (
	shortGap = 400
	gapMark  = "[…]"
)

var noteOfGap = lazy.New(`^\[(?:…|\.\.\. (\d+) runes left out(?: of entry [^ \]]+)? \.\.\.)\]$`)

// leftOut reads the note of a gap. A user's line that looks like one only makes
// its text count as longer.
func leftOut(line string) (runes int, ok bool) {
	m := noteOfGap.Get().FindStringSubmatch(strings.TrimSpace(line))
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, m[1] == "" || err == nil
}

// reduced returns a text with only the chosen units and a note for each gap: in the
// line of its neighbours, or for a long gap in a line of its own. The first long gap
// names the entry if its ID is known. A short note between two chosen units stays as it
// is: it may be the user's own.
func reduced(text, entry string, units []unit, chosen []bool) string {
	var sb strings.Builder
	gap, noted, of := 0, false, ""
	if entry != "" {
		of = " of entry " + entry
	}
	add := func(between byte, part string) {
		if sb.Len() > 0 {
			sb.WriteByte(between)
		}
		sb.WriteString(part)
	}
	note := func() (between byte) {
		long := gap >= shortGap
		switch {
		case gap == 0 && !noted:
			return '\n'
		case long:
			add('\n', fmt.Sprintf("[... %d runes left out%s ...]", gap, of))
			of = ""
		default:
			add(' ', gapMark)
		}
		if gap, noted = 0, false; long {
			return '\n'
		}
		return ' '
	}
	stays := slices.Clone(chosen)
	for i, u := range units {
		if u.kind == aNote {
			stays[i] = u.gone == 0 && 0 < i && i < len(units)-1 && chosen[i-1] && chosen[i+1]
		}
		switch {
		case stays[i] && i > 0 && stays[i-1]:
			sb.WriteString(text[units[i-1].to:u.to])
		case u.kind == aNote:
			gap, noted = gap+u.gone, true
		case !stays[i]:
			gap += utf8.RuneCountInString(text[u.from:u.to])
		default:
			add(note(), strings.TrimLeftFunc(text[u.from:u.to], unicode.IsSpace))
		}
	}
	note()
	return sb.String()
}
