package session_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// After a restart keys are looked for backwards over what the last compaction
// keeps and at least 1,024 entries. A new key does not make the first append
// read the lines before.
func TestKeysAfterRestart(t *testing.T) {
	for _, test := range []struct {
		name          string
		before, after int  // entries in front of the key and behind it
		kept          bool // whether a compaction behind it keeps the key
		compacted     int  // entries behind the compaction
		rewound       bool // whether a rewind goes back to the compaction
		honoured      bool // older keys may be honoured too
	}{
		{name: "kept by the compaction", before: 5_000, after: 3000, kept: true, honoured: true},
		{name: "summarised and recent", before: 5_000, after: 1000, honoured: true},
		{name: "summarised and old", before: 5_000, after: 3000, compacted: 2000},
		{name: "summarised, old and rewound", before: 5_000, after: 3000, compacted: 2000, rewound: true},
		{name: "behind the compaction", before: 100, kept: true, compacted: 3000, honoured: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			st := storetest.Open(t, dir, storetest.Unsynced)
			s := storetest.Load(t, st, storetest.CLI)
			notes := func(n int) (last string) {
				items := make([]transcript.Item, n)
				for i := range items {
					items[i] = transcript.Custom{Name: "note", Data: fmt.Append(nil, i)}
				}
				if n > 0 {
					ids := storetest.Add(t, s, items...)
					last = ids[n-1]
				}
				return last
			}
			for range test.before / 1000 {
				notes(1000)
			}
			keyed := []transcript.Item{transcript.UserText("q"), storetest.Answer("a")}
			first, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, keyed...)
			require.NoError(t, err)
			for range test.after / 1000 {
				notes(1000)
			}
			kept := first.IDs[0]
			if !test.kept {
				kept = storetest.Add(t, s, transcript.UserText("kept"))[0]
			}
			compaction := storetest.Add(t, s, transcript.Compaction{Summary: "s", FirstKept: kept, CoversTo: kept, TurnsBefore: 1})[0]
			notes(test.compacted)
			if test.rewound {
				storetest.Add(t, s, transcript.Rewind{To: compaction})
			}
			storetest.Close(t, st)

			st = storetest.Open(t, dir, storetest.Unsynced)
			defer storetest.Close(t, st)
			s = storetest.Load(t, st, storetest.CLI)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = s.AppendIf(t.Context(), session.Cond{Idem: "new"}, transcript.UserText("new"))
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			if !storetest.Brief {
				require.Less(t, after.Mallocs-before.Mallocs, uint64(45_000), "allocations of the first append with a key")
			}
			again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, keyed...)
			require.NoError(t, err)
			if test.honoured {
				require.True(t, again.Repeated)
				require.Equal(t, first.IDs, again.IDs)
			}
		})
	}
}

// A key belongs to what was said under it: a letter more or less, another kind of
// entry or another tool's result is other content.
func TestKeyOfOtherContent(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), storetest.Unsynced)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	first, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("question"))
	require.NoError(t, err)
	for _, other := range []transcript.Item{
		transcript.UserText("questions"),
		transcript.AssistantText("question"),
		transcript.ToolResult("c", "question"),
	} {
		_, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, other)
		require.ErrorIs(t, err, session.ErrIdemMismatch)
	}
	again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("question"))
	require.NoError(t, err)
	require.Equal(t, session.Appended{IDs: first.IDs, Repeated: true}, again)
}

// cancelling is a driver that cancels the context of the caller when an append
// has ended.
type cancelling struct {
	driver.Driver
	cancel context.CancelFunc
}

func (d *cancelling) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, cond driver.Cond) (driver.Result, error) {
	res, err := d.Driver.Append(ctx, ref, lines, cond)
	d.cancel()
	return res, err
}

// A caller that gives up while a repeated append is looked for is not told that
// its entries were rewound.
func TestRepeatedAppendOfACancelledCaller(t *testing.T) {
	mem := memdriver.New(nil)
	first := session.OpenDriver(memdriver.Reopen(mem), nil)
	defer storetest.Close(t, first)
	done, err := storetest.Load(t, first, storetest.CLI).AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("q"))
	require.NoError(t, err)
	d := &cancelling{Driver: mem}
	st := session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx, cancel := context.WithCancel(t.Context())
	d.cancel = cancel
	again, err := s.AppendIf(ctx, session.Cond{Idem: "key"}, transcript.UserText("q"))
	require.NoError(t, err)
	require.Equal(t, session.Appended{IDs: done.IDs, Repeated: true}, again)
}

// A rewind by another process can bring a batch back that no compaction kept and that
// lies far behind: its key is honoured again, also by a process that has not read the
// rewind, or reads it for what the append needs.
func TestKeyBroughtBackByAnotherProcess(t *testing.T) {
	for _, made := range []bool{false, true} {
		dir := t.TempDir()
		st := storetest.Open(t, dir, storetest.Unsynced)
		s := storetest.Load(t, st, storetest.CLI)
		asked := storetest.Add(t, s, transcript.UserText("q"))[0]
		a := storetest.Answer("a")
		if made {
			a.Made.After = asked
		}
		first, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, a)
		require.NoError(t, err)
		back := storetest.Add(t, s, transcript.UserText("kept"))[0]
		storetest.Add(t, s, transcript.Compaction{Summary: "s", FirstKept: back, CoversTo: back, TurnsBefore: 1})
		notes := make([]transcript.Item, 1500)
		for i := range notes {
			notes[i] = transcript.Custom{Name: "note"}
		}
		storetest.Add(t, s, notes...)
		storetest.Close(t, st)

		st = storetest.Open(t, dir, storetest.Unsynced)
		defer storetest.Close(t, st)
		s = storetest.Load(t, st, storetest.CLI)
		_, err = s.AppendIf(t.Context(), session.Cond{Idem: "other"}, transcript.UserText("the keys have been read"))
		require.NoError(t, err)
		other := storetest.Open(t, dir, storetest.Unsynced)
		defer storetest.Close(t, other)
		storetest.Add(t, storetest.Load(t, other, storetest.CLI), transcript.Rewind{To: back})

		again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, a)
		require.NoError(t, err)
		require.Equal(t, session.Appended{IDs: first.IDs, Repeated: true}, again)
	}
}

// A repeated append gives the entries that are in the file, also if another
// store wrote them.
func TestRepeatedByAnotherStore(t *testing.T) {
	dir := t.TempDir()
	a, b := storetest.Open(t, dir, nil), storetest.Open(t, dir, nil)
	defer storetest.Close(t, a)
	defer storetest.Close(t, b)
	s, other := storetest.Load(t, a, storetest.CLI), storetest.Load(t, b, storetest.CLI)
	first, err := s.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("x"), storetest.Answer("y"))
	require.NoError(t, err)
	again, err := other.AppendIf(t.Context(), session.Cond{Idem: "k"}, transcript.UserText("x"), storetest.Answer("y"))
	if err != nil || !again.Repeated || strings.Join(again.IDs, " ") != strings.Join(first.IDs, " ") {
		t.Errorf("again = %+v, %v, want the IDs %v", again, err, first.IDs)
	}
	require.NoError(t, other.Rewind(t.Context(), again.IDs[0]))
	require.Equal(t, storetest.History(t, other), storetest.History(t, s))
	head, err := storetest.Head(t.Context(), s)
	require.NoError(t, err)
	_, err = other.AppendIf(t.Context(), session.Cond{Head: head}, transcript.UserText("on the head"))
	require.NoError(t, err)
}
