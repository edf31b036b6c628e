package erase

import (
	"maps"
	"slices"

	"github.com/convolog/convolog/transcript"
)

// kin groups entries of a transcript that repeat or concern each other. To erase one of
// them is to erase the others.
type kin struct {
	links  map[string][]string // entry ID -> entries that go with it
	keys   map[string]string   // entry ID -> the idempotency key of its batch, or the key of its draft
	drafts map[string]*draftLines
	key    string // the idempotency key of the current batch
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

// spread adds the kin of its entries to gone. It also adds every draft whose whole text
// matches, because a word may span two of its lines.
func (k *kin) spread(gone map[string]bool, match func(transcript.Entry) bool) {
	due := slices.Collect(maps.Keys(gone))
	answer := transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant} // a draft is the beginning of an answer
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
