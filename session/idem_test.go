package session_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// After a restart, keys are honoured over the entries that the last compaction keeps, and the
// 64 keys before them, however often the session was compacted. A new key makes the first
// append read no line that the resume did not need.
func TestKeysAfterRestart(t *testing.T) {
	for _, test := range []struct {
		name      string
		kept      bool // whether the compaction keeps the key
		later     int  // keyed appends after it, before the compactions
		compacted int  // compactions
		since     int  // keyed appends after them
		honoured  bool // older ones may also be honoured
	}{
		{name: "not compacted", later: 200, honoured: true},
		{name: "kept by the compaction", kept: true, later: 200, compacted: 1, honoured: true},
		{name: "summarised and recent", later: 63, compacted: 1, honoured: true},
		{name: "summarised twice", later: 63, compacted: 2, honoured: true},
		{name: "summarised and much since", later: 63, compacted: 1, since: 200, honoured: true},
		{name: "summarised and old", later: 64, compacted: 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			st := storetest.Open(t, dir, storetest.Unsynced)
			s := storetest.Load(t, st, storetest.CLI)
			notes := make([]transcript.Item, 1000)
			for i := range notes {
				notes[i] = transcript.Custom{Name: "note", Data: fmt.Append(nil, i)}
			}
			for range 2 {
				storetest.Add(t, s, notes...)
			}
			keyed := []transcript.Item{transcript.UserText("q"), storetest.Answer("a")}
			first, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, keyed...)
			require.NoError(t, err)
			more := func(n int) {
				for range n {
					_, err := s.AppendIf(t.Context(), session.Cond{Idem: rand.Text()}, transcript.Custom{Name: "later"})
					require.NoError(t, err)
				}
			}
			more(test.later)
			for range test.compacted {
				kept := first.IDs[0]
				if !test.kept {
					kept = storetest.Add(t, s, transcript.UserText("kept"))[0]
				}
				_, err := s.Update(t.Context(), "test", func(v *session.View) ([]transcript.Item, error) {
					covers := ""
					for _, m := range v.Fold().History().Messages {
						if m.Origins[0].Entry == kept {
							break
						}
						covers = m.Origins[len(m.Origins)-1].Entry
					}
					return []transcript.Item{transcript.Compaction{Summary: "s", FirstKept: kept, CoversTo: covers}}, nil
				})
				require.NoError(t, err)
			}
			more(test.since)
			storetest.Close(t, st)

			st = storetest.Open(t, dir, storetest.Unsynced)
			defer storetest.Close(t, st)
			s = storetest.Load(t, st, storetest.CLI)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = s.AppendIf(t.Context(), session.Cond{Idem: "new"}, transcript.UserText("new"))
			require.NoError(t, err)
			runtime.ReadMemStats(&after)
			if !storetest.Brief && test.compacted > 0 {
				require.Less(t, after.Mallocs-before.Mallocs, uint64(20_000), "allocations of the first append with a key")
			}
			again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, keyed...)
			require.NoError(t, err)
			if test.honoured {
				require.True(t, again.Repeated)
				require.Equal(t, first.IDs, again.IDs)
			}
			_, err = s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("another text"))
			require.ErrorIs(t, err, session.ErrIdemMismatch)
		})
	}
}

// A key is honoured however long its batch is and however much follows it, even by
// other processes and after a restart.
func TestKeyOfALongBatch(t *testing.T) {
	dir := t.TempDir()
	st, other := storetest.Open(t, dir, storetest.Unsynced), storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, other)
	s, theirs := storetest.Load(t, st, storetest.CLI), storetest.Load(t, other, storetest.CLI)
	batch := make([]transcript.Item, 3000)
	for i := range batch {
		batch[i] = transcript.Custom{Name: "note"}
	}
	first, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, batch...)
	require.NoError(t, err)
	want := session.Appended{IDs: first.IDs, Repeated: true}
	storetest.Add(t, theirs, batch...)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	for _, s := range []*session.Session{theirs, storetest.Load(t, st, storetest.CLI)} {
		again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, batch...)
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
}

// A place in memory does not prove that a batch is there: lines that became NULs after a
// failed sync are appended again. A letter that has changed is damage, which readers
// report, and the batch is there.
func TestRepeatedReadsAgain(t *testing.T) {
	for _, damage := range []string{"NULs", "letter"} {
		dir := t.TempDir()
		st := storetest.Open(t, dir, nil)
		defer storetest.Close(t, st)
		s := storetest.Load(t, st, storetest.CLI)
		info := storetest.Info(t, s)
		items := []transcript.Item{transcript.UserText("question"), storetest.Answer("answer")}
		first, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
		require.NoError(t, err)
		path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		if lines := data[info.End:]; damage == "NULs" {
			clear(lines[:len(lines)-1])
		} else {
			copy(lines[bytes.Index(lines, []byte("question")):], "Q")
		}
		require.NoError(t, os.WriteFile(path, data, 0o600))

		again, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
		require.NoError(t, err)
		if require.Equal(t, damage == "letter", again.Repeated, damage); again.Repeated {
			require.Equal(t, first.IDs, again.IDs)
		}
		require.Equal(t, 2, storetest.Info(t, s).Messages)
		last, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
		require.NoError(t, err)
		require.Equal(t, session.Appended{IDs: again.IDs, Repeated: true}, last)
	}
}

// A key belongs to the content that was appended under it: one letter, another
// kind of entry or another tool's result changes it.
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

// A caller that gives up during the search for a repeated append gets no report
// that its entries were rewound.
func TestRepeatedAppendOfACancelledCaller(t *testing.T) {
	mem := memdriver.New(nil)
	first := session.OpenDriver(memdriver.Reopen(mem), nil)
	defer storetest.Close(t, first)
	done, err := storetest.Load(t, first, storetest.CLI).AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("q"))
	require.NoError(t, err)
	d := &storetest.Between{Driver: mem}
	st := session.OpenDriver(d, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx, cancel := context.WithCancel(t.Context())
	d.AfterAppend = func(session.Ref) error { cancel(); return nil }
	again, err := s.AppendIf(ctx, session.Cond{Idem: "key"}, transcript.UserText("q"))
	require.NoError(t, err)
	require.Equal(t, session.Appended{IDs: done.IDs, Repeated: true}, again)
}

// A rewind by another process can bring a batch back that no compaction kept and that
// lies far back: its key is honoured again, even by a process that has not read the
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

// A repeated append gives the entries that are in the file, even if another
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

// The key in the header of a fork is looked up while other keys push it out of the last
// ones. It is honoured all the time.
func TestHeldKeyWhileOthersCome(t *testing.T) {
	t.Parallel()
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	at := storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("a"))[1]
	first, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("x"), storetest.Answer("y"))
	require.NoError(t, err)
	storetest.Add(t, s, transcript.Rewind{To: at})
	end := storetest.Add(t, s, transcript.UserText("on"), storetest.Answer("end"))[1]
	f := storetest.Fork(t, s, end, nil)
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for n := range 300 {
				if _, err := f.AppendIf(t.Context(), session.Cond{Idem: fmt.Sprint(w, n)}, transcript.UserText("other")); err != nil {
					t.Error(err)
				}
				storetest.History(t, f)
			}
		})
	}
	for range 20 {
		again, err := f.AppendIf(t.Context(), session.Cond{Idem: "key"}, transcript.UserText("x"), storetest.Answer("y"))
		require.NoError(t, err)
		require.Equal(t, session.Appended{IDs: first.IDs[:1], Repeated: true}, again)
	}
	wg.Wait()
}

// A key that a compaction holds is honoured, even if a line of its batch was damaged
// since.
func TestHeldKeyOfADamagedBatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, storetest.Unsynced)
	s := storetest.Load(t, st, storetest.CLI)
	items := []transcript.Item{transcript.UserText("q"), storetest.Answer("flipped")}
	first, err := s.AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
	require.NoError(t, err)
	kept := storetest.Add(t, s, transcript.UserText("kept"))[0]
	require.NoError(t, storetest.ErrOf(s.Update(t.Context(), "test", func(*session.View) ([]transcript.Item, error) {
		return []transcript.Item{transcript.Compaction{Summary: "s", FirstKept: kept, CoversTo: first.IDs[1]}}, nil
	})))
	storetest.Close(t, st)
	path := filepath.Join(dir, "agents", "main", "sessions", s.Ref().ID+".jsonl")
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	i := bytes.LastIndexByte(data[:bytes.Index(data, []byte("flipped"))], '\n') + 1
	data[i] = 'x'
	require.NoError(t, os.WriteFile(path, data, 0o600))

	st = storetest.Open(t, dir, storetest.Unsynced)
	defer storetest.Close(t, st)
	again, err := storetest.Load(t, st, storetest.CLI).AppendIf(t.Context(), session.Cond{Idem: "key"}, items...)
	require.NoError(t, err)
	require.Equal(t, session.Appended{IDs: first.IDs[:1], Repeated: true}, again)
}
