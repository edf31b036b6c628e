// Package words finds words in texts of any script: whole words, parts of
// identifiers, phrases, and characters of scripts without spaces between words. It
// compares folded texts, see [Fold].
//
// A word lies between boundaries. A boundary is the beginning or the end of a run of
// letters and digits. Inside a run, a change of case or to or from digits is also a
// boundary: getUserByID contains get, user, by and id, and a/b/c.go contains b/c.go.
// Between two characters of a script without spaces there is always a boundary, so a
// search for 据库 finds 数据库.
package words

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A classOf is the role of a character in words.
type classOf int

const (
	classNone classOf = iota
	classWord         // letters, digits and marks
	classRun          // letters of scripts without spaces between words
	classSign         // emoji
)

func class(r rune) classOf {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return classWord
	case r < utf8.RuneSelf, r == '\u02bc': // an apostrophe
		return classNone
	case unicode.Is(emoji, r):
		return classSign
	case strings.ContainsRune("ーｰﾞﾟ", r) || unicode.In(r, runScripts...): // these signs belong to no script
		return classRun
	case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r):
		return classWord
	}
	return classNone
}

// runScripts are the scripts without spaces between words, and Hangul: Korean joins
// particles to words.
var runScripts = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

// Boundary reports whether a word may begin or end at byte i of a text.
func Boundary(text string, i int) bool {
	if i <= 0 || i >= len(text) {
		return true
	}
	head, tail := text[:i], text[i:]
	prev, n := utf8.DecodeLastRuneInString(head)
	for isIgnored(prev) || prev >= 0x2000 && unicode.Is(variants, prev) {
		head = head[:len(head)-n]
		prev, n = utf8.DecodeLastRuneInString(head)
	}
	r, size := utf8.DecodeRuneInString(tail)
	for isIgnored(r) {
		tail = tail[size:]
		r, size = utf8.DecodeRuneInString(tail)
	}
	a, b := class(prev), class(r)
	switch {
	case unicode.IsMark(r) && a != classNone, r >= 0x300 && joins(prev, r):
		return false
	case a != classWord || b != classWord:
		return true
	}
	next, _ := utf8.DecodeRuneInString(tail[size:])
	return begins(prev, r, next)
}

// begins reports whether a part of a word begins at r, between prev and next.
func begins(prev, r, next rune) bool {
	switch {
	case unicode.IsDigit(r) != unicode.IsDigit(prev):
		return true
	case unicode.IsUpper(r):
		return unicode.IsLower(prev) || unicode.IsUpper(prev) && unicode.IsLower(next)
	}
	return false
}

// split returns the pieces of a text between spaces. It also splits between words, runs of
// scripts without spaces, and emoji, and removes signs around a piece.
func split(text string) (list []string) {
	for field := range strings.FieldsSeq(text) {
		from, last := 0, classNone
		for i, r := range field {
			c := class(r)
			if c == classNone || unicode.IsMark(r) && last != classNone {
				continue
			}
			if last != classNone && (c != last || c == classSign && !isFlag(r)) {
				list = append(list, field[from:i])
				from = i
			}
			last = c
		}
		list = append(list, field[from:])
	}
	trimmed := list[:0]
	for _, s := range list {
		if s = strings.TrimFunc(s, func(r rune) bool { return class(r) == classNone }); s != "" {
			trimmed = append(trimmed, s)
		}
	}
	return trimmed
}

// isRun reports whether a piece is in a script without spaces.
func isRun(piece string) bool {
	r, _ := utf8.DecodeRuneInString(piece)
	return class(r) == classRun
}

// pairs returns the pairs of neighbouring characters in a run, or the run itself if it has
// fewer than three characters. A mark belongs to the character before it.
func pairs(run string) (list []string) {
	var starts []int
	for i, r := range run {
		if !unicode.IsMark(r) || i == 0 {
			starts = append(starts, i)
		}
	}
	if len(starts) < 3 {
		return []string{run}
	}
	starts = append(starts, len(run))
	for i := range len(starts) - 2 {
		list = append(list, run[starts[i]:starts[i+2]])
	}
	return list
}
