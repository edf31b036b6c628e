package main

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// breakMark shows a line break in an edited line.
const breakMark = "␤"

// Limits of an edited line; a longer paste is kept aside. The editor cuts lines at
// 4,096 characters.
const (
	mostInLine = 1000 // characters
	mostBreaks = 3
	fullLine   = 4000 // characters; a longer line is kept aside
)

// shelf keeps texts that do not fit into an edited line. In the line a chip
// replaces each: a short note, one word to the editor.
type shelf struct {
	texts []string
	chips map[string]string // by text
}

var chip = regexp.MustCompile("\\[(?:pasted|recalled|typed)\u00a0(\\d+):[^\\[\\]]*\\]")

// put returns the form of a text in a line: the text itself if it is short.
func (s *shelf) put(text, how string) string {
	lines, size := 1+strings.Count(text, "\n"), utf8.RuneCountInString(text)
	odd := strings.Contains(text, breakMark) || strings.ContainsFunc(text, func(r rune) bool {
		return r != '\n' && !unicode.IsGraphic(r)
	})
	if !odd && lines <= mostBreaks && size <= mostInLine {
		return strings.ReplaceAll(text, "\n", breakMark)
	}
	return s.keep(text, how)
}

// keep is put that always makes a chip.
func (s *shelf) keep(text, how string) string {
	if c, ok := s.chips[text]; ok {
		return c
	}
	amount := thousands(utf8.RuneCountInString(text)) + " characters"
	if lines := 1 + strings.Count(strings.TrimSuffix(text, "\n"), "\n"); lines > 1 {
		amount = thousands(lines) + " lines, " + amount
	}
	s.texts = append(s.texts, text)
	c := strings.ReplaceAll(fmt.Sprintf("[%s %d: %s]", how, len(s.texts), amount), " ", "\u00a0")
	if s.chips == nil {
		s.chips = map[string]string{}
	}
	s.chips[text] = c
	return c
}

func (s *shelf) expand(line string) string {
	line = strings.ReplaceAll(line, breakMark, "\n")
	return chip.ReplaceAllStringFunc(line, func(c string) string {
		for _, text := range s.texts {
			if s.chips[text] == c {
				return text
			}
		}
		return c
	})
}

// lastLength is how many bytes to erase at the end of a line: a chip or a
// character.
func (s *shelf) lastLength(line string) int {
	if all := chip.FindAllStringIndex(line, -1); all != nil && all[len(all)-1][1] == len(line) {
		return len(line) - all[len(all)-1][0]
	}
	_, n := utf8.DecodeLastRuneInString(line)
	return n
}

// pasted restores a text that a terminal sent: with \n as line breaks.
func pasted(raw []byte) string {
	return strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(string(raw), "\uFFFD"))
}
