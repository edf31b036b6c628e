package guard

import (
	"cmp"
	"math"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Clip is the stage "clip", that shortens tool results: each to three tenths of the
// window (of 180,000 tokens at most, if it is not known), and results of the last
// message, which every compaction keeps, to half of the room for all of them together.
// The beginning and the end stay, cut at line breaks if some are near. A note in between
// gives the size left out, the ID of the entry with the whole text, and the tool that
// reads it if the model is offered one; it warns if the text was JSON. Lines in the
// middle that mention errors are quoted after the note, up to an eighth of the kept
// text. Lines that begin with a bracket are indented, so that none can imitate the note. Results without an entry of their own are left alone, and so are clipped ones.
func Clip() Stage { return editing("clip", nil, clip) }

// usualWindow is the assumed window of a model, in tokens.
const usualWindow = 180_000

func clip(h rebuild.History, n Need) []transcript.Clipping {
	most := max(cmp.Or(n.Window, usualWindow)*3/10, 1)
	size := func(b transcript.Block) int { return n.size(b) }
	return shortened(h, n, size, func(i int) int {
		if i == len(h.Messages)-1 && n.Room > 0 {
			front := n.size(transcript.TextBlock{Text: h.SystemPrompt("")})
			return min(most, level(n, h.Messages[i], (n.Room-front)/2))
		}
		return most
	})
}

// shortened clips the tool results whose size is more than the limit for their
// message.
func shortened(h rebuild.History, n Need, size func(transcript.Block) int, limit func(i int) int) (clips []transcript.Clipping) {
	for i, m := range h.Messages {
		most := limit(i)
		for j, o := range slices.Backward(m.Origins[:min(len(m.Origins), len(m.Content))]) {
			r, ok := m.Content[j].(transcript.ToolResultBlock)
			if !ok || o.Entry == "" {
				continue
			}
			if text, ok := shorten(r, n.whole(o.Entry), most, size); ok {
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
