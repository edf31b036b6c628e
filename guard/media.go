package guard

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Media is the stage "media", that replaces images and documents by notes when
// a request has too many bytes, or when one thing in it is refused ([Bytes],
// [Item]). A note names the kind, the size and the entry of the original.
//
// Of a request with too many bytes the oldest go, until the excess and a tenth
// of the limit are saved, or half of the bytes if the error has no figures. Of
// refused media it replaces the one that the error names, or the largest, or the
// older half if there are too many. A tool result that is refused as too long is
// shortened to the allowed length.
func Media() Stage { return editing("media", []Kind{Bytes, Item}, media) }

// medium is an image or a document in a history.
type medium struct {
	message int
	size    int // bytes
	clip    transcript.Clipping
}

func media(h rebuild.History, n Need) (clips []transcript.Clipping) {
	all := findMedia(h)
	switch {
	case n.Overflow.Kind == Bytes:
		all = oldestMedia(all, n.Overflow)
	case n.Overflow.Rule == tooLongText:
		const usual = 1 << 20
		runes := func(b transcript.Block) int { // as providers count one text
			r, _ := b.(transcript.ToolResultBlock)
			return utf8.RuneCountInString(r.Text())
		}
		return shortened(h, n, runes, func(int) int { return cmp.Or(n.Overflow.Limit, usual) })
	case n.Overflow.Rule == mediaCount:
		all = all[:(len(all)+1)/2]
	case len(all) > 0:
		all = []medium{refusedMedium(all, n.Overflow.Path)}
	}
	for _, m := range all {
		clips = append(clips, m.clip)
	}
	return clips
}

// findMedia lists the images and documents that entries hold, oldest first. Media
// of one tool result count as one: its text stays, and the notes come after it.
// Blocks of a result cannot be addressed, as the fold may have left out others.
func findMedia(h rebuild.History) (all []medium) {
	for i, m := range h.Messages {
		for j, o := range m.Origins[:min(len(m.Origins), len(m.Content))] {
			blocks := mediaOf(m.Content[j])
			if o.Entry == "" || len(blocks) == 0 {
				continue
			}
			var parts []string
			if r, ok := m.Content[j].(transcript.ToolResultBlock); ok && r.Text() != "" {
				parts = append(parts, r.Text())
			}
			total := 0
			for _, b := range blocks {
				size := len(transcript.MarshalBlock(b))
				total += size
				parts = append(parts, fmt.Sprintf("[%s of %d bytes left out; it is in entry %s]", kindOf(b), size, o.Entry))
			}
			all = append(all, medium{i, total, clipping(o, strings.Join(parts, "\n"))})
		}
	}
	return all
}

// mediaOf returns a block, or those in a tool result, that are images or documents.
func mediaOf(b transcript.Block) (found []transcript.Block) {
	switch b := b.(type) {
	case transcript.ImageBlock, transcript.DocumentBlock:
		return []transcript.Block{b}
	case transcript.ToolResultBlock:
		for _, b := range b.Content {
			found = append(found, mediaOf(b)...)
		}
	}
	return found
}

func kindOf(b transcript.Block) string {
	var src transcript.Source
	switch b := b.(type) {
	case transcript.ImageBlock:
		src = b.Source
	case transcript.DocumentBlock:
		src = b.Source
	}
	if src.MediaType == "" {
		return b.BlockType()
	}
	return b.BlockType() + " (" + src.MediaType + ")"
}

// oldestMedia takes enough to save the excess and a tenth of the limit, so that
// the next message does not exceed it again.
func oldestMedia(all []medium, o Overflow) []medium {
	save := 0
	for _, m := range all {
		save += m.size
	}
	save /= 2
	if o.Prompt > o.Limit && o.Limit > 0 {
		save = o.Prompt - o.Limit + o.Limit/10
	}
	for i, m := range all {
		if save <= 0 {
			return all[:i]
		}
		save -= m.size
	}
	return all
}

var pathNumber = lazy.New(`\d+`)

// refusedMedium is the one that a path of an error names, or the largest one.
func refusedMedium(all []medium, path string) medium {
	if n, err := strconv.Atoi(pathNumber.Get().FindString(path)); err == nil {
		if in := slices.DeleteFunc(slices.Clone(all), func(m medium) bool { return m.message != n }); len(in) > 0 {
			all = in // which of several in one message: a renderer may have moved them
		}
	}
	return slices.MaxFunc(all, func(a, b medium) int { return a.size - b.size })
}
