package guard

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/imagesize"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// Media is the stage "media". It replaces images and documents by notes if a request
// has too many bytes ([Bytes]) or media, or a medium that is too large ([Part]). A note
// names the kind, the size and the entry of the original.
//
// If a request has too many bytes, the oldest media go, until the excess and a tenth of
// the limit are saved. If the error has no figures, about half of their bytes go. If
// there are too many media, the oldest go, slightly more than needed, or the older half
// if the limit is unknown. If media are too large, those above the limit go, or else
// the largest. If a limit on the side applies only to requests with many images, the
// oldest go instead if they are fewer. A tool result that is refused as too long is
// shortened to the allowed length.
func Media() Stage { return editing("media", []Kind{Bytes, Part}, media) }

// medium is an image or a document in a history, or all media of a tool result.
type medium struct {
	message int
	blocks  []transcript.Block
	from    transcript.Origin
	text    string // of the result
}

func media(h rebuild.History, n Need) (clips []transcript.Clipping) {
	all, o := findMedia(h.Messages), n.Overflow
	above := func(size func(medium) int) []medium {
		if over := larger(all, o.Limit, size); len(over) > 0 {
			return over
		}
		return []medium{slices.MaxFunc(all, func(a, b medium) int { return a.bytes() - b.bytes() })}
	}
	switch {
	case o.Refused == "text":
		const usual = 1 << 20
		runes := func(b transcript.Block) int { // as providers count one text
			r, _ := b.(transcript.ToolResultBlock)
			return utf8.RuneCountInString(r.Text())
		}
		return shortened(h, n, runes, func(int) int { return cmp.Or(o.Limit, usual) })
	case len(all) == 0:
	case o.Kind == Bytes:
		save := total(all, medium.bytes) / 2
		if o.Prompt > o.Limit && o.Limit > 0 {
			save = o.Prompt - o.Limit + o.Limit/10 // so that the next message does not exceed it again
		}
		all = first(all, save, medium.bytes)
	case o.Refused == "count":
		all = oldest(all, o.Limit)
	case o.Refused == "side":
		if all = above(medium.side); o.Rule == manySides {
			all = fewer(oldest(findMedia(h.Messages), manyImages), all)
		}
	default:
		all = above(func(m medium) int { return m.bytes() * 3 / 4 }) // decoded from base64
	}
	return clipsOf(all)
}

func clipsOf(all []medium) (clips []transcript.Clipping) {
	for i, m := range all {
		if !slices.ContainsFunc(all[:i], func(had medium) bool { return had.from == m.from }) {
			clips = append(clips, m.clip())
		}
	}
	return clips
}

// larger returns the media above a limit, or none if the limit is 0.
func larger(all []medium, limit int, size func(medium) int) []medium {
	return slices.DeleteFunc(slices.Clone(all), func(m medium) bool { return limit <= 0 || size(m) <= limit })
}

// manyImages is the number of images above which the Messages API takes only
// smaller ones.
const manyImages = 20

// oldest returns the media that are too many. They go in steps of ten, or of half of a
// small limit, so that the next media leave earlier messages unchanged.
func oldest(all []medium, limit int) []medium {
	if limit <= 0 {
		return all[:(len(all)+1)/2]
	}
	step := min(10, (limit+1)/2)
	return first(all, (total(all, medium.count)-limit+step-1)/step*step, medium.count)
}

// first returns the oldest media that together reach an amount.
func first(all []medium, amount int, of func(medium) int) []medium {
	for i, m := range all {
		if amount <= 0 {
			return all[:i]
		}
		amount -= of(m)
	}
	return all
}

func total(all []medium, of func(medium) int) (sum int) {
	for _, m := range all {
		sum += of(m)
	}
	return sum
}

func (m medium) count() int { return len(m.blocks) }

func (m medium) bytes() (n int) {
	for _, b := range m.blocks {
		n += len(transcript.MarshalBlock(b))
	}
	return n
}

// fewer returns the shorter of two lists, but not an empty one if the other is not.
func fewer(a, b []medium) []medium {
	if len(a) == 0 || len(b) > 0 && len(b) < len(a) {
		return b
	}
	return a
}

// count replaces media that exceed a limit before the first call, and runs the stages
// if there are too many messages.
func (r *run) count(ctx context.Context) error {
	takes := r.request.Takes
	images, documents := r.mediaOf("image"), r.mediaOf("document")
	var all []medium
	if takes.Images > 0 {
		all = append(all, oldest(images, takes.Images)...)
	}
	if takes.Documents > 0 {
		all = append(all, oldest(documents, takes.Documents)...)
	}
	all = append(all, larger(images, takes.Side, medium.side)...)
	if wide := larger(images, takes.ManySide, medium.side); len(images) > takes.Many && len(wide) > 0 {
		all = append(all, fewer(oldest(images, takes.Many), wide)...)
	}
	o := Overflow{Kind: Part, Refused: "count", Prompt: len(images) + len(documents), Rule: estimated}
	if len(all) > 0 && slices.ContainsFunc(r.left, func(s Stage) bool { return s.helps(Part) }) {
		before := r.size
		if _, err := r.h.Append(ctx, transcript.Clip{Clips: clipsOf(all)}); err != nil {
			return err
		}
		if err := r.read(ctx); err != nil {
			return err
		}
		r.tell(ctx, Event{Kind: EventStage, Overflow: o, Stage: "media", Changed: true, Before: before})
	}
	if n := messagesIn(r.request.Messages); takes.Messages > 0 && n > takes.Messages {
		_, err := r.cure(ctx, Overflow{Kind: Messages, Prompt: n, Limit: takes.Messages, Rule: estimated}, nil)
		return err
	}
	return nil
}

// mediaOf lists the media of a kind in the request, oldest first. The kind "media"
// means all.
func (r *run) mediaOf(kind string) []medium {
	return slices.DeleteFunc(findMedia(r.request.Messages), func(m medium) bool {
		return !slices.ContainsFunc(m.blocks, func(b transcript.Block) bool { return kind == "media" || transcript.BlockType(b) == kind })
	})
}

// messagesIn counts messages like a service that takes each result as a message.
func messagesIn(messages []transcript.Message) (n int) {
	for _, m := range messages {
		results := 0
		for _, b := range m.Content {
			if _, ok := b.(transcript.ToolResultBlock); ok {
				results++
			}
		}
		if n += results; results < len(m.Content) {
			n++
		}
	}
	return n
}

// side returns the longest side of an image, in pixels.
func (m medium) side() (most int) {
	for _, b := range m.blocks {
		if i, ok := b.(transcript.ImageBlock); ok {
			w, h := imagesize.Of(&i.Source)
			most = max(most, w, h)
		}
	}
	return most
}

// findMedia lists the images and documents that entries hold, oldest first. Media of
// one tool result count as one: its text stays, and the notes come after it. Blocks of
// a result cannot be addressed, because the fold may have left out others.
func findMedia(messages []transcript.Message) (all []medium) {
	for i, msg := range messages {
		for j, o := range msg.Origins[:min(len(msg.Origins), len(msg.Content))] {
			blocks := mediaOf(msg.Content[j])
			if o.Entry == "" || len(blocks) == 0 {
				continue
			}
			m := medium{message: i, blocks: blocks, from: o}
			if r, ok := msg.Content[j].(transcript.ToolResultBlock); ok {
				m.text = r.Text()
			}
			all = append(all, m)
		}
	}
	return all
}

func (m medium) clip() transcript.Clipping {
	var parts []string
	if m.text != "" {
		parts = append(parts, m.text)
	}
	for _, b := range m.blocks {
		parts = append(parts, neutral.MediaNote(b, m.from.Entry, ""))
	}
	return clipping(m.from, strings.Join(parts, "\n"))
}

// mediaOf returns a block that is an image or a document, or those in a tool result.
func mediaOf(b transcript.Block) (found []transcript.Block) {
	if r, ok := b.(transcript.ToolResultBlock); ok {
		for _, b := range r.Content {
			found = append(found, mediaOf(b)...)
		}
	} else if transcript.IsMedia(b) {
		found = append(found, b)
	}
	return found
}
