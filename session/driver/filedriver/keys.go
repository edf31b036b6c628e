package filedriver

import (
	"slices"

	"github.com/convolog/convolog/session/driver"
)

// sessions are those of one key.
type sessions struct {
	ids     []string
	current string
	highest int64 // gen
}

// reset makes rows all there are. The caller holds x.mu.
func (x *index) reset(rows *rows) {
	x.rows, x.keys = rows, nil
	x.intents, x.deleted, x.unsaved = map[string]driver.Row{}, map[string]bool{}, map[string]bool{}
}

// byKey puts the rows of each key together, when that is asked for first.
func (x *index) byKey() {
	if x.keys != nil {
		return
	}
	x.keys = make(map[string]*sessions, x.rows.len())
	best := make(map[string]driver.Row, x.rows.len())
	for id, l := range x.rows.m {
		row, err := l.standing(id)
		if err != nil {
			x.rows.del(id)
			x.rows.lost = true
			continue
		}
		k := x.keys[row.Key]
		if k == nil {
			k = &sessions{current: id}
			x.keys[row.Key], best[row.Key] = k, row
		}
		k.ids = append(k.ids, id)
		k.highest = max(k.highest, row.Gen)
		if row.Newer(best[row.Key]) {
			k.current, best[row.Key] = id, row
		}
	}
}

// current returns the row of the current session of a key, and the key's
// highest gen. The caller holds x.mu.
func (x *index) current(key string) (cur driver.Row, highest int64, ok bool) {
	x.byKey()
	k := x.keys[key]
	if k == nil {
		return driver.Row{}, 0, false
	}
	if cur, ok = x.rows.get(k.current); !ok {
		x.keys = nil // it was no row
		return x.current(key)
	}
	return cur, k.highest, true
}

// set adds or replaces a row.
func (x *index) set(row driver.Row) {
	old, known := x.rows.get(row.ID)
	if known && old.Key != row.Key {
		x.drop(row.ID)
		known = false
	}
	x.rows.set(row)
	if x.keys == nil {
		return
	}
	k := x.keys[row.Key]
	if k == nil {
		k = &sessions{}
		x.keys[row.Key] = k
	}
	if !known {
		k.ids = append(k.ids, row.ID)
	}
	switch {
	case k.current == row.ID && old.Newer(row), known && old.Gen == k.highest && row.Gen < old.Gen:
		x.recount(k)
		return
	case k.current == "" || row.Newer(x.standing(k.current)):
		k.current = row.ID
	}
	k.highest = max(k.highest, row.Gen)
}

// drop removes a row.
func (x *index) drop(id string) {
	row, ok := x.rows.get(id)
	if !ok {
		return
	}
	x.rows.del(id)
	delete(x.unsaved, id)
	if x.keys == nil {
		return
	}
	k := x.keys[row.Key]
	i := slices.Index(k.ids, id)
	k.ids[i] = k.ids[len(k.ids)-1]
	k.ids = k.ids[:len(k.ids)-1]
	switch {
	case len(k.ids) == 0:
		delete(x.keys, row.Key)
	case k.current == id || k.highest == row.Gen:
		x.recount(k)
	}
}

// recount finds the current session of a key anew.
func (x *index) recount(k *sessions) {
	k.current, k.highest = k.ids[0], 0
	for _, id := range k.ids {
		row := x.standing(id)
		k.highest = max(k.highest, row.Gen)
		if row.Newer(x.standing(k.current)) {
			k.current = id
		}
	}
}

// standing returns what makes a row the current one of its key or not.
func (x *index) standing(id string) driver.Row {
	row, _ := x.rows.m[id].standing(id) // it was read before
	return row
}
