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
	x.rows, x.keys, x.allKeys = rows, nil, false
	x.intents, x.deleted, x.unsaved = map[string]driver.Row{}, map[string]bool{}, map[string]bool{}
}

// byKey puts the rows of each key together, when that is asked for first. With
// keys it does so for these alone: a list of the newest needs few.
func (x *index) byKey(keys ...string) {
	if x.allKeys {
		return
	}
	if x.keys == nil || len(keys) == 0 {
		x.keys = map[string]*sessions{}
	}
	wanted := map[string]bool{}
	for _, key := range keys {
		if x.keys[key] == nil {
			wanted[key] = true
		}
	}
	if x.allKeys = len(keys) == 0; !x.allKeys && len(wanted) == 0 {
		return
	}
	best := map[string]driver.Row{}
	for id, l := range x.rows.each() {
		if !x.allKeys && !wanted[l.key(id)] {
			continue
		}
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
	if x.keys[key] == nil {
		x.byKey()
	}
	if k := x.keys[key]; k != nil && x.trusted {
		for _, id := range slices.Clone(k.ids) {
			x.check(id)
		}
	}
	k := x.keys[key]
	if k == nil {
		return driver.Row{}, 0, false
	}
	if cur, ok = x.rows.get(k.current); !ok {
		x.keys, x.allKeys = nil, false // it was no row
		return x.current(key)
	}
	return cur, k.highest, true
}

// set adds or replaces a row.
func (x *index) set(id string, l lazyRow) {
	if x.keys == nil {
		x.rows.set(id, l)
		return
	}
	old, known := x.known(id)
	row, err := l.standing(id)
	if err != nil {
		x.rows.lost = true
		return
	}
	if known && old.Key != row.Key {
		x.drop(id)
		known = false
	}
	x.rows.set(id, l)
	k := x.keys[row.Key]
	if k == nil {
		if !x.allKeys {
			return // all of them are found when the key is asked for
		}
		k = &sessions{}
		x.keys[row.Key] = k
	}
	if !known {
		k.ids = append(k.ids, id)
	}
	switch {
	case k.current == id && old.Newer(row), known && old.Gen == k.highest && row.Gen < old.Gen:
		x.recount(k)
		return
	case k.current == "" || row.Newer(x.standing(k.current)):
		k.current = id
	}
	k.highest = max(k.highest, row.Gen)
}

// drop removes a row.
func (x *index) drop(id string) {
	row, ok := x.known(id)
	if !ok {
		return
	}
	x.rows.del(id)
	delete(x.unsaved, id)
	k := x.keys[row.Key]
	if k == nil {
		return
	}
	i := slices.Index(k.ids, id)
	if i < 0 {
		return
	}
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
	row, _ := x.known(id) // it was read before
	return row
}

// known does so for a session that may have no row.
func (x *index) known(id string) (driver.Row, bool) {
	l, ok := x.rows.find(id)
	if !ok {
		return driver.Row{}, false
	}
	row, err := l.standing(id)
	if err != nil {
		x.rows.del(id)
		x.rows.lost = true
	}
	return row, err == nil
}
