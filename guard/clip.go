package guard

import (
	"cmp"
	"math"
	"slices"

	"github.com/convolog/convolog/rebuild"
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
func Clip() Stage { return editing("clip", nil, clip) }

// usualWindow is the window of a model that says nothing about it, in tokens.
const usualWindow = 180_000

func clip(h rebuild.History, n Need) (clips []transcript.Clipping) {
	most := max(cmp.Or(n.Window, usualWindow)*3/10, 1)
	for i, m := range h.Messages {
		limit := most
		if i == len(h.Messages)-1 && n.Room > 0 {
			limit = min(limit, level(n, m, n.Room/2))
		}
		for o, r := range results(m) {
			if text, ok := shorten(r, n.whole(o.Entry), limit, func(b transcript.Block) int { return n.size(b) }); ok {
				clips = append(clips, clipping(o, text))
			}
		}
	}
	return clips
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
