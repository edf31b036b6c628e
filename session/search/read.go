package search

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/session"
)

// A Slice selects the part of a text that [Read] returns. The zero value is its
// beginning.
type Slice struct {
	// From and To are lines, from 1; a To of 0 is the last line.
	From int `json:"from,omitempty"`
	To   int `json:"to,omitempty"`
	// Offset is where to begin, in bytes, if From is not set.
	Offset int `json:"offset,omitempty"`
	// Match is a regular expression, limited like [Query].Regexp: it selects the matching lines,
	// and Around lines before and after each.
	Match  string `json:"match,omitempty"`
	Around int    `json:"around,omitempty"`
	// Max is the most bytes to return; 0 means 16,384.
	Max int `json:"max,omitempty"`
}

// Part is a part of the text of an entry.
type Part struct {
	Entry string `json:"entry"`
	Text  string `json:"text"`
	// Bytes and Lines are the size of the entry's whole text.
	Bytes int `json:"bytes"`
	Lines int `json:"lines"`
	// Matches is how many lines Slice.Match matched; Text may omit some.
	Matches int `json:"matches,omitempty"`
	// Next is the Slice.Offset to continue with if the part was cut at
	// Slice.Max, otherwise 0.
	Next int `json:"next,omitempty"`
}

const maxPart = 16 << 10

// Read returns a part of the text of an entry as it was appended, even if the
// entry was clipped or compacted. With Slice.Match each line begins with its
// number. Cuts are never inside a character. An unknown ID gives an error that
// matches [session.ErrNoEntry], a bad expression or slice one that matches
// [ErrQuery].
func Read(ctx context.Context, s *session.Session, entryID string, slice Slice) (p Part, err error) {
	if min(slice.From, slice.To, slice.Offset, slice.Around, slice.Max) < 0 || slice.To > 0 && slice.To < slice.From {
		err = fmt.Errorf("%w: there is no slice %+v", ErrQuery, slice)
		return Part{}, &session.Error{Op: "read", Session: s.Ref(), Err: err}
	}
	rec, err := find(ctx, s, entryID)
	if err != nil {
		return Part{}, err
	}
	var texts []string
	for _, p := range passages(rec.Entry) {
		if p.text != "" && p.carried == "" && p.kind != kindApp {
			texts = append(texts, p.text)
		}
	}
	if p, err = slice.of(ctx, strings.Join(texts, "\n")); err != nil {
		return Part{}, &session.Error{Op: "read", Session: s.Ref(), Err: err}
	}
	p.Entry = entryID
	return p, nil
}

func (s Slice) of(ctx context.Context, text string) (Part, error) {
	p := Part{Bytes: len(text), Lines: strings.Count(text, "\n") + 1}
	most := cmp.Or(s.Max, maxPart)
	from, to := min(s.Offset, len(text)), len(text)
	i, at := 0, 0
	for line := range strings.SplitAfterSeq(text, "\n") {
		if i++; i == s.From {
			from = at
		}
		if i == s.To+1 && s.To > 0 {
			to = max(at-1, 0)
		}
		at += len(line)
	}
	if s.From > p.Lines {
		from = len(text)
	}
	for from < to && !utf8.RuneStart(text[from]) {
		from++
	}
	to = max(to, from)
	if s.Match != "" {
		pattern, err := words.NewPattern(s.Match)
		if err != nil {
			return Part{}, fmt.Errorf("%w: %w", ErrQuery, err)
		}
		p.Text, p.Matches = matching(ctx, text, from, to, pattern, s.Around, most)
		return p, ctx.Err()
	}
	if to-from > most {
		if to = runeEnd(text, from+most); to == from { // no room for a character
			_, size := utf8.DecodeRuneInString(text[from:])
			to += size
		}
		p.Next = to
	}
	p.Text = text[from:to]
	return p, nil
}

// matching returns the numbered lines between two places of a text that an expression matches, with
// around lines before and after each, up to most bytes.
func matching(ctx context.Context, text string, from, to int, pattern *words.Pattern, around, most int) (found string, matches int) {
	all := strings.Split(text, "\n")
	var hits []int
	at := 0
	for i, line := range all {
		if ctx.Err() != nil {
			break
		}
		if at+len(line) >= from && at < max(to, 1) && pattern.Find(ctx, line) != nil {
			hits = append(hits, i)
		}
		at += len(line) + 1
	}
	var sb strings.Builder
	next := 0 // the first line not yet written
	for _, hit := range hits {
		for i := max(next, hit-around); i <= min(hit+around, len(all)-1); i++ {
			line := fmt.Sprintf("%d: %s\n", i+1, all[i])
			if i > next && next > 0 {
				line = "--\n" + line
			}
			if sb.Len()+len(line) > most {
				if sb.Len() == 0 {
					sb.WriteString(line[:runeEnd(line, most)])
				}
				return strings.TrimSuffix(sb.String(), "\n"), len(hits)
			}
			sb.WriteString(line)
			next = i + 1
		}
	}
	return strings.TrimSuffix(sb.String(), "\n"), len(hits)
}

// runeEnd returns the last end of a character in a text, up to n.
func runeEnd(text string, n int) int {
	if n >= len(text) {
		return len(text)
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return n
}
