package dialect

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// tree is the index of a transcript whose records name their parents. The
// conversation is the path from the root to the leaf, in the order of its lines.
//
// A parent is sought among the records before its child (the last of equal
// IDs), and then among later ones, unless that makes a circle. If its line was
// damaged or the record names no parent, the last record of the tree is taken:
// other programs lose everything older.
type tree struct {
	rows []treeRow // by offset
	byID map[string]int
	// ahead holds the IDs of parents that do not precede their row.
	ahead map[int]string
	leaf  int                   // the row that the conversation ends with, noRow for none
	kept  map[int64]fields.Kept // kept parts, by offset of a compaction
	// header is the ID of the first header, or empty: the entry before all
	// rows.
	header string

	// For each row, set by neighbours: the first message on the path from the row
	// on, and the last row of the path before it.
	nextSaid, lastLive []int
}

// treeRow is a record of a tree.
type treeRow struct {
	offset int64
	entry  string // the entry's ID
	parent int    // noRow for none
	said   bool   // its entry is a transcript.MessageLine
	side   bool   // it is outside of the conversation
	live   bool   // it is on the path
}

const noRow = -1

func newTree() tree { return tree{byID: map[string]int{}, ahead: map[int]string{}, leaf: noRow} }

// add adds a row whose ID may be empty. The entry gets an ID that no other
// entry has.
func (t *tree) add(id string, row treeRow) int {
	if _, twice := t.byID[id]; twice {
		row.entry = fields.AtOffset(row.offset)
	}
	t.rows = append(t.rows, row)
	n := len(t.rows) - 1
	if id != "" {
		t.byID[id] = n
	}
	return n
}

// parent returns the row with an ID, else the present leaf. It is called for
// the row that is added next.
func (t *tree) parent(id string) int {
	if n, ok := t.byID[id]; ok {
		return n
	}
	if id != "" {
		t.ahead[len(t.rows)] = id
	}
	return t.leaf
}

func (t *tree) walk() {
	var instead []int // of parents after their children, used if they lead to a row on the path
	for i := t.leaf; i != noRow; {
		if t.rows[i].live {
			if len(instead) == 0 {
				return
			}
			i, instead = instead[len(instead)-1], instead[:len(instead)-1]
			continue
		}
		t.rows[i].live = true
		up := t.rows[i].parent
		if n, ok := t.byID[t.ahead[i]]; ok {
			instead = append(instead, up)
			up = n
		}
		i = up
	}
}

// keep returns the kept part of the compaction at row marker, whose first kept
// row is from: the first message of the path from there on, or, without one
// before the marker, a cover of all rows before it.
func (t *tree) keep(from, marker int) fields.Kept {
	if t.nextSaid == nil {
		t.neighbours()
	}
	if n := t.nextSaid[min(from, marker)]; n < marker {
		return fields.Kept{First: t.rows[n].entry}
	}
	if n := t.lastLive[marker]; n != noRow {
		return fields.Kept{CoversTo: t.rows[n].entry}
	}
	return fields.Kept{CoversTo: t.header}
}

// neighbours prepares the lookups of keep, once the path is known.
func (t *tree) neighbours() {
	t.nextSaid, t.lastLive = make([]int, len(t.rows)), make([]int, len(t.rows))
	next, last := len(t.rows), noRow
	for i := range t.rows {
		t.lastLive[i] = last
		if t.rows[i].live {
			last = i
		}
	}
	for i, row := range slices.Backward(t.rows) {
		if row.live && row.said {
			next = i
		}
		t.nextSaid[i] = next
	}
}

// index returns the place of the row at an offset; noRow for another record.
func (t *tree) index(offset int64) int {
	i, ok := slices.BinarySearchFunc(t.rows, offset, func(r treeRow, at int64) int { return cmp.Compare(r.offset, at) })
	if !ok {
		return noRow
	}
	return i
}

// place gives an entry its ID, a compaction its kept part, and sets aside
// entries off the path.
func (t *tree) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	i := t.index(offset)
	if i < 0 {
		return made
	}
	row := t.rows[i]
	made[0].ID = row.entry
	switch {
	case row.live:
	case row.side:
		return fields.SetAside(made, "sidechain")
	default:
		return fields.SetAside(made, "branch")
	}
	if k, ok := t.kept[offset]; ok {
		return k.Place(made)
	}
	return made
}
