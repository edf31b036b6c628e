// Package tree orders the records of a file whose records name their parents.
package tree

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A Tree is the index of a transcript whose records name their parents. The
// conversation is the path from the root to the leaf, in the order of its lines.
//
// A parent is sought among the records before its child (the last of equal
// IDs), and then among later ones, unless that makes a circle. If its line was
// damaged or the record names no parent, the last record of the tree is taken:
// other programs lose everything older.
type Tree struct {
	Rows []Row // by offset
	ByID map[string]int
	// ahead holds the IDs of parents that do not precede their row.
	ahead map[int]string
	Leaf  int                   // the row that the conversation ends with, None for none
	Kept  map[int64]fields.Kept // kept parts, by offset of a compaction
	// Header is the ID of the first header, or empty: the entry before all
	// rows.
	Header string

	// For each row, set by neighbours: the first message on the path from the row
	// on, and the last row of the path before it.
	nextSaid, lastLive []int
}

// A Row is a record of a tree.
type Row struct {
	Offset int64
	Entry  string // the entry's ID
	Parent int    // None for none
	Said   bool   // its entry is a transcript.MessageLine
	Side   bool   // it is outside of the conversation
	Live   bool   // it is on the path
}

// None is the index of no row.
const None = -1

// New returns an empty tree.
func New() Tree { return Tree{ByID: map[string]int{}, ahead: map[int]string{}, Leaf: None} }

// Add adds a row whose ID may be empty. The entry gets an ID that no other
// entry has.
func (t *Tree) Add(id string, row Row) int {
	if _, twice := t.ByID[id]; twice {
		row.Entry = fields.AtOffset(row.Offset)
	}
	t.Rows = append(t.Rows, row)
	n := len(t.Rows) - 1
	if id != "" {
		t.ByID[id] = n
	}
	return n
}

// Parent returns the row with an ID, else the present leaf. It is called for
// the row that is added next.
func (t *Tree) Parent(id string) int {
	if n, ok := t.ByID[id]; ok {
		return n
	}
	if id != "" {
		t.ahead[len(t.Rows)] = id
	}
	return t.Leaf
}

// Walk marks the path to the leaf.
func (t *Tree) Walk() {
	var instead []int // of parents after their children, used if they lead to a row on the path
	for i := t.Leaf; i != None; {
		if t.Rows[i].Live {
			if len(instead) == 0 {
				return
			}
			i, instead = instead[len(instead)-1], instead[:len(instead)-1]
			continue
		}
		t.Rows[i].Live = true
		up := t.Rows[i].Parent
		if n, ok := t.ByID[t.ahead[i]]; ok {
			instead = append(instead, up)
			up = n
		}
		i = up
	}
}

// Keep returns the kept part of the compaction at row marker, whose first kept
// row is from: the first message of the path from there on, or, without one
// before the marker, a cover of all rows before it.
func (t *Tree) Keep(from, marker int) fields.Kept {
	if t.nextSaid == nil {
		t.neighbours()
	}
	if n := t.nextSaid[min(from, marker)]; n < marker {
		return fields.Kept{First: t.Rows[n].Entry}
	}
	if n := t.lastLive[marker]; n != None {
		return fields.Kept{CoversTo: t.Rows[n].Entry}
	}
	return fields.Kept{CoversTo: t.Header}
}

// neighbours prepares the lookups of Keep, once the path is known.
func (t *Tree) neighbours() {
	t.nextSaid, t.lastLive = make([]int, len(t.Rows)), make([]int, len(t.Rows))
	next, last := len(t.Rows), None
	for i := range t.Rows {
		t.lastLive[i] = last
		if t.Rows[i].Live {
			last = i
		}
	}
	for i, row := range slices.Backward(t.Rows) {
		if row.Live && row.Said {
			next = i
		}
		t.nextSaid[i] = next
	}
}

// Index returns the place of the row at an offset; None for another record.
func (t *Tree) Index(offset int64) int {
	i, ok := slices.BinarySearchFunc(t.Rows, offset, func(r Row, at int64) int { return cmp.Compare(r.Offset, at) })
	if !ok {
		return None
	}
	return i
}

// Place gives an entry its ID, a compaction its kept part, and sets aside
// entries off the path.
func (t *Tree) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	i := t.Index(offset)
	if i < 0 {
		return made
	}
	row := t.Rows[i]
	made[0].ID = row.Entry
	switch {
	case row.Live:
	case row.Side:
		return fields.SetAside(made, "sidechain")
	default:
		return fields.SetAside(made, "branch")
	}
	if k, ok := t.Kept[offset]; ok {
		return k.Place(made)
	}
	return made
}
