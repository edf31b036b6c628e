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
func (x *index) reset(rows map[string]driver.Row) {
	x.rows, x.keys = make(map[string]driver.Row, len(rows)), map[string]*sessions{}
	x.intents, x.deleted, x.unsaved = map[string]driver.Row{}, map[string]bool{}, map[string]bool{}
	for _, row := range rows {
		x.set(row)
	}
}

// current returns the row of the current session of a key, and the key's
// highest gen. The caller holds x.mu.
func (x *index) current(key string) (cur driver.Row, highest int64, ok bool) {
	k := x.keys[key]
	if k == nil {
		return driver.Row{}, 0, false
	}
	return x.rows[k.current], k.highest, true
}

// set adds or replaces a row.
func (x *index) set(row driver.Row) {
	old, known := x.rows[row.ID]
	if known && old.Key != row.Key {
		x.drop(row.ID)
		known = false
	}
	x.rows[row.ID] = row
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
	case k.current == "" || row.Newer(x.rows[k.current]):
		k.current = row.ID
	}
	k.highest = max(k.highest, row.Gen)
}

// drop removes a row.
func (x *index) drop(id string) {
	row, ok := x.rows[id]
	if !ok {
		return
	}
	delete(x.rows, id)
	delete(x.unsaved, id)
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
		row := x.rows[id]
		k.highest = max(k.highest, row.Gen)
		if row.Newer(x.rows[k.current]) {
			k.current = id
		}
	}
}
