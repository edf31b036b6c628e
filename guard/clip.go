package guard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// Clip is the stage "clip", that shortens tool results: each to three tenths of the
// window (of 180,000 tokens at most, if it is not known), and those of the last message,
// which no compaction can leave out, to half of the room for all of them
// together. What stays is the beginning and the end, with a note in between
// that says how much is left out and the ID of the entry that has all of it.
// Results without an entry of their own are left alone.
func Clip() Stage { return Stage{Name: "clip", Run: clip} }

// usualWindow is the window of a model that says nothing about it, in tokens.
const usualWindow = 180_000

func clip(ctx context.Context, h History, n Need) (bool, error) {
	history, err := h.History(ctx)
	if err != nil {
		return false, err
	}
	most := max(cmp.Or(n.Window, usualWindow)*3/10, 1)
	var clips []transcript.Clipping
	for i, m := range history.Messages {
		limit := most
		if i == len(history.Messages)-1 && n.Room > 0 {
			limit = min(limit, level(n, m, n.Room/2))
		}
		for j, b := range m.Content {
			r, ok := b.(transcript.ToolResultBlock)
			if !ok || j >= len(m.Origins) || m.Origins[j].Entry == "" {
				continue
			}
			size := n.size(b)
			if size <= limit {
				continue
			}
			c := transcript.Clipping{Entry: m.Origins[j].Entry, Content: shorten(n, r, m.Origins[j].Entry, size, limit)}
			if at := m.Origins[j].Block; at != transcript.WholeEntry {
				c.Block = &at
			}
			if n.size(r.WithContent(transcript.TextBlock{Text: c.Content})) < size {
				clips = append(clips, c)
			}
		}
	}
	if len(clips) == 0 {
		return false, nil
	}
	if _, err := h.Append(ctx, transcript.Clip{Clips: clips}); err != nil {
		return false, err
	}
	return true, nil
}

// size is the number of tokens of a block.
func (n Need) size(b transcript.Block) int {
	return n.counter().Count("", nil, []transcript.Message{{Role: transcript.RoleUser, Content: []transcript.Block{b}}})
}

// level is the size that no result of m may exceed for all of them to have no
// more than room tokens.
func level(n Need, m transcript.Message, room int) int {
	const least = 40 // tokens, about as many as the note has
	var sizes []int
	for _, b := range m.Content {
		if _, ok := b.(transcript.ToolResultBlock); ok {
			sizes = append(sizes, n.size(b))
		}
	}
	slices.Sort(sizes)
	for i, s := range sizes {
		share := room / (len(sizes) - i)
		if s > share {
			return max(share, least)
		}
		room -= s
	}
	return math.MaxInt
}

// shorten returns the text of a result, cut in the middle so that it has about
// limit tokens instead of size.
func shorten(n Need, r transcript.ToolResultBlock, entry string, size, limit int) string {
	text := []rune(r.Text())
	media := 0
	for _, b := range r.Content {
		if _, ok := b.(transcript.TextBlock); !ok {
			media++
		}
	}
	keep := len(text)
	for range 40 { // an estimate is not linear, and cuts are at line breaks: approach the limit
		keep = min(keep*limit/max(size, 1), keep-keep/16-1)
		if keep <= 0 {
			break
		}
		s := headAndTail(text, keep, media, entry)
		if size = n.size(r.WithContent(transcript.TextBlock{Text: s})); size <= limit {
			return s
		}
	}
	return headAndTail(text, 0, media, entry)
}

// headAndTail keeps about n runes: two thirds at the beginning, the rest at the
// end, at line breaks where there are some near.
func headAndTail(text []rune, n, media int, entry string) string {
	head, tail := text[:n-n/3], text[len(text)-n/3:]
	for i := len(head) - 1; i > len(head)*4/5; i-- {
		if head[i] == '\n' {
			head = head[:i]
			break
		}
	}
	for i := range len(tail) / 5 {
		if tail[i] == '\n' {
			tail = tail[i+1:]
			break
		}
	}
	var parts []string
	if len(head) > 0 {
		parts = append(parts, string(head))
	}
	note := fmt.Sprintf("[... %d of %d characters left out", len(text)-len(head)-len(tail), len(text))
	if media > 0 {
		note += fmt.Sprintf(", and %d images or documents", media)
	}
	parts = append(parts, note+"; all of it is in entry "+entry+" ...]")
	if len(tail) > 0 {
		parts = append(parts, string(tail))
	}
	return strings.Join(parts, "\n")
}
