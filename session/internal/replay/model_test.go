package replay_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// A model is a session by the simplest reading of docs/FORMAT.md.
type model struct {
	chain []node            // live lines
	after map[string][]node // the chain after the batch of an entry
	lines int

	pins, values, queued []string // each begins with its name
	row                  driver.Row
}

// A node is a line of a history.
type node struct {
	id    string
	n     int // of the line
	batch int
	body  transcript.Body
}

func newModel() *model {
	return &model{after: map[string][]node{"s": nil}, row: driver.Row{LastID: ""}}
}

// set replaces the item of a name, or removes it if the text is empty.
func set(items []string, name, text string) []string {
	items = slices.DeleteFunc(slices.Clone(items), func(s string) bool { return strings.HasPrefix(s, name+" ") })
	if text != "" {
		items = append(items, name+" "+text)
	}
	return items
}

// add takes a whole batch.
func (m *model) add(entries []transcript.Entry) {
	batch := m.lines
	for _, e := range entries {
		m.lines++
		link := node{e.ID, m.lines, batch, e.Body}
		switch b := e.Body.(type) {
		case transcript.MessageLine:
			m.chain = append(slices.Clone(m.chain), link)
			m.row.Messages++
			if b.Queued != "" {
				m.queued = set(m.queued, "queued "+b.Queued, "")
			}
			if b.Kind == transcript.TypeUser {
				m.row.LastUserAt = e.Time
			}
		case transcript.Hide:
			m.chain = append(slices.Clone(m.chain), link)
		case transcript.Compaction:
			m.chain = append(slices.Clone(m.chain), link)
			m.row.Compactions++
			if b.Standing == nil {
				m.pins, m.values, m.queued = nil, nil, nil
			}
		case transcript.Rewind:
			if was, ok := m.after[b.To]; ok {
				m.chain = was
			}
		case transcript.Pin:
			m.pins = set(m.pins, "pin "+b.Entry, b.Text)
		case transcript.Value:
			m.values = set(m.values, "value "+b.Name, string(b.Value))
		case transcript.Queued:
			m.queued = set(m.queued, "queued "+e.ID, "later")
		case transcript.Meta:
			m.row.Title = *b.Title
		}
		m.row.LastID = e.ID
	}
	for _, e := range entries {
		m.after[e.ID] = m.chain
	}
}

// shown returns the IDs of the history.
func (m *model) shown() string {
	hidden := map[string]bool{}
	start, all := 0, []string(nil)
	for i, n := range m.chain {
		switch b := n.body.(type) {
		case transcript.Hide:
			for _, id := range b.Entries {
				hidden[id] = !b.Off && slices.ContainsFunc(m.chain[:i], func(n node) bool { return n.id == id })
			}
		case transcript.Compaction:
			start, all = m.kept(i, b), []string{"[summary]"}
		}
	}
	for _, n := range m.chain[start:] {
		f, ok := n.body.(transcript.MessageLine)
		switch {
		case !ok || hidden[n.id]:
		case f.Role == transcript.RoleAssistant:
			all = append(all, "="+n.id)
		default:
			all = append(all, n.id)
		}
	}
	return strings.Join(all, " ")
}

// kept returns the beginning of the part of the chain that a compaction keeps.
func (m *model) kept(at int, c transcript.Compaction) int {
	before := m.chain[:at]
	if i := slices.IndexFunc(before, func(n node) bool { return n.id == c.FirstKept }); i >= 0 {
		return slices.IndexFunc(before, func(n node) bool { return n.batch == before[i].batch })
	}
	covered, ok := m.after[c.CoversTo]
	if ok && len(covered) <= at && slices.EqualFunc(covered, before[:len(covered)], func(a, b node) bool { return a.n == b.n }) {
		return len(covered)
	}
	return at + 1
}

// lines makes random lines.
type lines struct {
	rnd *rand.Rand
	x   *text
	n   int
	ids []string // of messages
	all []string // of entries
}

func (l *lines) id() string {
	l.n++
	id := fmt.Sprint("e", l.n)
	l.all = append(l.all, id)
	return id
}

// some returns the ID of a message, most often a late one.
func (l *lines) some() string {
	if len(l.ids) == 0 {
		return "s"
	}
	return l.ids[len(l.ids)-1-min(l.rnd.IntN(len(l.ids)), l.rnd.IntN(12))]
}

func (l *lines) message(text string) string {
	id := l.id()
	l.ids = append(l.ids, id)
	return id + " " + text
}

func (l *lines) batch() string {
	switch l.rnd.IntN(16) {
	case 0:
		return l.id() + " rewind " + l.some()
	case 1:
		return l.id() + " rewind " + l.all[l.rnd.IntN(len(l.all))]
	case 2:
		return fmt.Sprintf("%s compact %s %s %d", l.id(), l.some(), l.some(), l.rnd.IntN(3))
	case 3:
		return l.id() + " hide " + l.some() + "," + l.some()
	case 4:
		return l.id() + " show " + l.some()
	case 5:
		return l.id() + " pin " + l.some() + " text"
	case 6:
		return l.id() + " unpin " + l.some()
	case 7:
		return fmt.Sprintf("%s value v%d %d", l.id(), l.rnd.IntN(3), l.n)
	case 8:
		return l.id() + " queued later"
	case 9:
		return l.message("takes " + l.all[max(0, len(l.all)-3)] + " text")
	case 10:
		return l.id() + " title " + fmt.Sprint("title ", l.n)
	case 11:
		return l.message("user x") + "; " + l.message("answer m 3 y") + "; " + l.message("user z")
	case 12, 13:
		return l.message("user hello")
	}
	return l.message("answer m 3 hi")
}

// Whatever the lines are, every reader finds the history, the state and the row of the
// model: one of all lines, one of the lines that the history needs, one that reads on
// after each batch, and one that gets the batches of its process.
func TestModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storetest.Extent(*storetest.Faults, 80, 300, 3000)) {
		rnd := rand.New(rand.NewPCG(seed, 41))
		x := textOf(t)
		l := &lines{rnd: rnd, x: x, all: []string{"s"}}
		m := newModel()
		on, own := x.begin(false), x.begin(rnd.IntN(2) == 0)
		known := row
		for step := range 40 {
			batch := l.batch()
			res, entries := x.write(batch)
			m.add(entries)
			if rnd.IntN(4) > 0 {
				require.NoError(t, own.Own(res, entries))
			}
			if rnd.IntN(8) > 0 {
				continue
			}
			where := fmt.Sprintf("seed %d, step %d, %s\n%s", seed, step, batch, x.data)
			all := x.begin(true)
			turns := all.Fold.Turns()
			for name, r := range map[string]*replay.Reader{
				"all": all, "needed": x.begin(false), "with a row": x.with(known), "on": x.on(on), "own": x.on(own),
			} {
				require.Equal(t, m.shown(), shown(r.Fold), "%s: %s", name, where)
				require.Equal(t, strings.Join(slices.Concat(m.queued, m.pins, m.values), "; "), standing(r.Fold), "%s: %s", name, where)
				got := x.row(r)
				require.Equal(t, []any{m.row.Messages, m.row.Compactions, m.row.LastID, m.row.LastUserAt}, []any{got.Messages, got.Compactions, got.LastID, got.LastUserAt}, "%s: %s", name, where)
				if m.row.Title != "" {
					require.Equal(t, m.row.Title, got.Title)
				}
				require.Equal(t, turns, r.Fold.Turns(), "%s: %s", name, where)
				require.Equal(t, driver.Cursor(len(x.data)), r.Next)
			}
			if rnd.IntN(3) == 0 {
				known = x.row(all)
			}
		}
	}
}

// with returns a reader that begins with a row of the index.
func (x *text) with(known driver.Row) *replay.Reader {
	x.t.Helper()
	r := replay.New(opts)
	require.NoError(x.t, r.Begin(x.scan, known, false))
	return &r
}

// on makes a reader read on, from the beginning if it must.
func (x *text) on(r *replay.Reader) *replay.Reader {
	x.t.Helper()
	err := r.ReadOn(x.scan)
	if errors.Is(err, replay.ErrRewound) {
		*r = *x.begin(false)
		err = nil
	}
	require.NoError(x.t, err)
	return r
}
