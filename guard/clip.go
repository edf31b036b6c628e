package guard

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Clip is the stage "clip", that shortens tool results: each to three tenths of the
// window (of 180,000 tokens at most, if it is not known), and those of the last message,
// which no compaction can leave out, to half of the room for all of them
// together. The beginning and the end stay, at line breaks where there
// are some near, with a note in between that says how much is left out and the
// ID of the entry that has all of it, and the tool that reads it if the model is
// offered one, and that a JSON text is not one any more.
// Lines in the middle that speak of errors are quoted behind the note, as far as
// an eighth of what stays goes. Results without an entry of their own are left
// alone, and so is what was clipped before.
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
		for o, r := range results(m) {
			size := n.size(r)
			if size <= limit {
				continue
			}
			c := clipping(o, shorten(n, r, o.Entry, size, limit))
			if n.size(r.WithContent(transcript.TextBlock{Text: c.Content})) < size {
				clips = append(clips, c)
			}
		}
	}
	return replace(ctx, h, clips)
}

// results yields the tool results of a message that have an entry, with their
// origins, the last one first.
func results(m transcript.Message) iter.Seq2[transcript.Origin, transcript.ToolResultBlock] {
	return func(yield func(transcript.Origin, transcript.ToolResultBlock) bool) {
		for j, o := range slices.Backward(m.Origins[:min(len(m.Origins), len(m.Content))]) {
			if r, ok := m.Content[j].(transcript.ToolResultBlock); ok && o.Entry != "" && !yield(o, r) {
				return
			}
		}
	}
}

// replace commits clips, if there are any.
func replace(ctx context.Context, h History, clips []transcript.Clipping) (changed bool, err error) {
	if len(clips) == 0 {
		return false, nil
	}
	_, err = h.Append(ctx, transcript.Clip{Clips: clips})
	return err == nil, err
}

// size is the number of tokens of a block.
func (n Need) size(b transcript.Block) int {
	return counterOr(n.Counter).Count("", nil, []transcript.Message{{Role: transcript.RoleUser, Content: []transcript.Block{b}}})
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
	media := 0
	for _, b := range r.Content {
		if _, ok := b.(transcript.TextBlock); !ok {
			media++
		}
	}
	l := newLongResult(r.Text(), media, n.whole(entry))
	keep := len(l.text)
	for range 40 { // an estimate is not linear, and cuts are at line breaks: approach the limit
		keep = min(keep*limit/max(size, 1), keep-keep/16-1)
		if keep <= 0 {
			break
		}
		s := l.excerpt(keep)
		if size = n.size(r.WithContent(transcript.TextBlock{Text: s})); size <= limit {
			return s
		}
	}
	return l.excerpt(0)
}

// clipping replaces the result that a block came from.
func clipping(o transcript.Origin, content string) transcript.Clipping {
	c := transcript.Clipping{Entry: o.Entry, Content: content}
	if o.Block != transcript.WholeEntry {
		c.Block = &o.Block
	}
	return c
}
