package filedriver

import (
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/session/driver"
)

// rows are the rows of an index by session ID: those of a snapshot, and over
// them what has changed since. A row that comes from a file stays the text it
// is until it is asked for: an index of many sessions is opened to look at few.
type rows struct {
	base []string           // texts of rows, sorted by ID; never changed
	over map[string]lazyRow // empty: the row of base is gone
	n    int                // how many there are
	lost bool               // a text was no row: its session is to be looked at
}

// lazyRow is a row, or the text of one as this package writes it. Neither is
// ever changed.
type lazyRow struct {
	text string
	row  *driver.Row // nil until it is decoded
}

func newRows() *rows { return &rows{over: map[string]lazyRow{}} }

// clone returns rows that later changes of r do not touch.
func (r *rows) clone() *rows {
	return &rows{base: r.base, over: maps.Clone(r.over), n: r.n}
}

func (r *rows) len() int { return r.n }

func (r *rows) has(id string) bool {
	_, ok := r.find(id)
	return ok
}

func (r *rows) find(id string) (lazyRow, bool) {
	if l, ok := r.over[id]; ok {
		return l, l != lazyRow{}
	}
	if i, ok := r.inBase(id); ok {
		return lazyRow{text: r.base[i]}, true
	}
	return lazyRow{}, false
}

func (r *rows) inBase(id string) (int, bool) {
	return slices.BinarySearchFunc(r.base, id, func(text, id string) int { return strings.Compare(textID(text), id) })
}

// textID is the ID in the text of a row of which the beginning was checked.
func textID(text string) string {
	text = text[len(rowHead):]
	return text[:strings.IndexByte(text, '"')]
}

func (r *rows) get(id string) (driver.Row, bool) {
	l, ok := r.find(id)
	if !ok {
		return driver.Row{}, false
	}
	row, err := l.decode(id) // and not kept: most are asked for once
	if err != nil {
		r.del(id)
		r.lost = true
		return driver.Row{}, false
	}
	return *row, true
}

func (r *rows) set(id string, l lazyRow) {
	if !r.has(id) {
		r.n++
	}
	r.over[id] = l
}

func (r *rows) del(id string) {
	if !r.has(id) {
		return
	}
	r.n--
	if _, ok := r.inBase(id); ok {
		r.over[id] = lazyRow{}
	} else {
		delete(r.over, id)
	}
}

// keep leaves out the rows that are not of an agent's own files.
func (r *rows) keep(a *agent) {
	for row := range r.all() {
		if row.Agent != a.name && a.name != "" {
			r.del(row.ID)
		}
	}
}

// each yields the rows in no particular order.
func (r *rows) each() iter.Seq2[string, lazyRow] {
	return func(yield func(string, lazyRow) bool) {
		for _, text := range r.base {
			id := textID(text)
			if len(r.over) > 0 {
				if _, ok := r.over[id]; ok {
					continue
				}
			}
			if !yield(id, lazyRow{text: text}) {
				return
			}
		}
		for id, l := range r.over {
			if l != (lazyRow{}) && !yield(id, l) {
				return
			}
		}
	}
}

// sorted yields the rows by ID.
func (r *rows) sorted() iter.Seq2[string, lazyRow] {
	return func(yield func(string, lazyRow) bool) {
		base := r.base
		for _, id := range slices.Sorted(maps.Keys(r.over)) {
			for len(base) > 0 && textID(base[0]) < id {
				if !yield(textID(base[0]), lazyRow{text: base[0]}) {
					return
				}
				base = base[1:]
			}
			if len(base) > 0 && textID(base[0]) == id {
				base = base[1:]
			}
			if l := r.over[id]; l != (lazyRow{}) && !yield(id, l) {
				return
			}
		}
		for _, text := range base {
			if !yield(textID(text), lazyRow{text: text}) {
				return
			}
		}
	}
}

// all yields the rows in no particular order, and keeps none of them decoded.
func (r *rows) all() iter.Seq[driver.Row] {
	return func(yield func(driver.Row) bool) {
		for id, l := range r.each() {
			row, err := l.decode(id)
			if err != nil {
				r.lost = true
				continue
			}
			if !yield(*row) {
				return
			}
		}
	}
}

// recent returns the n rows that were updated last, the newest first.
func (r *rows) recent(n int) []driver.Row {
	type candidate struct{ at, id string }
	newer := func(a, b candidate) int { return cmp.Or(strings.Compare(b.at, a.at), strings.Compare(b.id, a.id)) }
	var best []candidate // the n newest so far are among them
	if n <= 0 {
		return nil
	}
	full := false // whether best[:n] are n newest ones in order
	for id, l := range r.each() {
		c := candidate{l.updated(id), id}
		if full && newer(c, best[n-1]) > 0 {
			continue
		}
		if best = append(best, c); len(best) >= 2*n {
			slices.SortFunc(best, newer)
			best, full = best[:n], true
		}
	}
	slices.SortFunc(best, newer)
	var list []driver.Row
	for _, c := range best[:min(n, len(best))] {
		if row, ok := r.get(c.id); ok {
			list = append(list, row)
		}
	}
	return list
}

// size is the Size of a row.
func (r *rows) size(id string) (size int64, ok bool) {
	l, ok := r.find(id)
	if !ok {
		return 0, false
	}
	if l.row == nil {
		if n, ok := number(l.text, `,"size":`); ok {
			return n, true
		}
	}
	row, ok := r.get(id)
	return row.Size, ok
}

// key is the key of a row, empty if it has none.
func (l lazyRow) key(id string) string {
	if l.row != nil {
		return l.row.Key
	}
	if rest := l.text[len(rowHead)+len(id):]; strings.HasPrefix(rest, rowKey) {
		rest = rest[len(rowKey):]
		if i := strings.IndexByte(rest, '"'); i > 0 && strings.IndexByte(rest[:i], '\\') < 0 {
			return rest[:i]
		}
	}
	row, err := l.decode(id)
	if err != nil {
		return ""
	}
	return row.Key
}

// standing is what makes a row the current one of its key or not.
func (l lazyRow) standing(id string) (driver.Row, error) {
	if l.row != nil {
		return *l.row, nil
	}
	gen, ok := number(l.text, `,"gen":`)
	key := l.key(id)
	if !ok || key == "" {
		row, err := l.decode(id)
		if err != nil {
			return driver.Row{}, err
		}
		return *row, nil
	}
	return driver.Row{ID: id, Key: key, Gen: gen, LastID: member(l.text, `,"lastId":"`)}, nil
}

// updated is a text that sorts as the UpdatedAt of rows does.
func (l lazyRow) updated(id string) string {
	row := l.row
	if row == nil {
		if at, ok := strings.CutSuffix(member(l.text, `,"updatedAt":"`), "Z"); ok {
			return at
		}
		var err error
		if row, err = l.decode(id); err != nil {
			return ""
		}
	}
	return strings.TrimSuffix(row.UpdatedAt.UTC().Format("2006-01-02T15:04:05.999999999Z"), "Z")
}

// appendTo appends the text of a row.
func (l lazyRow) appendTo(dst []byte) []byte {
	if l.row != nil {
		return appendRow(dst, l.row)
	}
	return append(dst, l.text...)
}

func (l lazyRow) decode(id string) (*driver.Row, error) {
	if l.row != nil {
		return l.row, nil
	}
	row, err := decodeRow(id, []byte(l.text))
	return &row, err
}

func decodeRow(id string, text []byte) (row driver.Row, err error) {
	if err = json.Unmarshal(text, &row); err == nil && row.ID != id {
		err = errNotIndex
	}
	return row, err
}

// member returns the string behind the name of a member in the text of a row,
// escapes and all, empty if there is none. In a JSON string quotes are escaped,
// so no value can look like a name.
func member(text, name string) string {
	_, rest, _ := strings.Cut(text, name)
	return rest[:max(strings.IndexByte(rest, '"'), 0)]
}

// number returns the number behind the name of a member.
func number(text, name string) (int64, bool) {
	_, rest, _ := strings.Cut(text, name)
	end := strings.IndexFunc(rest, func(r rune) bool { return r != '-' && (r < '0' || r > '9') })
	n, err := strconv.ParseInt(rest[:max(end, 0)], 10, 64)
	return n, err == nil
}
