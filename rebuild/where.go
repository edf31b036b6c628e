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
	// Superseded: a crash cut the append of the entry, and the append was repeated.
	Superseded bool `json:"superseded,omitempty"`
	// Compacted: a summary replaces the entry. Clipped: the history shows shortened
	// content. A rewound or superseded entry is neither.
	Compacted bool `json:"compacted,omitempty"`
	Clipped   bool `json:"clipped,omitempty"`
	// Hidden: a [transcript.Hide] leaves the entry out.
	Hidden bool `json:"hidden,omitempty"`
}

// placing holds the places of entries; see [Fold.Where].
type placing struct {
	live []bool            // by node
	kept int               // the first node that the last live compaction keeps
	own  map[string]*Where // places of nodes, by ID; they may differ within a batch
}

func (t *trail) place() *placing {
	p := &placing{live: make([]bool, len(t.nodes)), kept: -1, own: map[string]*Where{}}
	for i := t.tip; i >= 0; i = t.nodes[i].parent {
		p.live[i] = true
	}
	for i, n := range t.nodes { // of several nodes with an ID, the last one counts
		p.own[n.id] = &Where{Superseded: n.dead > 0, Rewound: !p.live[i]}
	}
	path := t.path()
	for i, n := range slices.Backward(path) {
		if n.hidden > 0 {
			p.own[n.id].Hidden = true
		}
		switch b := n.body.(type) {
		case transcript.Compaction:
			if p.kept < 0 {
				start, _ := t.boundary(path, i)
				p.kept = path[min(start, i)].ord
				for j := p.kept - 1; j >= 0 && t.nodes[j].batch == t.nodes[p.kept].batch; j-- {
					p.own[t.nodes[j].id].Compacted = true
				}
			}
		case transcript.Clip:
			for _, c := range b.Clips {
				if p.own[c.Entry] != nil {
					p.own[c.Entry].Clipped = true
				}
			}
		}
	}
	return p
}
