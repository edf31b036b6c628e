package filedriver

import (
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// An entry is the part of a row in memory: members that order lists and find
// the current session of a key. The rest of the row stays in the file until it
// is needed. An entry without a key is a transcript whose header cannot be
// read: it may be of any key.
type entry struct {
	id string
	ownedKey
	updatedAt time.Time
	size, gen int64
	rev       int
	used      bool // the session has lines after its header
	archived  bool

	at  int64       // where the row is in the file
	n   int         // its length in bytes; 0 if the file does not have it
	row *driver.Row // the row if the file does not have it

	next *entry // another session of the key
}

// An ownedKey is a key of an owner. Entries without a key have the zero value.
type ownedKey struct{ owner, key string }

func ownedKeyOf(ref driver.KeyRef) ownedKey { return ownedKey{ref.Owner, ref.Key} }

// unseen is the size of a session that this process has not read yet. No transcript
// has this size.
const unseen = -1

// entryOf returns the entry of a row that the file does not have.
func entryOf(row driver.Row) *entry {
	return &entry{
		id: row.ID, ownedKey: ownedKeyOf(row.KeyRef()), updatedAt: row.UpdatedAt, size: row.Size, gen: row.Gen, rev: row.Rev,
		used: row.LastID != "", archived: row.Archived, row: &row,
	}
}

func (e *entry) place() driver.Position { return driver.Position{UpdatedAt: e.updatedAt, ID: e.id} }

// newer reports whether e comes before o as the current session of their key: the
// greater gen wins. Gens can be equal after an index was lost; then a session with
// entries beats an empty one, and after that the greater ID decides.
func (e *entry) newer(o *entry) bool {
	switch {
	case e.gen != o.gen:
		return e.gen > o.gen
	case e.used != o.used:
		return e.used
	}
	return e.id > o.id
}

// rows are the entries of an index.
type rows struct {
	byID   map[string]*entry
	byKey  map[ownedKey]*entry // a key's first; the others follow it
	order  []*entry            // the newest first if sorted, else as they came
	sorted bool
	bytes  int64 // of the rows that the file has
}

func newRows(n int64) rows {
	return rows{byID: make(map[string]*entry, n), byKey: make(map[ownedKey]*entry, n), order: make([]*entry, 0, n)}
}

// find returns the entry of a session, or nil.
func (r *rows) find(id string) *entry { return r.byID[id] }

// set adds an entry, which it retains, or replaces the one with its ID.
func (r *rows) set(n *entry) {
	e := r.byID[n.id]
	if e != nil && !r.sorted && e.ownedKey == n.ownedKey {
		r.bytes += int64(n.n - e.n)
		n.next = e.next
		*e = *n
		return
	}
	if e != nil {
		r.del(e)
	}
	n.next = r.byKey[n.ownedKey]
	r.byID[n.id], r.byKey[n.ownedKey] = n, n
	r.order = slices.Insert(r.order, r.place(n), n)
	r.bytes += int64(n.n)
}

// del removes an entry.
func (r *rows) del(e *entry) {
	delete(r.byID, e.id)
	r.bytes -= int64(e.n)
	i := r.place(e)
	if !r.sorted {
		i = slices.Index(r.order, e)
	}
	r.order = slices.Delete(r.order, i, i+1)
	if r.byKey[e.ownedKey] != e {
		for o := r.byKey[e.ownedKey]; o != nil; o = o.next {
			if o.next == e {
				o.next = e.next
			}
		}
	} else if r.byKey[e.ownedKey] = e.next; e.next == nil {
		delete(r.byKey, e.ownedKey)
	}
}

// place returns the place of an entry in the order, or for a new one.
func (r *rows) place(e *entry) int {
	if !r.sorted {
		return len(r.order)
	}
	i, _ := r.search(e.place())
	return i
}

func (r *rows) search(p driver.Position) (int, bool) {
	return slices.BinarySearchFunc(r.order, p, func(e *entry, p driver.Position) int { return e.place().Compare(p) })
}

// page returns the n entries after a place, the newest first; all of them if n
// is 0.
func (r *rows) page(after driver.Position, n int) []*entry {
	if !r.sorted {
		slices.SortFunc(r.order, func(a, b *entry) int { return a.place().Compare(b.place()) })
		r.sorted = true
	}
	from := 0
	if after != (driver.Position{}) {
		i, found := r.search(after)
		if from = i; found {
			from++
		}
	}
	page := r.order[from:]
	if n > 0 {
		page = page[:min(n, len(page))]
	}
	return slices.Clone(page)
}

// current returns the current session of a key, or nil. A session with gen 0 is only
// current if its transcript cannot be understood: its row then has size 0.
func (r *rows) current(key ownedKey) (cur *entry) {
	for e := r.byKey[key]; e != nil; e = e.next {
		if !e.archived && (e.gen > 0 || e.size == 0) && (cur == nil || e.newer(cur)) {
			cur = e
		}
	}
	return cur
}
