package guard

import (
	"cmp"
	"math"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Clip is the stage "clip". It shortens each tool result to three tenths of
// [Need].Window, or of 180,000 tokens if that is 0. Every compaction keeps the last
// message, so all of its results together get half of the room. Clip keeps the
// beginning and the end of a result, cut at nearby line breaks. A note between them
// gives the omitted size, the ID of the entry with the whole text, and the tool that
// reads the entry, if the model is offered one. The note warns if the text was JSON.
// After the note Clip quotes omitted lines that mention errors, up to an eighth of the
// kept text. It indents lines that begin with a bracket, so that none can imitate the
// note. It leaves results alone that have no entry of their own or are short enough, and
// all results if there are too many messages.
func Clip() Stage { return editing("clip", nil, clip) }

// usualWindow is the assumed window of a model if a Need gives none, in tokens.
const usualWindow = 180_000

func clip(h rebuild.History, n Need) []transcript.Clipping {
	if n.Overflow.Kind == Messages {
		return nil // there are as many afterwards
	}
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

// shortened clips the tool results that exceed the limit of their message.
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

// level returns the size limit for a result of m with which all of them together take
// at most room tokens.
func level(n Need, m transcript.Message, room int) int {
	const least = 40 // tokens, about as many as a note has
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
