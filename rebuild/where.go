package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// Where is the place of an entry in the history. The zero value means that the
// entry is live and shown unchanged.
type Where struct {
	// Rewound: a rewind has taken the entry back.
	Rewound bool `json:"rewound,omitempty"`
	// Superseded: a crash has cut the append of the entry, and the append was
	// repeated.
	Superseded bool `json:"superseded,omitempty"`
	// Compacted: a summary replaces the entry. Clipped: the history shows a
	// shorter content. An entry that is rewound or superseded is neither.
	Compacted bool `json:"compacted,omitempty"`
	Clipped   bool `json:"clipped,omitempty"`
	// Hidden: a [transcript.Hide] leaves the entry out.
	Hidden bool `json:"hidden,omitempty"`
}

// Where returns where an entry stands, and whether the entry was added. It does not
// depend on [Options].Full. An entry that no history is made of, such as a title,
// stands where the message line before it does.
func (f *Fold) Where(id string) (w Where, ok bool) {
	tip, ok := f.tipAt(id)
	if !ok {
		return w, false
	}
	if f.placing == nil {
		f.placing = f.place()
	}
	p := f.placing
	switch {
	case p.superseded[id]:
		w.Superseded = true
	case p.rewound[id] || tip >= 0 && !p.live[tip]:
		w.Rewound = true
	default:
		w.Compacted, w.Clipped, w.Hidden = tip < p.kept || p.compacted[id], p.clipped[id], p.hidden[id]
	}
	return w, true
}

func (t *trail) place() *placing {
	p := &placing{live: make([]bool, len(t.nodes)), kept: -1, compacted: map[string]bool{}, clipped: map[string]bool{}, hidden: map[string]bool{}, superseded: map[string]bool{}, rewound: map[string]bool{}}
	for i := t.tip; i >= 0; i = t.nodes[i].parent {
		p.live[i] = true
	}
	for i, n := range t.nodes { // of several with an ID the last one counts
		if n.dead > 0 || p.superseded[n.id] {
			p.superseded[n.id] = n.dead > 0
		}
		if !p.live[i] || p.rewound[n.id] {
			p.rewound[n.id] = !p.live[i]
		}
	}
	path := t.path()
	for i, n := range slices.Backward(path) {
		if n.hidden > 0 {
			p.hidden[n.id] = true
		}
		switch b := n.body.(type) {
		case transcript.Compaction:
			if p.kept < 0 {
				start, _ := t.boundary(path, i)
				p.kept = path[min(start, i)].ord
				for j := p.kept - 1; j >= 0 && t.nodes[j].batch == t.nodes[p.kept].batch; j-- {
					p.compacted[t.nodes[j].id] = true
				}
			}
		case transcript.Clip:
			for _, c := range b.Clips {
				p.clipped[c.Entry] = true
			}
		}
	}
	return p
}
