package session_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// A row is put after metadata, when a turn ends, by an append that comes some
// seconds after the last row, when a session leaves the table and when the
// store is closed; never if nothing was appended.
func TestWhenRowsArePut(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	h := &held{Driver: memdriver.New(nil)}
	st := session.OpenDriver(h, &session.Options{Now: func() time.Time { return now }, CachedSessions: 1})
	s := storetest.Load(t, st, storetest.CLI)
	messages := 0
	puts := func(want int, what string) {
		t.Helper()
		require.Len(t, h.puts, want, what)
		if want > 0 {
			h.checkRow(t, s, messages)
		}
		h.forget()
	}
	say := func() {
		t.Helper()
		storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
		messages += 2
	}
	h.forget()
	for range 10 {
		say()
	}
	puts(0, "appends")
	_, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	puts(1, "AfterTurn")
	_, err = s.AfterTurn(t.Context())
	require.NoError(t, err)
	puts(0, "AfterTurn with nothing new")
	unlock, err := s.LockTurn(t.Context(), true)
	require.NoError(t, err)
	say()
	puts(0, "an append in a turn")
	require.NoError(t, unlock())
	require.NoError(t, unlock())
	puts(1, "the end of a turn")
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: new("o")}))
	puts(1, "SetMeta")
	now = now.Add(4 * time.Second)
	say()
	puts(0, "an append soon after a row")
	now = now.Add(2 * time.Second)
	say()
	puts(1, "an append some seconds after a row")
	say()
	puts(0, "the next append")
	for i := range 2 {
		storetest.Load(t, st, session.Key{Agent: "main", Channel: "c", Peer: fmt.Sprint(i)})
	}
	puts(1, "another session takes its place in memory")
	say()
	_ = storetest.List(t, st, nil)
	puts(1, "List")
	_, err = s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("q"), storetest.Answer("a"))
	require.NoError(t, err)
	messages += 2
	_ = storetest.List(t, st, nil)
	puts(1, "List")
	_, err = s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("another"))
	require.ErrorIs(t, err, session.ErrIdemMismatch)
	puts(0, "an append that is refused")
	say()
	storetest.Close(t, st)
	require.Len(t, h.puts, 1, "Close")
}

// The first append to an idle session puts its row, so that lists of other processes
// show it in its place.
func TestRowOfASessionThatWasIdle(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	opts := &session.Options{Now: func() time.Time { return now }}
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, opts)
	storetest.Add(t, storetest.Load(t, st, storetest.CLI), transcript.UserText("q"), storetest.Answer("a"))
	storetest.Close(t, st)

	now = now.Add(time.Hour)
	h := &held{Driver: memdriver.Reopen(mem)}
	st = session.OpenDriver(h, opts)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
	require.Len(t, h.puts, 1)
	require.Equal(t, now, h.puts[0].UpdatedAt)
	storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
	require.Len(t, h.puts, 1)
	storetest.Close(t, st)
}

// A row that cannot be put fails no append and is put later.
func TestRowThatCannotBePut(t *testing.T) {
	h := &held{Driver: memdriver.New(nil)}
	var log strings.Builder
	st := session.OpenDriver(h, &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	h.fails = errors.New("no room")
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: new("o")}))
	require.Contains(t, log.String(), "no room")
	storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
	h.fails = nil
	_, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	h.checkRow(t, s, 2)
}

// A row that could not be put at the end of a turn is put at the end of the next
// one, even if nothing was appended in it.
func TestRowIsPutLater(t *testing.T) {
	h := &held{Driver: memdriver.New(nil)}
	st := session.OpenDriver(h, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
	h.fails = errors.New("no room")
	_, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	h.fails = nil
	h.forget()
	_, err = s.AfterTurn(t.Context())
	require.NoError(t, err)
	require.Len(t, h.puts, 1)
	h.checkRow(t, s, 2)
}

// The row is put at the end of a turn that was cancelled.
func TestRowOfACancelledTurn(t *testing.T) {
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = s.AfterTurn(ctx)
	row, err := mem.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	require.Equal(t, 2, row.Messages)
	storetest.Close(t, st)
}

// The error of an append that the driver refuses names the session.
func TestAppendNamesTheSession(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	storetest.Close(t, st)
	_, err := s.Append(t.Context(), transcript.UserText("late"))
	e, ok := errors.AsType[*session.Error](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "append", e.Op)
	require.Equal(t, s.Ref(), e.Session)
	require.ErrorIs(t, err, session.ErrClosed)
}

// A compaction that keeps nothing, on a session resumed from the previous
// compaction.
func TestRowOfCompactionThatKeepsNothing(t *testing.T) {
	mem := memdriver.New(nil)
	st := session.OpenDriver(mem, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Talk(t, s, 0, 5)
	kept := storetest.Add(t, s, transcript.UserText("kept"), storetest.Answer("a"))
	storetest.Add(t, s, transcript.Compaction{Summary: "short", FirstKept: kept[0], CoversTo: kept[0], TurnsBefore: 5})
	storetest.Close(t, st)

	h := &held{Driver: memdriver.Reopen(mem)}
	st = session.OpenDriver(h, nil)
	defer storetest.Close(t, st)
	s = storetest.Load(t, st, storetest.CLI)
	last := storetest.Add(t, s, transcript.UserText("last"), storetest.Answer("a"))
	storetest.Add(t, s, transcript.Compaction{Summary: "shorter", CoversTo: last[1], TurnsBefore: 7})
	_, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	h.checkRow(t, s, 14)
	storetest.CompareWithWhole(t, "after the compaction", s, 0)
	resumed := storetest.Load(t, session.OpenDriver(h.Driver, nil), storetest.CLI)
	storetest.CompareWithWhole(t, "resumed", resumed, 0)
	require.Equal(t, storetest.Info(t, s), storetest.Info(t, resumed))
}

// failing is a Counter that panics while now is set.
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

// After an application has recovered from a panic of a Counter or a driver, its
// session is as the transcript records it.
func TestSessionGoesOnAfterAPanic(t *testing.T) {
	for _, of := range []string{"counter", "driver"} {
		t.Run(of, func(t *testing.T) {
			var counter, append bool
			h := &held{Driver: memdriver.New(nil)}
			st := session.OpenDriver(&storetest.Between{Driver: h, AfterAppend: func(session.Ref) error {
				if append {
					panic("no append")
				}
				return nil
			}}, &session.Options{Counter: failing{now: &counter}})
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			storetest.Add(t, s, transcript.UserText("0"), storetest.Answer("a"))
			counter, append = of == "counter", of == "driver"
			require.Panics(t, func() {
				_, _ = s.Append(storetest.Background, transcript.UserText("1"), storetest.Answer("a"))
				storetest.Info(t, s)
			})
			counter, append = false, false
			storetest.Add(t, s, transcript.UserText("2"), storetest.Answer("a"))
			_, err := s.AfterTurn(t.Context())
			require.NoError(t, err)
			h.checkRow(t, s, 6)
			fresh := session.OpenDriver(h.Driver, nil)
			require.Equal(t, storetest.History(t, storetest.Load(t, fresh, storetest.CLI)), storetest.History(t, s))
		})
	}
}

// After an index was lost, a session that was resumed from its last compaction
// is listed as it is, from the first list on.
func TestRowAfterTheIndexWasLost(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	for i := range 5 {
		storetest.Add(t, s, transcript.UserText(strings.Repeat("q", 20_000)), storetest.Answer(fmt.Sprint(i)))
	}
	kept := storetest.Add(t, s, transcript.UserText("kept"), storetest.Answer("a"))
	storetest.Add(t, s, transcript.Compaction{Summary: "short", FirstKept: kept[0], CoversTo: kept[0], TurnsBefore: 5})
	ref := s.Ref()
	storetest.Close(t, st)
	storetest.LoseIndex(t, dir)
	st, other := storetest.Open(t, dir, storetest.Unsynced), storetest.Open(t, dir, storetest.Unsynced)
	s = mustGet(t, st, ref)
	for n := 14; n <= 18; n += 2 {
		storetest.Add(t, s, transcript.UserText("more"), storetest.Answer("a"))
		for _, st := range []*session.Store{st, other} {
			if infos, err := st.List(t.Context(), nil); err != nil || len(infos) != 1 || infos[0].Messages != n {
				t.Errorf("%+v, %v, want %d messages", infos, err, n)
			}
		}
	}
	storetest.Close(t, other)
	storetest.Close(t, st)
}

// Long labels and owners are in the index as they are.
func TestLongMeta(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	owner := strings.Repeat("o", 5000)
	s := storetest.Create(t, st, storetest.CLI, &session.CreateOptions{Owner: owner})
	labels := make([]string, 60)
	for i := range labels {
		labels[i] = fmt.Sprint(strings.Repeat("l", 50), i)
	}
	require.NoError(t, s.SetMeta(storetest.Background, transcript.Meta{Labels: labels}))
	storetest.Talk(t, s, 0, 1)
	kept := storetest.Add(t, s, transcript.UserText("kept"), storetest.Answer("a"))
	storetest.Add(t, s, transcript.Compaction{Summary: "short", FirstKept: kept[0], CoversTo: kept[0], TurnsBefore: 1})
	storetest.Close(t, st)
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	s = mustGet(t, st, s.Ref())
	if info := storetest.Info(t, s); len(info.Labels) != len(labels) || info.Owner != owner {
		t.Errorf("%d labels and an owner of %d bytes, want %d and %d", len(info.Labels), len(info.Owner), len(labels), len(owner))
	}
}

// No row is put for a session whose last lines cannot be read.
func TestNoRowOfWhatCannotBeRead(t *testing.T) {
	d := &storetest.Between{Driver: memdriver.New(nil)}
	h := &held{Driver: d}
	st := session.OpenDriver(h, nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	storetest.Add(t, storetest.Load(t, session.OpenDriver(d.Driver, nil), storetest.CLI), storetest.Answer("of another process"))
	storetest.Add(t, s, transcript.UserText("next")) // after the lines read
	h.forget()
	d.BeforeScan = func(session.Ref) error { return errNoRead }
	_ = storetest.List(t, st, nil)
	require.Empty(t, h.puts)
	d.BeforeScan = nil
	_, err := s.AfterTurn(t.Context())
	require.NoError(t, err)
	require.Len(t, h.puts, 1)
	require.Equal(t, 3, h.puts[0].Messages)
	storetest.Close(t, st)
}

// A list, and Close of a store, wait once for a locked index, not once for each
// of its sessions. The rows of other agents are put.
func TestLockedIndexIsWaitedForOnce(t *testing.T) {
	mem, locked, puts := memdriver.New(nil), "", map[string]int{}
	put := func(ref session.Ref) error {
		puts[ref.Agent]++
		if ref.Agent == locked {
			return driver.ErrBusy
		}
		return nil
	}
	st := session.OpenDriver(&storetest.Between{Driver: mem, BeforePut: put}, nil)
	sessions := map[string][]*session.Session{}
	for i := range 8 {
		for _, agent := range []string{"locked", "free"} {
			s := storetest.Load(t, st, session.Key{Agent: agent, Channel: "cli", Peer: fmt.Sprint(i)})
			storetest.Add(t, s, transcript.UserText("hello"))
			sessions[agent] = append(sessions[agent], s)
		}
	}
	locked, puts = "locked", map[string]int{}
	infos := storetest.List(t, st, nil)
	require.Len(t, infos, 16)
	require.Equal(t, map[string]int{"locked": 1, "free": 8}, puts, "of List")
	puts = map[string]int{}
	storetest.Close(t, st)
	require.Equal(t, map[string]int{"locked": 1}, puts, "of Close")

	st = session.OpenDriver(memdriver.Reopen(mem), nil) // the next list makes the rows again
	defer storetest.Close(t, st)
	for _, s := range sessions["locked"] {
		again := mustGet(t, st, s.Ref())
		require.Equal(t, 1, storetest.Info(t, again).Messages)
	}
}

// The order of a list is exact to some seconds however many processes append in turn: each
// puts a row if the one in the index is old.
func TestRowsOfProcessesInTurn(t *testing.T) {
	now := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	mem := memdriver.New(nil)
	open := func() *session.Store {
		return session.OpenDriver(memdriver.Reopen(mem), &session.Options{Now: func() time.Time { return now }})
	}
	h := &held{Driver: memdriver.Reopen(mem)}
	reader := session.OpenDriver(h, nil)
	var ref session.Ref
	for range 5 {
		st := open()
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("q"))
		ref = s.Ref()
		row, err := h.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Less(t, now.Sub(row.UpdatedAt), 5*time.Second)
		defer storetest.Close(t, st)
		now = now.Add(4 * time.Second)
	}
	storetest.Close(t, reader)
}
