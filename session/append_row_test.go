package session_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// An append that waits for lines before it leaves its row to the one under way,
// which puts it although it has nothing of its own to tell: because it was a
// repetition, or because it failed and a reader has read what waited.
func TestRowIsLeftToOneThatWritesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		cond session.Cond
		read bool
		want error
	}{
		"repeated":             {session.Cond{Idem: "k"}, false, nil},
		"repeated, and read":   {session.Cond{Idem: "k"}, true, nil},
		"conflicting":          {session.Cond{Head: session.NoHead}, false, session.ErrConflict},
		"conflicting and read": {session.Cond{Head: session.NoHead}, true, session.ErrConflict},
	} {
		t.Run(name, func(t *testing.T) {
			h, s := newHeld(t)
			if _, err := s.AppendIf(bg, session.Cond{Idem: "k"}, transcript.UserText("q"), answer("a")); err != nil {
				t.Fatal(err)
			}
			h.mu.Lock()
			h.hold = true
			h.mu.Unlock()
			ended := make(chan error, 1)
			go func() {
				_, err := s.AppendIf(bg, c.cond, transcript.UserText("q"), answer("a"))
				ended <- err
			}()
			under := <-h.written
			h.mu.Lock()
			h.hold = false
			h.mu.Unlock()
			other := session.OpenDriver(h.Driver, nil)
			add(t, load(t, other, cli), transcript.UserText("another process"), answer("a"))
			add(t, s, transcript.UserText("this one"), answer("a"))
			if c.read {
				history(t, s)
			}
			h.holds[under] <- nil
			if err := <-ended; !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			h.checkRow(t, s, 6)
		})
	}
}

// A compaction of which only the whole transcript says what it keeps, on a
// session that was resumed from the one before it: its row is put.
func TestRowOfCompactionThatKeepsNothing(t *testing.T) {
	mem := memdriver.New(nil)
	s := load(t, session.OpenDriver(mem, nil), cli)
	talk(t, s, 0, 5)
	kept := add(t, s, transcript.UserText("kept"), answer("a"))
	add(t, s, transcript.Compaction{Summary: "short", FirstKept: kept[0], CoversTo: kept[0], TurnsBefore: 5})

	h := &held{Driver: mem.Reopen()}
	st := session.OpenDriver(h, nil)
	defer closed(t, st)
	s = load(t, st, cli)
	last := add(t, s, transcript.UserText("last"), answer("a"))
	add(t, s, transcript.Compaction{Summary: "shorter", CoversTo: last[1], TurnsBefore: 2})
	row, err := h.Get(t.Context(), s.Ref())
	must(t, err)
	end, err := h.Settle(t.Context(), s.Ref())
	must(t, err)
	if row.Size != int64(end) || row.Messages != 14 {
		t.Errorf("the row has size %d and %d messages, want %d and 14", row.Size, row.Messages, end)
	}
	compareWithWhole(t, "after the compaction", s, 0)
}

// failing is a Counter that panics when it is told to.
type failing struct {
	tokens.Estimator
	now *bool
}

func (f failing) Count(system string, tools []transcript.Tool, msgs []transcript.Message) int {
	if *f.now {
		panic("no count")
	}
	return f.Estimator.Count(system, tools, msgs)
}

// panicking is a driver that panics when it is told to, after it has written.
type panicking struct {
	driver.Driver
	now *bool
}

func (p panicking) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (driver.Result, error) {
	res, err := p.Driver.Append(ctx, ref, lines, cond)
	if *p.now {
		panic("no append")
	}
	return res, err
}

// Who recovers from a panic, of a Counter or of a driver, goes on with a session
// that is as its transcript is.
func TestSessionGoesOnAfterAPanic(t *testing.T) {
	for _, of := range []string{"counter", "driver"} {
		t.Run(of, func(t *testing.T) {
			var counter, append bool
			h := &held{Driver: memdriver.New(nil)}
			st := session.OpenDriver(panicking{h, &append}, &session.Options{Counter: failing{now: &counter}})
			defer closed(t, st)
			s := load(t, st, cli)
			add(t, s, transcript.UserText("0"), answer("a"))
			counter, append = of == "counter", of == "driver"
			func() {
				defer func() {
					if recover() == nil {
						t.Error("no panic")
					}
				}()
				_, _ = s.Append(bg, transcript.UserText("1"), answer("a"))
			}()
			counter, append = false, false
			ended := make(chan error, 1)
			go func() {
				_, err := s.Append(bg, transcript.UserText("2"), answer("a"))
				ended <- err
			}()
			select {
			case err := <-ended:
				must(t, err)
			case <-time.After(time.Minute):
				t.Fatal("the session is locked")
			}
			h.checkRow(t, s, 6)
			fresh := session.OpenDriver(h.Driver, nil)
			if got, want := history(t, s), history(t, load(t, fresh, cli)); got != want {
				t.Errorf("the history is\n%s\nand read anew\n%s", got, want)
			}
		})
	}
}

// After an index was lost, a session that was resumed from its last compaction
// is listed as it is, once anybody has asked for a list.
func TestRowAfterTheIndexWasLost(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, unsynced)
	s := load(t, st, cli)
	for i := range 5 {
		add(t, s, transcript.UserText(strings.Repeat("q", 20_000)), answer(fmt.Sprint(i)))
	}
	kept := add(t, s, transcript.UserText("kept"), answer("a"))
	add(t, s, transcript.Compaction{Summary: "short", FirstKept: kept[0], CoversTo: kept[0], TurnsBefore: 5})
	ref := s.Ref()
	closed(t, st)
	for _, name := range []string{"sessions.json", "sessions.journal"} {
		must(t, os.RemoveAll(filepath.Join(dir, "agents", "main", name)))
	}
	st, other := open(t, dir, unsynced), open(t, dir, unsynced)
	s, err := st.Get(t.Context(), ref)
	must(t, err)
	for n := 14; n <= 18; n += 2 {
		add(t, s, transcript.UserText("more"), answer("a"))
		for _, st := range []*session.Store{st, other} {
			if infos, err := st.List(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Messages != n {
				t.Errorf("%+v, %v, want %d messages", infos, err, n)
			}
		}
	}
	closed(t, other)
	closed(t, st)
}

// What the index has no room for is not lost to who resumes the session.
func TestResumeOfACutRow(t *testing.T) {
	dir := t.TempDir()
	st := open(t, dir, unsynced)
	s := load(t, st, cli)
	labels := make([]string, 60)
	for i := range labels {
		labels[i] = fmt.Sprint(strings.Repeat("l", 50), i)
	}
	owner := strings.Repeat("o", 5000)
	must(t, s.SetMeta(bg, transcript.Meta{Labels: labels, Owner: &owner}))
	talk(t, s, 0, 1)
	kept := add(t, s, transcript.UserText("kept"), answer("a"))
	add(t, s, transcript.Compaction{Summary: "short", FirstKept: kept[0], CoversTo: kept[0], TurnsBefore: 1})
	closed(t, st)
	st = open(t, dir, unsynced)
	defer closed(t, st)
	if info := load(t, st, cli).Info(); len(info.Labels) != len(labels) || info.Owner != owner {
		t.Errorf("%d labels and an owner of %d bytes, want %d and %d", len(info.Labels), len(info.Owner), len(labels), len(owner))
	}
}
