package memdriver

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/convolog/convolog/session/driver"
)

var (
	errNoSession = fmt.Errorf("there is no such session: %w", fs.ErrNotExist)
	errInUse     = fmt.Errorf("the ID is in use, nothing was written: %w", fs.ErrExist)
	errBadLine   = errors.New("a line holds a newline, nothing was written")
)

// A storage holds the state common to a driver and its reopened copies.
type storage struct {
	mu       sync.Mutex // guards all below, and the sessions
	sessions map[driver.Ref]*session
	keys     map[driver.KeyRef]*key
	watches  map[*watch]bool
	body     driver.Cursor // the last that was given
}

// A key outlives its sessions, so that their gens are not used again.
type key struct {
	gen      int64 // the highest so far, including deleted sessions
	sessions []*session
}

func newStorage() *storage {
	return &storage{sessions: map[driver.Ref]*session{}, keys: map[driver.KeyRef]*key{}, watches: map[*watch]bool{}}
}

func (st *storage) session(ref driver.Ref) (*session, error) {
	s := st.sessions[ref]
	if s == nil {
		return nil, errNoSession
	}
	return s, nil
}

// current returns nil if no session of the key is current.
func (st *storage) current(ref driver.KeyRef) (cur *session) {
	k := st.keys[ref]
	if k == nil {
		return nil
	}
	for _, s := range k.sessions {
		if !s.row.Archived && s.row.Gen > 0 && (cur == nil || s.row.Gen > cur.row.Gen) {
			cur = s
		}
	}
	return cur
}

func (st *storage) nextGen(ref driver.KeyRef) int64 {
	if k := st.keys[ref]; k != nil {
		return k.gen + 1
	}
	return 1
}

// prepare returns a session that is not yet stored.
func (st *storage) prepare(row driver.Row, lines []driver.Line) (*session, error) {
	if err := driver.CheckRef(row.Ref()); err != nil {
		return nil, err
	}
	if st.sessions[row.Ref()] != nil {
		return nil, errInUse
	}
	row.Labels = slices.Clone(row.Labels)
	s := st.newSession(row)
	_, err := s.append(lines)
	s.row.Size = int64(s.end())
	return s, err
}

func (st *storage) add(s *session) {
	st.sessions[s.row.Ref()] = s
	defer st.tell(s.row.Ref())
	at := s.row.KeyRef()
	k := st.keys[at]
	if k == nil {
		k = &key{}
		st.keys[at] = k
	}
	k.gen = max(k.gen, s.row.Gen)
	k.sessions = append(k.sessions, s)
}

func (st *storage) setGen(s *session, gen int64) {
	s.row.Gen = gen
	k := st.keys[s.row.KeyRef()]
	k.gen = max(k.gen, gen)
}

// free returns an error if a session of the key other than id has the gen.
func (st *storage) free(ref driver.KeyRef, gen int64, id string) error {
	if k := st.keys[ref]; k != nil {
		for _, s := range k.sessions {
			if s.row.Gen == gen && s.row.ID != id {
				return fmt.Errorf("session %q of the key also has gen %d: delete that session, or copy into another store; nothing was written: %w", s.row.ID, gen, fs.ErrExist)
			}
		}
	}
	return nil
}

func (st *storage) remove(s *session) {
	delete(st.sessions, s.row.Ref())
	defer st.tell(s.row.Ref())
	k := st.keys[s.row.KeyRef()]
	k.sessions = slices.DeleteFunc(k.sessions, func(o *session) bool { return o == s })
	close(s.gone)
}

func (st *storage) agents() (rows []driver.Row) {
	names := map[string]bool{}
	for ref := range st.sessions {
		names[ref.Agent] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		rows = append(rows, driver.Row{Agent: name})
	}
	return rows
}

// rows returns the n rows after a place, all of them if n is 0.
func (st *storage) rows(agent string, after driver.Position, n int) []driver.Row {
	var rows []driver.Row
	for ref, s := range st.sessions {
		if ref.Agent == agent && (after == driver.Position{} || after.Compare(s.row.Position()) < 0) {
			row := s.copyRow()
			row.Current, row.Stale = st.current(row.KeyRef()) == s, row.Size != int64(s.end())
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b driver.Row) int { return a.Position().Compare(b.Position()) })
	if n > 0 {
		rows = rows[:min(n, len(rows))]
	}
	return rows
}
