package erase

import (
	"maps"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// kin groups entries of a transcript that repeat or concern each other: erasing one of
// them erases the others.
type kin struct {
	links  map[string][]string // entry ID -> entries that go with it
	keys   map[string]string   // entry ID -> the idempotency key of its batch, or of its draft
	drafts map[string]*draftLines
	key    string // of the batch at hand
}

type draftLines struct {
	ids  []string
	text string
}

func newKin() *kin {
	return &kin{links: map[string][]string{}, keys: map[string]string{}, drafts: map[string]*draftLines{}}
}

func (k *kin) link(a, b string) {
	if a != "" && b != "" {
		k.links[a] = append(k.links[a], b)
	}
}

// add takes the next entry.
func (k *kin) add(e transcript.Entry) {
	if e.Part <= 1 {
		k.key = e.Idem
	}
	switch b := e.Body.(type) {
	case transcript.MessageLine:
		k.link(e.ID, b.Queued)
		k.link(b.Queued, e.ID)
		if k.key != "" {
			k.keys[e.ID] = k.key
		}
	case transcript.Draft:
		d := k.drafts[b.Key]
		if d == nil {
			d = new(draftLines)
			k.drafts[b.Key] = d
		}
		d.ids = append(d.ids, e.ID)
		k.keys[e.ID] = b.Key
		d.text = d.text[:min(b.At, len(d.text))] + b.Text
	case transcript.Pin:
		k.link(e.ID, b.Entry)
		k.link(b.Entry, e.ID)
	case transcript.Decision:
		k.link(b.Call, e.ID)
	case transcript.Custom:
		for _, id := range b.Covers {
			k.link(id, e.ID)
		}
	}
}

// spread adds to gone the kin of its entries, and the drafts that match as a
// whole: a word may lie across two of their lines.
func (k *kin) spread(gone map[string]bool, match func(transcript.Entry) bool) {
	due := slices.Collect(maps.Keys(gone))
	answer := transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant} // which a draft is the beginning of
	for _, d := range k.drafts {
		if match != nil && match(transcript.Entry{Body: answer.WithContent(transcript.TextBlock{Text: d.text})}) {
			due = append(due, d.ids...)
		}
	}
	for len(due) > 0 {
		id := due[len(due)-1]
		due = due[:len(due)-1]
		gone[id] = true
		with := k.links[id]
		if d := k.drafts[k.keys[id]]; d != nil {
			with = slices.Concat(with, d.ids)
		}
		for _, id := range with {
			if !gone[id] {
				due = append(due, id)
			}
		}
	}
}

// setOf returns items as a set.
func setOf[T comparable](items []T) map[T]bool {
	set := make(map[T]bool, len(items))
	for _, item := range items {
		set[item] = true
	}
	return set
}
