package rebuild

import (
	"slices"

	"github.com/convolog/convolog/transcript"
)

// A trail holds the lines that histories are made from, and the chain of live ones.
type trail struct {
	nodes   []*node        // in file order
	tip     int            // the last live node, or -1
	tips    map[string]int // the tips after the batches of entries, by ID
	recent  []ended        // entries that tips lacks
	slab    slab[node]
	batches int
	first   string // the ID of the header: a rewind to it empties the history
}

// ended is an entry and the tip after its batch.
type ended struct {
	id  string
	tip int
}

// hiding is the last live hide of an entry.
type hiding struct {
	ord int
	off bool
}

func (t *trail) addNode(e *transcript.Entry, complete bool) *node {
	n := t.slab.one()
	*n = node{
		id: e.ID, body: e.Body, ord: len(t.nodes), parent: t.tip, chain: len(t.nodes),
		batch: t.batches, complete: complete, after: noAfter,
	}
	if t.tip >= 0 && t.tip == len(t.nodes)-1 {
		n.chain = t.nodes[t.tip].chain
	}
	switch b := e.Body.(type) {
	case transcript.Compaction:
		if tip, ok := t.tipAt(b.CoversTo); ok { // looked up now, because a later line may have the same ID
			n.after = tip
		}
	case transcript.MessageLine:
		if b.Made.After != "" {
			n.after = t.renderedFrom(b.Made.After)
		}
	}
	t.nodes = append(t.nodes, n)
	t.tip = n.ord
	return n
}

// tipAt returns the tip after the batch of an entry. Of several entries with the ID it
// takes the last one, but for the header's ID the first. Entries are indexed at the
// first call, because most sessions never need it.
func (t *trail) tipAt(id string) (tip int, ok bool) {
	for _, e := range t.recent {
		if _, seen := t.tips[e.id]; !seen || e.id != t.first {
			t.tips[e.id] = e.tip
		}
	}
	t.recent = nil
	tip, ok = t.tips[id]
	return tip, ok
}

// liveTip reports whether a node, or -1 for the beginning, is in force.
func (t *trail) liveTip(tip int) bool {
	i := t.tip
	for i > tip {
		if t.nodes[i].chain <= tip {
			return true
		}
		i = t.nodes[t.nodes[i].chain].parent
	}
	return i == tip
}

// renderedFrom returns the tip from which a request was rendered. If the line is
// missing or no longer in force, it returns -1, the tip before all nodes.
func (t *trail) renderedFrom(after string) int {
	const nearby = 64 // nodes searched before all entries are indexed
	tip, ok := -1, false
	for i := len(t.nodes) - 1; i >= max(0, len(t.nodes)-nearby) && !ok; i-- {
		if t.nodes[i].id == after {
			for tip, ok = i, true; tip+1 < len(t.nodes) && t.nodes[tip+1].batch == t.nodes[i].batch; {
				tip++
			}
		}
	}
	if !ok {
		tip, ok = t.tipAt(after)
	}
	if !ok || !t.liveTip(tip) {
		return -1
	}
	return tip
}

// hides returns the hides in force, by entry.
func (t *trail) hides() map[string]hiding {
	all := map[string]hiding{}
	for i := t.tip; i >= 0; i = t.nodes[i].parent {
		h, _ := t.nodes[i].body.(transcript.Hide)
		for _, id := range h.Entries {
			if _, later := all[id]; !later && t.nodes[i].dead == 0 {
				all[id] = hiding{i, h.Off}
			}
		}
	}
	return all
}

// path returns the live nodes in file order, without superseded ones. It sets hidden
// and edited of each node.
func (t *trail) path() []*node {
	path, hides := make([]*node, 0, t.tip+1), t.hides()
	for i := t.tip; i >= 0; i = t.nodes[i].parent {
		n := t.nodes[i]
		if n.dead > 0 {
			if len(path) > 0 {
				next := path[len(path)-1]
				next.edited = max(next.edited, n.dead)
			}
			continue
		}
		n.hidden, n.edited = 0, 0
		if _, ok := n.body.(transcript.MessageLine); ok {
			switch h := hides[n.id]; {
			case h.ord < i: // of an earlier line with the same ID
			case h.off:
				n.edited = h.ord
			default:
				n.hidden = h.ord
			}
		}
		path = append(path, n)
	}
	slices.Reverse(path)
	return path
}

// boundary returns the index in path of the first entry that the compaction at marker
// keeps, and the deciding entry: firstKept, else coversTo. Without either, start is the
// index after the marker and by is empty. Of several entries with the ID, the last one
// before the compaction decides. An entry inside a batch means the whole batch.
func (t *trail) boundary(path []*node, marker int) (start int, by string) {
	e := path[marker]
	c, _ := e.body.(transcript.Compaction)
	for i, n := range slices.Backward(path[:marker]) {
		if c.FirstKept == "" || n.id != c.FirstKept {
			continue
		}
		if slices.ContainsFunc(t.nodes[n.ord+1:e.ord], func(n *node) bool { return n.id == c.FirstKept }) {
			break
		}
		for i > 0 && path[i-1].batch == n.batch {
			i--
		}
		return i, c.FirstKept
	}
	behind, _ := slices.BinarySearchFunc(path[:marker], e.after+1, func(n *node, ord int) int { return n.ord - ord })
	if e.after == -1 || behind > 0 && (path[behind-1].ord == e.after || t.nodes[e.after].dead > 0) {
		return behind, c.CoversTo
	}
	return marker + 1, ""
}
