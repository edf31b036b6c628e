package filedriver

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/filelog"
)

// A shop is a store in which a session's title is the number of its entries.
type shop struct {
	testing.TB
	dir string
	d   *Driver
}

func (s *shop) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) open() {
	s.Helper()
	var err error
	s.d, err = Open(s.dir, &Options{Sync: filelog.SyncNever, Describe: func(row driver.Row, records iter.Seq2[transcript.Record, error]) (driver.Row, error) {
		n := 0
		for _, err := range records {
			if err != nil {
				return row, err
			}
			n++
		}
		row.Title, row.UpdatedAt = fmt.Sprint(n), time.Unix(int64(n), 0).UTC()
		return row, nil
	}})
	s.must(err)
}

func (s *shop) reopen() {
	s.Helper()
	s.must(s.d.Close())
	s.open()
}

// kill ends the driver as the end of its process would.
func (s *shop) kill() {
	s.Helper()
	for _, a := range s.d.agents {
		s.must(a.idx.journal.Close())
	}
	s.open()
}

func (s *shop) create(id, key string) {
	s.Helper()
	_, err := s.d.Create(s.Context(), "main", key, func(gen int64) (driver.Row, driver.Line) {
		e := transcript.Entry{ID: id, Body: transcript.Header{Version: transcript.Version, Key: key, Gen: gen}}
		return driver.Row{ID: id, Title: "1", UpdatedAt: time.Unix(1, 0).UTC()}, driver.Line{ID: id, Type: e.Type(), Data: e.Line()}
	})
	s.must(err)
}

// index returns the index, which is read without a look at the transcripts.
func (s *shop) index() *index {
	s.Helper()
	a, err := s.d.agent(s.Context(), "main", false)
	s.must(err)
	return a.idx
}

// grow appends an entry behind the back of everyone.
func (s *shop) grow(id string, body transcript.Body) {
	s.Helper()
	e := transcript.Entry{ID: "x", Body: body}
	f, err := os.OpenFile(s.d.Path(driver.Ref{Agent: "main", ID: id}), os.O_APPEND|os.O_WRONLY, 0)
	s.must(err)
	_, err = f.Write(append(e.Line(), '\n'))
	s.must(err)
	s.must(f.Close())
}

var something = transcript.Custom{Name: "note", Data: []byte(`1`)}

func newShop(t testing.TB, sessions int) *shop {
	s := &shop{TB: t, dir: t.TempDir()}
	s.open()
	for i := range sessions {
		s.create(fmt.Sprintf("s%04d", i), fmt.Sprint("k", i/2))
	}
	s.reopen()
	return s
}

// A row that is taken on trust is as its transcript is wherever it is used.
func TestTrustedRows(t *testing.T) {
	ref := driver.Ref{Agent: "main", ID: "s0003"}
	for name, use := range map[string]func(s *shop) (string, error){
		"Get": func(s *shop) (string, error) {
			s.index().byKey()
			if _, err := s.d.Get(s.Context(), ref); err != nil { // what is there, and who reads on finds the rest
				return "", err
			}
			rows, err := s.d.List(s.Context(), "main")
			return rows[slices.IndexFunc(rows, func(r driver.Row) bool { return r.ID == ref.ID })].Title, err
		},
		"List": func(s *shop) (string, error) {
			rows, err := s.d.List(s.Context(), "main")
			return rows[slices.IndexFunc(rows, func(r driver.Row) bool { return r.ID == ref.ID })].Title, err
		},
		"Recent": func(s *shop) (string, error) { // 4 and 5 are newer as long as it is not looked at
			rows, err := s.d.Recent(s.Context(), "main", 3)
			return rows[0].Title, err
		},
		"Current": func(s *shop) (string, error) {
			row, err := s.d.Current(s.Context(), "main", "k1")
			return row.Title, err
		},
		"Current after Recent": func(s *shop) (string, error) {
			_, err := s.d.Recent(s.Context(), "main", 1)
			s.must(err)
			row, err := s.d.Current(s.Context(), "main", "k1")
			return row.Title, err
		},
		"Put": func(s *shop) (string, error) {
			row, _ := s.index().rows.get(ref.ID)
			s.must(s.d.Put(s.Context(), row)) // by one who read less; the gen must stay
			row, err := s.d.Current(s.Context(), "main", "k1")
			if row.Gen != 9 {
				t.Errorf("gen %d, want 9", row.Gen)
			}
			return "2", err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, 6)
			s.grow(ref.ID, transcript.Current{Gen: 9})
			s.reopen()
			if x := s.index(); !x.trusted || x.lost {
				t.Fatal("the index that was left in order is not trusted")
			}
			if title, err := use(s); err != nil || title != "2" {
				t.Errorf("%s entries, %v", title, err)
			}
			s.reopen()
			if row, err := s.d.Current(t.Context(), "main", "k1"); err != nil || row.ID != ref.ID || row.Gen != 9 {
				t.Errorf("after opening it again: %+v, %v", row, err)
			}
			s.must(s.d.Close())
		})
	}
}

// The older of two sessions of a key is the current one if its transcript says
// so, and the next gen is above it.
func TestTrustedGen(t *testing.T) {
	s := newShop(t, 4)
	s.grow("s0002", transcript.Current{Gen: 7})
	s.reopen()
	s.create("new", "k1")
	if row, err := s.d.Get(t.Context(), driver.Ref{Agent: "main", ID: "new"}); err != nil || row.Gen != 8 {
		t.Errorf("%+v, %v, want gen 8", row, err)
	}
	s.must(s.d.Close())
}

// Whether the index is trusted says how it was left, and names are looked at
// whenever they may have changed.
func TestTrust(t *testing.T) {
	old := time.Now().Add(-time.Hour)
	for name, c := range map[string]struct {
		sessions int
		leave    func(s *shop) // before it is opened again
		trusted  bool
		names    bool // are looked at
		want     int  // sessions
	}{
		"closed":     {4, func(s *shop) { s.must(s.d.Close()); s.open() }, true, true, 4},
		"only read":  {4, func(s *shop) { _, err := s.d.List(s.Context(), "main"); s.must(err); s.reopen() }, true, true, 4},
		"put":        {4, func(s *shop) { row, _ := s.index().rows.get("s0001"); s.must(s.d.Put(s.Context(), row)); s.reopen() }, true, true, 4},
		"killed":     {4, func(s *shop) { row, _ := s.index().rows.get("s0001"); s.must(s.d.Put(s.Context(), row)); s.kill() }, false, false, 4},
		"file added": {4, func(s *shop) { s.must(s.d.Close()); s.copyOf("s0001", "added"); s.open() }, true, true, 5},
		"file removed": {4, func(s *shop) {
			s.must(s.d.Close())
			s.must(os.Remove(s.d.Path(driver.Ref{Agent: "main", ID: "s0001"})))
			s.open()
		}, true, true, 3},
		"append without a row": {4, func(s *shop) {
			ref := driver.Ref{Agent: "main", ID: "s0001"}
			row, err := s.d.Get(s.Context(), ref)
			s.must(err)
			_, err = s.d.Append(s.Context(), ref, []driver.Line{{ID: "y", Type: "custom", Data: transcript.Entry{ID: "y", Body: something}.Line()}}, driver.Cond{})
			s.must(err)
			s.must(s.d.Put(s.Context(), row))
			s.reopen()
		}, true, true, 4},
		"torn journal": {4, func(s *shop) {
			s.must(s.d.Close())
			s.addToJournal(`{"put":{"id":"s00`)
			s.open()
		}, false, false, 4},
		"line that is none": {4, func(s *shop) {
			s.must(s.d.Close())
			s.addToJournal("\x00\x00\n" + `{"clean":0}` + "\n")
			s.open()
		}, false, false, 4},
		"unreadable": {4, func(s *shop) {
			s.must(os.WriteFile(filepath.Join(s.dir, "agents/main/sessions/bad.jsonl"), nil, 0o600))
			s.reopen()
			_, err := s.d.List(s.Context(), "main")
			s.must(err)
			s.must(s.d.Put(s.Context(), driver.Row{ID: "s0001", Agent: "main"}))
			s.reopen()
		}, false, false, 4},
		"many": {manyRows, func(s *shop) {
			s.must(os.Chtimes(s.folder(), old, old.Add(12345)))
			_, err := s.d.Recent(s.Context(), "main", 1)
			s.must(err)
			s.reopen()
		}, true, false, manyRows},
		"many, a name in the same moment": {manyRows, func(s *shop) {
			_, err := s.d.Recent(s.Context(), "main", 1)
			s.must(err)
			now := time.Now().Add(time.Second) // later than the step of any clock
			s.must(os.Chtimes(s.folder(), now, now))
			s.index().names = true
			s.reopen()
		}, true, true, manyRows},
		"many, file added": {manyRows, func(s *shop) {
			s.must(os.Chtimes(s.folder(), old, old))
			_, err := s.d.Recent(s.Context(), "main", 1)
			s.must(err)
			s.copyOf("s0001", "added") // after the names were read
			s.reopen()
		}, true, true, manyRows + 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, c.sessions)
			c.leave(s)
			if x := s.index(); x.trusted != c.trusted || x.lost == c.trusted || x.trusted && x.names != c.names {
				t.Errorf("trusted %v, lost %v, names to be looked at %v", x.trusted, x.lost, x.names)
			}
			rows, err := s.d.Recent(t.Context(), "main", 2*manyRows)
			if err != nil || len(rows) != c.want {
				t.Errorf("%d sessions, want %d, %v", len(rows), c.want, err)
			}
			s.must(s.d.Close())
		})
	}
}

// A session whose row was not put, or not in time, is brought up to date when
// the store is closed: the mark of before does not stay in force.
func TestCloseMakesRows(t *testing.T) {
	s := newShop(t, 4)
	ref := driver.Ref{Agent: "main", ID: "s0001"}
	_, err := s.d.Append(t.Context(), ref, []driver.Line{{ID: "y", Type: "custom", Data: transcript.Entry{ID: "y", Body: something}.Line()}}, driver.Cond{})
	s.must(err)
	s.reopen()
	if x := s.index(); !x.trusted {
		t.Error("the index was not left in order")
	}
	if rows, err := s.d.Recent(t.Context(), "main", 1); err != nil || len(rows) != 1 || rows[0].ID != ref.ID || rows[0].Title != "2" {
		t.Errorf("the newest is %+v, %v", rows, err)
	}
	s.must(s.d.Close())
}

// A process that dies when it has made a session current, and before there is a
// row that says so: those that go on and those that come agree.
func TestDeadSetCurrent(t *testing.T) {
	s := newShop(t, 4) // s0003 is the current session of k1
	other, err := Open(s.dir, &s.d.opts)
	s.must(err)
	_, err = other.List(t.Context(), "main")
	s.must(err)
	ref := driver.Ref{Agent: "main", ID: "s0002"}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("it lives")
			}
		}()
		_, _ = s.d.SetCurrent(t.Context(), ref, func(gen int64) driver.Line {
			s.grow(ref.ID, transcript.Current{Gen: gen})
			panic("the end of the process")
		})
	}()
	s.kill()
	for range 2 {
		for name, d := range map[string]*Driver{"the one that goes on": other, "the one that comes": s.d} {
			if row, err := d.Current(t.Context(), "main", "k1"); err != nil || row.ID != ref.ID {
				t.Errorf("%s: the current session is %s, %v", name, row.ID, err)
			}
		}
		s.must(other.Put(t.Context(), driver.Row{ID: "s0000", Agent: "main"})) // finishes what was begun
	}
	if x := s.index(); len(x.intents) > 0 {
		t.Errorf("unfinished: %v", x.intents)
	}
	s.must(other.Close())
	s.must(s.d.Close())
}

// A session that cannot be made current stays what it was, and nothing is left
// of the attempt.
func TestSetCurrentFails(t *testing.T) {
	s := newShop(t, 4)
	ref := driver.Ref{Agent: "main", ID: "s0002"}
	if _, err := s.d.SetCurrent(t.Context(), ref, func(int64) driver.Line { return driver.Line{} }); err == nil {
		t.Error("an empty line was appended")
	}
	for range 2 {
		if row, err := s.d.Current(t.Context(), "main", "k1"); err != nil || row.ID != "s0003" {
			t.Errorf("the current session is %s, %v", row.ID, err)
		}
		s.reopen()
	}
	if x := s.index(); !x.trusted || len(x.intents) > 0 {
		t.Errorf("trusted %v, unfinished %v", x.trusted, x.intents)
	}
	s.must(s.d.Close())
}

func (s *shop) folder() string { return filepath.Join(s.dir, "agents/main/sessions") }

func (s *shop) copyOf(id, to string) {
	s.Helper()
	path := s.d.Path(driver.Ref{Agent: "main", ID: id})
	data, err := os.ReadFile(path)
	s.must(err)
	s.must(os.WriteFile(strings.Replace(path, id, to, 1), []byte(strings.ReplaceAll(string(data), id, to)), 0o600))
}

func (s *shop) addToJournal(text string) {
	s.Helper()
	f, err := os.OpenFile(filepath.Join(s.dir, "agents/main", journalName), os.O_APPEND|os.O_WRONLY, 0)
	s.must(err)
	_, err = f.WriteString(text)
	s.must(err)
	s.must(f.Close())
}
