package filedriver

import (
	"bytes"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// An entry is what the index keeps in memory of a session: what orders lists
// and finds the current session of a key. The rest of its row stays in the file
// until somebody asks for it.
type entry struct {
	id, key   string
	updatedAt time.Time
	size, gen int64
	used      bool // the session has lines besides its header

	read int64 // up to where the transcript was read for its gen, if that is behind size

	at  int64       // where the row is in the file
	n   int         // its length in bytes; 0 if the file does not have it
	row *driver.Row // the row if the file does not have it

	gone bool // removed from the rows; kept in rows.base, which is searched
}

// entryOf returns the entry of a row that the file does not have.
func entryOf(row driver.Row) entry {
	return entry{
		id: row.ID, key: row.Key, updatedAt: row.UpdatedAt, size: row.Size, gen: row.Gen, used: row.LastID != "", row: &row,
	}
}

func (e *entry) place() driver.Place { return driver.Place{UpdatedAt: e.updatedAt, ID: e.id} }

// standing is the part of a row that [driver.Row.Newer] compares.
func (e *entry) standing() driver.Row {
	row := driver.Row{ID: e.id, Gen: e.gen}
	if e.used {
		row.LastID = "-"
	}
	return row
}

// rows are the entries of an index by session ID. Those that come in the order
// of their IDs, as a rewritten index has them, cost no map: opening a store of
// many sessions to look at a few must be quick. The order of lists and the
// sessions of each key are worked out when they are needed and kept from then
// on.
type rows struct {
	base []*entry // sorted by ID
	more map[string]*entry
	n    int // entries that are not gone

	order []*entry            // the newest first; nil until a second page is asked for
	asked bool                // a page was asked for
	keys  map[string][]*entry // nil until the current session of a key is asked for

	slab []entry // where entries are made, many at a time
}

// find returns the entry of a session, or nil.
func (r *rows) find(id string) *entry {
	if e := r.lookup(id); e != nil && !e.gone {
		return e
	}
	return nil
}

func (r *rows) lookup(id string) *entry {
	if e := r.more[id]; e != nil {
		return e
	}
	i, ok := slices.BinarySearchFunc(r.base, id, func(e *entry, id string) int { return strings.Compare(e.id, id) })
	if !ok {
		return nil
	}
	return r.base[i]
}

// set adds an entry or replaces the one with its ID.
func (r *rows) set(n entry) {
	var e *entry
	if len(r.base) > 0 && r.base[len(r.base)-1].id >= n.id || len(r.more) > 0 {
		e = r.lookup(n.id)
	}
	switch {
	case e != nil:
		r.del(e)
	default:
		if len(r.slab) == 0 {
			r.slab = make([]entry, 256)
		}
		e, r.slab = &r.slab[0], r.slab[1:]
		if len(r.more) == 0 && (len(r.base) == 0 || r.base[len(r.base)-1].id < n.id) {
			r.base = append(r.base, e)
			break
		}
		if r.more == nil {
			r.more = map[string]*entry{}
		}
		r.more[n.id] = e
	}
	*e = n
	r.n++
	if r.order != nil {
		i, _ := r.searchOrder(e.place())
		r.order = slices.Insert(r.order, i, e)
	}
	if r.keys != nil {
		r.keys[e.key] = append(r.keys[e.key], e)
	}
}

// del removes an entry, unless it is gone.
func (r *rows) del(e *entry) {
	if e.gone {
		return
	}
	r.n--
	if i, ok := r.searchOrder(e.place()); ok {
		r.order = slices.Delete(r.order, i, i+1)
	}
	if r.keys != nil {
		same := slices.DeleteFunc(r.keys[e.key], func(o *entry) bool { return o == e })
		if r.keys[e.key] = same; len(same) == 0 {
			delete(r.keys, e.key)
		}
	}
	e.gone, e.row = true, nil
}

func (r *rows) searchOrder(p driver.Place) (int, bool) {
	return slices.BinarySearchFunc(r.order, p, func(e *entry, p driver.Place) int { return e.place().Compare(p) })
}

// all yields the entries in no particular order.
func (r *rows) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for _, e := range r.base {
			if !e.gone && !yield(e) {
				return
			}
		}
		for _, e := range r.more {
			if !e.gone && !yield(e) {
				return
			}
		}
	}
}

// sort puts all entries into base, so that they can be written in this order.
func (r *rows) sort() {
	all := slices.SortedFunc(r.all(), func(a, b *entry) int { return strings.Compare(a.id, b.id) })
	r.base, r.more = all, nil
}

// page returns the n entries behind a place, the newest first; all of them if
// n is 0. The first page that is asked for is picked in one pass; the second
// one shows that it pays to sort all entries.
func (r *rows) page(after driver.Place, n int) []*entry {
	newer := func(a, b *entry) int { return a.place().Compare(b.place()) }
	first := after == driver.Place{}
	if r.order == nil && (n == 0 || r.asked) {
		r.order = slices.SortedFunc(r.all(), newer)
	}
	r.asked = true
	if r.order != nil {
		from := 0
		if !first {
			i, found := r.searchOrder(after)
			from = i
			if found {
				from++
			}
		}
		page := r.order[from:]
		if n > 0 {
			page = page[:min(n, len(page))]
		}
		return slices.Clone(page)
	}
	var best []*entry // holds the n newest of the entries seen so far
	for e := range r.all() {
		if !first && after.Compare(e.place()) >= 0 {
			continue
		}
		if len(best) >= n && newer(best[n-1], e) < 0 {
			continue
		}
		if best = append(best, e); len(best) >= 2*n {
			slices.SortFunc(best, newer)
			best = best[:n]
		} else if len(best) == n {
			slices.SortFunc(best, newer)
		}
	}
	slices.SortFunc(best, newer)
	return best[:min(n, len(best))]
}

// current returns the current session of a key, nil if there is none, and the
// highest gen of the key.
func (r *rows) current(key string) (cur *entry, highest int64) {
	if r.keys == nil {
		r.keys = map[string][]*entry{}
		for e := range r.all() {
			r.keys[e.key] = append(r.keys[e.key], e)
		}
	}
	for _, e := range r.keys[key] {
		cur, highest = newest(cur, e), max(highest, e.gen)
	}
	return cur, highest
}

// currents returns the current sessions of the keys of some entries. Unless the
// keys are known it looks at all entries once and keeps nothing.
func (r *rows) currents(of []*entry) map[string]*entry {
	cur := map[string]*entry{}
	for _, e := range of {
		if cur[e.key] != nil {
			continue
		}
		if cur[e.key] = e; r.keys != nil {
			cur[e.key], _ = r.current(e.key)
		}
	}
	if r.keys == nil && len(cur) > 0 {
		for e := range r.all() {
			if was := cur[e.key]; was != nil {
				cur[e.key] = newest(was, e)
			}
		}
	}
	return cur
}

// newest returns the entry that is the current one of two of a key. A may be
// nil.
func newest(a, b *entry) *entry {
	if a == nil || b.standing().Newer(a.standing()) {
		return b
	}
	return a
}

// peekRow reads the members that lead a row as this package writes it. It
// reports false for any other text.
func peekRow(text []byte, buf *[]byte) (e entry, ok bool) {
	p := peeker{text, true}
	p.skip(`{"id":"`)
	id := p.until('"')
	if p.maybe(`,"updatedAt":"`) {
		p.ok = p.ok && e.updatedAt.UnmarshalText(p.until('"')) == nil
	}
	p.skip(`,"size":`)
	e.size = p.number()
	p.skip(`,"gen":`)
	e.gen = p.number()
	if e.used = p.maybe(`,"lastId":"`); e.used {
		p.until('"')
	}
	p.skip(`,"key":"`)
	key := p.until('"')
	if !p.ok || len(key) == 0 || bytes.IndexByte(key, '\\') >= 0 || bytes.IndexByte(id, '\\') >= 0 {
		return entry{}, false
	}
	*buf = append(append((*buf)[:0], id...), key...)
	both := string(*buf) // one allocation for both
	e.id, e.key = both[:len(id)], both[len(id):]
	return e, true
}

// A peeker walks over JSON whose members have a known order.
type peeker struct {
	rest []byte
	ok   bool
}

func (p *peeker) maybe(prefix string) bool {
	if len(p.rest) < len(prefix) || string(p.rest[:len(prefix)]) != prefix {
		return false
	}
	p.rest = p.rest[len(prefix):]
	return true
}

func (p *peeker) skip(prefix string) { p.ok = p.maybe(prefix) && p.ok }

func (p *peeker) until(end byte) []byte {
	i := bytes.IndexByte(p.rest, end)
	if i < 0 {
		p.ok = false
		return nil
	}
	found := p.rest[:i]
	p.rest = p.rest[i+1:]
	return found
}

func (p *peeker) number() (n int64) {
	i := 0
	for ; i < len(p.rest) && '0' <= p.rest[i] && p.rest[i] <= '9' && i < 18; i++ {
		n = n*10 + int64(p.rest[i]-'0')
	}
	p.ok = p.ok && i > 0
	p.rest = p.rest[i:]
	return n
}
