package guard

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// A trial is a cure of a refused part that no call has proven yet.
type trial struct {
	cure transcript.Calibration
	of   Overflow
	text string // the refusal's text without numbers and names
	err  error  // returned if the refusal comes back
}

// namesMedia is the rule of an error that no other rule matches and that mentions
// media. All media are left out, once.
const namesMedia = "names media"

// namesPlace is the rule of an error that no other rule matches and that names a place.
// The part there is left out if it is a medium, or data for its maker alone.
const namesPlace = "names place"

// isStaged reports whether stages cure a refused part: a limit on the size or the
// number of media and texts.
func isStaged(o Overflow) bool {
	return slices.Contains([]string{"count", "side", "size", "text"}, o.Refused)
}

// without maps a refused part to the forms that the model then does not take.
var without = map[string][]transcript.Form{
	"images":     {transcript.Images, transcript.Documents},
	"parts":      {transcript.Parts, transcript.Images, transcript.Documents},
	"signatures": {transcript.Signatures},
	"call-ids":   {transcript.CallIDs},
}

// remedy returns the cure of a refused part. ok is false if no cure is left.
func (r *run) remedy(o Overflow) (c transcript.Calibration, ok bool) {
	switch {
	case o.Refused == "reasoning":
		c.Unread = r.answered()
		return c, c.Unread != "" && !r.tried[o.Refused]
	case isMedium(o):
		c.Left = r.unreadable(o)
		return c, len(c.Left) > 0
	}
	c.Without = without[o.Refused]
	return c, c.Without != nil && !r.tried[o.Refused]
}

// answered returns an entry of the newest answer, or "" if no answer holds data for its
// maker alone.
func (r *run) answered() string {
	entry, own := "", false
	for _, m := range r.request.Messages {
		for j, o := range m.Origins[:min(len(m.Origins), len(m.Content))] {
			if m.Role != transcript.RoleAssistant || o.Entry == "" {
				continue
			}
			entry = o.Entry
			own = own || isOwn(m.Content[j])
		}
	}
	if !own {
		return ""
	}
	return entry
}

// isOwn reports whether a block may hold data for its maker alone.
func isOwn(b transcript.Block) bool {
	if text, ok := b.(transcript.TextBlock); ok {
		return len(text.Extra["ext"]) > 0
	}
	return !transcript.IsMedia(b) // a call without its signature is refused like one with a bad signature
}

// unreadable returns the media that may have caused a refusal, and equal ones. If the
// refusal names a place, these are the media there. Otherwise, and for the last call,
// they are the media of the newest message with any; if those were tried, all media.
func (r *run) unreadable(o Overflow) (left []transcript.BlockRef) {
	all, chosen := findMedia(r.request.Messages), r.there.media
	if o.Rule != namesPlace && (len(chosen) == 0 || r.attempt == maxCalls-2) {
		all = r.mediaOf(o.Refused)
		chosen = slices.Clone(all)
		if !r.tried[o.Refused] && o.Rule != namesMedia {
			chosen = slices.DeleteFunc(chosen, func(m medium) bool { return m.message != all[len(all)-1].message })
		}
	}
	for _, m := range all {
		if ref := (transcript.BlockRef{Entry: m.from.Entry, Block: m.from.Block}); slices.ContainsFunc(chosen, m.equals) && !slices.Contains(left, ref) {
			left = append(left, ref)
		}
	}
	return left
}

// A place is the part of a request that an error points to.
type place struct {
	media []medium
	own   bool // it holds data for its maker alone
}

// placeOf finds the blocks at a path such as "messages.3.content.1". It finds none if
// one of them is a text or a call.
func (r *run) placeOf(path string) (found place) {
	if path == "" || r.g.Format == nil {
		return place{}
	}
	body, _, err := r.g.Format.Request(r.request)
	var doc any
	if err != nil || json.Unmarshal(body, &doc) != nil {
		return place{}
	}
	part := data(partAt(doc, path))
	if len(part) == 0 {
		return place{}
	}
	holds := func(b transcript.Block) bool { // reports whether a block shares data with the part
		var block any
		_ = json.Unmarshal(transcript.MarshalBlock(b), &block) // an object
		return slices.ContainsFunc(data(block), func(s string) bool { return slices.Contains(part, s) })
	}
	for _, m := range findMedia(r.request.Messages) {
		if slices.ContainsFunc(m.blocks, holds) {
			found.media = append(found.media, m)
		}
	}
	for _, m := range r.request.Messages {
		for _, b := range m.Content {
			if res, ok := b.(transcript.ToolResultBlock); ok {
				b = res.WithContent(slices.DeleteFunc(slices.Clone(res.Content), transcript.IsMedia)...)
			}
			_, opaque := b.(transcript.RawBlock)
			switch {
			case transcript.IsMedia(b) || !holds(b):
			case opaque || transcript.IsReasoning(b):
				found.own = true
			default:
				return place{}
			}
		}
	}
	return found
}

// equals reports whether two media share a block.
func (m medium) equals(n medium) bool {
	return slices.ContainsFunc(m.blocks, func(b transcript.Block) bool {
		return slices.ContainsFunc(n.blocks, func(c transcript.Block) bool { return reflect.DeepEqual(b, c) })
	})
}

// try prepares a call with a cure of a refused part.
func (r *run) try(ctx context.Context, o Overflow, err error) error {
	c, _ := r.remedy(o)
	if r.tried == nil {
		r.tried = map[string]bool{}
	}
	r.tried[o.Refused] = true
	ev, _ := r.g.evidence(err)
	next := &trial{c, o, saidIn(ev), err}
	if r.trial != nil { // for the same part, and insufficient
		next.cure, next.err = r.trial.cure.Merge(c), r.trial.err
	}
	r.trial = next
	before := r.size
	if err := r.read(ctx); err != nil {
		return err
	}
	r.tell(ctx, Event{Kind: EventRefused, Overflow: o, Learned: next.cure, Before: before, Err: err})
	return nil
}

// prove commits the cure on trial, if there is one.
func (r *run) prove(ctx context.Context) {
	t := r.trial
	if t == nil {
		return
	}
	r.trial = nil
	r.known = r.known.Merge(t.cure)
	c, err := t.cure, error(nil)
	if _, keeps := r.h.(Calibrated); keeps {
		c, err = r.append(ctx, c)
	}
	r.tell(ctx, Event{Kind: EventRefused, Overflow: t.of, Learned: c, Changed: err == nil, Before: r.size, Err: err})
}

// judge classifies an error, and decides whether it proves the cure on trial. It
// returns the error of Do, or nil if another call may help.
func (r *run) judge(ctx context.Context, err error) (o Overflow, failed error) {
	ev, o := r.g.evidence(err)
	if r.there = (place{}); isMedium(o) {
		r.there = r.placeOf(o.Path)
	} else if o.Rule == none && isRefusal(ev.status) {
		o = r.guess(ev)
	}
	if t := r.trial; t != nil && ctx.Err() == nil {
		switch {
		case t.of.Path != "" && len(r.there.media) > 0: // at another place: the first cure is proven
			r.prove(ctx)
		case saidIn(ev) == t.text, o.Kind == Part && o.Refused == t.of.Refused && !isMedium(o):
			if isMedium(o) && r.curable(o) {
				return o, nil // try extends the cure
			}
			return o, t.err
		case o.Kind != NotOverflow && o.Kind != RateLimit, isRefusal(ev.status) && len(ev.texts) > 0:
			r.prove(ctx)
		}
	}
	if ctx.Err() != nil || !r.curable(o) {
		return o, err
	}
	return o, nil
}

// guess returns the part that an error without a rule may be about.
func (r *run) guess(ev evidence) Overflow {
	text := strings.Join(ev.texts, "\n")
	o := Overflow{Kind: Part, Refused: "media", Path: ev.place(), Rule: namesPlace}
	if ev.status == 400 || ev.status == 422 {
		r.there = r.placeOf(o.Path)
	}
	switch {
	case len(r.there.media) > 0:
	case r.there.own:
		o.Refused = "reasoning"
	case find("names_media").MatchString(text) && !find("not_media").MatchString(text):
		o.Rule = namesMedia
	default:
		return Overflow{Rule: none}
	}
	return o
}

func isMedium(o Overflow) bool {
	return o.Refused == "image" || o.Refused == "document" || o.Refused == "media"
}

// isRefusal reports whether a status means that the service has read the request and
// refused it. Numbers spare programs without a client of their own the package net/http,
// which is half of their size.
func isRefusal(status int) bool {
	return slices.Contains([]int{400, 404, 413, 415, 422}, status)
}

// saidIn returns the texts and codes of an error without their numbers and names.
func saidIn(ev evidence) string {
	text := strings.Join(slices.Concat(ev.texts, ev.codes), "\n")
	return digit.Get().ReplaceAllString(find("identifier").ReplaceAllString(text, ""), "")
}
