package guard

import (
	"context"
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
// [Item]). A note says what was there, its size and the ID of the entry that
// has it.
//
// Of a request with too many bytes the oldest go, until what the error asks for
// is saved and a tenth of the limit besides, or half of their bytes if it does
// not say. Of things that are refused it is the one that the error names, or the
// largest, or the older half where there are too many. A tool result that is
// refused as too long is shortened to what is allowed.
func Media() Stage {
	return Stage{Name: "media", Kinds: []Kind{Bytes, Item}, Run: media}
}

// medium is an image or a document in a history.
type medium struct {
	message int
	size    int // bytes
	clip    transcript.Clipping
}

func media(ctx context.Context, h History, n Need) (bool, error) {
	history, err := h.History(ctx)
	if err != nil {
		return false, err
	}
	all := findMedia(history)
	var clips []transcript.Clipping
	switch {
	case n.Overflow.Kind == Bytes:
		clips = oldestMedia(all, n.Overflow)
	case n.Overflow.Rule == longText:
		clips = shortenText(history, n.Overflow)
	case n.Overflow.Rule == mediaCount:
		for _, m := range all[:(len(all)+1)/2] {
			clips = append(clips, m.clip)
		}
	case len(all) > 0:
		clips = []transcript.Clipping{refusedMedium(all, n.Overflow.Path).clip}
	}
	return replace(ctx, h, clips)
}

// findMedia lists the images and documents that entries hold, oldest first. Those
// of a tool result are one: its text stays, and the notes come after it. A block of
// a result has no place of its own, as the fold may have left out others.
func findMedia(h rebuild.History) (all []medium) {
	for i, m := range h.Messages {
		for j, o := range m.Origins[:min(len(m.Origins), len(m.Content))] {
			if o.Entry == "" {
				continue
			}
			var parts []string
			blocks := m.Content[j : j+1]
			if r, ok := m.Content[j].(transcript.ToolResultBlock); ok {
				blocks = r.Content
				if text := r.Text(); text != "" {
					parts = append(parts, text)
				}
			}
			total := 0
			for _, b := range blocks {
				if note, size := mediumNote(b, o.Entry); note != "" {
					parts, total = append(parts, note), total+size
				}
			}
			if total > 0 {
				all = append(all, medium{i, total, clipping(o, strings.Join(parts, "\n"))})
			}
		}
	}
	return all
}

// mediumNote is what stands for an image or a document, and how many bytes it
// has; it is empty for other blocks.
func mediumNote(b transcript.Block, entry string) (note string, size int) {
	var kind string
	var src transcript.Source
	switch b := b.(type) {
	case transcript.ImageBlock:
		kind, src = "image", b.Source
	case transcript.DocumentBlock:
		kind, src = "document", b.Source
	default:
		return "", 0
	}
	if src.MediaType != "" {
		kind += " (" + src.MediaType + ")"
	}
	size = len(transcript.MarshalBlock(b))
	return fmt.Sprintf("[%s of %d bytes left out; it is in entry %s]", kind, size, entry), size
}

// oldestMedia takes as many as it takes to save what is too much, and a tenth of
// the limit, so that the next message does not meet it again.
func oldestMedia(all []medium, o Overflow) (clips []transcript.Clipping) {
	save := 0
	for _, m := range all {
		save += m.size
	}
	save /= 2
	if o.Prompt > o.Limit && o.Limit > 0 {
		save = o.Prompt - o.Limit + o.Limit/10
	}
	for _, m := range all {
		if save <= 0 {
			break
		}
		clips = append(clips, m.clip)
		save -= m.size
	}
	return clips
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

// shortenText clips the tool results that are longer than a provider takes one
// text to be.
func shortenText(h rebuild.History, o Overflow) (clips []transcript.Clipping) {
	const usual = 1 << 20 // runes
	limit := usual
	if o.Limit > 0 {
		limit = o.Limit
	}
	for _, m := range h.Messages {
		for o, r := range results(m) {
			if text := r.Text(); utf8.RuneCountInString(text) > limit {
				l := newLongResult(text, 0, o.Entry)
				clips = append(clips, clipping(o, l.excerpt(limit-limit/8-noteRoom)))
			}
		}
	}
	return clips
}
