package filedriver

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/session/driver"
)

// rows are the rows of an index by session ID. One that comes from a snapshot
// stays the text it is until it is asked for: an index of many sessions is
// opened to look at few.
type rows struct {
	m    map[string]lazyRow
	lost bool // a text was no row: its session is to be looked at
}

// lazyRow is a row, or the text of one as this package writes it.
type lazyRow struct {
	text []byte
	row  *driver.Row // nil until it is decoded
}

func newRows(n int) *rows { return &rows{m: make(map[string]lazyRow, n)} }

func (r *rows) len() int { return len(r.m) }

func (r *rows) has(id string) bool {
	_, ok := r.m[id]
	return ok
}

func (r *rows) get(id string) (driver.Row, bool) {
	l, ok := r.m[id]
	if !ok {
		return driver.Row{}, false
	}
	if l.row != nil {
		return *l.row, true
	}
	row, err := decodeRow(id, l.text) // and not kept: most are asked for once
	if err != nil {
		delete(r.m, id)
		r.lost = true
		return driver.Row{}, false
	}
	return row, true
}

func (r *rows) set(row driver.Row) { r.m[row.ID] = lazyRow{row: &row} }

func (r *rows) del(id string) { delete(r.m, id) }

// all yields the rows in no particular order, and keeps none of them decoded.
func (r *rows) all() iter.Seq[driver.Row] {
	return func(yield func(driver.Row) bool) {
		for id, l := range r.m {
			row := l.row
			if row == nil {
				decoded, err := decodeRow(id, l.text)
				if err != nil {
					r.lost = true
					continue
				}
				row = &decoded
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
	for id, l := range r.m {
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
	l, ok := r.m[id]
	if !ok {
		return 0, false
	}
	if l.row == nil {
		if n, err := strconv.ParseInt(peek(l.text, `"size":`, ","), 10, 64); err == nil {
			return n, true
		}
	}
	row, ok := r.get(id)
	return row.Size, ok
}

// standing is what makes a row the current one of its key or not.
func (l lazyRow) standing(id string) (driver.Row, error) {
	if l.row != nil {
		return *l.row, nil
	}
	key, gen := peek(l.text, `"key":"`, `"`), peek(l.text, `"gen":`, ",")
	n, err := strconv.ParseInt(gen, 10, 64)
	if err != nil || key == "" || strings.Contains(key, `\`) {
		return decodeRow(id, l.text)
	}
	return driver.Row{ID: id, Key: key, Gen: n, LastID: peek(l.text, `"lastId":"`, `"`)}, nil
}

// updated is a text that sorts as the UpdatedAt of rows does.
func (l lazyRow) updated(id string) string {
	if l.row == nil {
		if at, ok := strings.CutSuffix(peek(l.text, `"updatedAt":"`, `"`), "Z"); ok {
			return at
		}
		row, err := decodeRow(id, l.text)
		if err != nil {
			return ""
		}
		l.row = &row
	}
	return strings.TrimSuffix(l.row.UpdatedAt.UTC().Format("2006-01-02T15:04:05.999999999Z"), "Z")
}

// line returns the text of a row, nil if it has none.
func (l lazyRow) line() []byte {
	if l.row == nil {
		return l.text
	}
	text, err := json.Marshal(l.row)
	if err != nil {
		return nil // made again from its transcript
	}
	return text
}

func decodeRow(id string, text []byte) (row driver.Row, err error) {
	if err = json.Unmarshal(text, &row); err == nil && row.ID != id {
		err = errNotIndex
	}
	return row, err
}

// peek returns what stands between the name of a member and the end of its
// value in the text of a row: a number up to a comma or a brace, or a string.
// In a JSON string quotes are escaped, so no value can look like a name.
func peek(text []byte, name, end string) string {
	i := bytes.Index(text, []byte(name))
	if i < 0 {
		return ""
	}
	rest := text[i+len(name):]
	if j := bytes.IndexAny(rest[:min(len(rest), 600)], end+"}"); j >= 0 && end == "," {
		return string(rest[:j])
	}
	if j := bytes.IndexByte(rest, end[0]); j >= 0 && end != "," {
		return string(rest[:j])
	}
	return ""
}
