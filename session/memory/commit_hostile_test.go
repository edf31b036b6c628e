package memory_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// saidIn returns the files below a folder that contain a word.
func saidIn(t *testing.T, dir, word string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var data []byte
			if data, err = os.ReadFile(name); bytes.Contains(data, []byte(word)) {
				names = append(names, name)
			}
		}
		return err
	}))
	return names
}

// An erase leaves no trace of a word, and does not change any counts.
func TestCommitPropertyErase(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storetest.Extent(*storetest.Soak, 6, 200, 3_000)) {
		r := rand.New(rand.NewPCG(seed, 17))
		dir := storetest.Scratch(t)
		opts := &session.Options{Sync: session.SyncNever} // overviews quote messages
		st := storetest.Open(t, dir, opts)
		k := &talker{t: t, r: r, s: storetest.Load(t, st, storetest.CLI)}
		for range 3 {
			for range 10 {
				k.step()
			}
			n := 1 + r.IntN(k.n+1) // the last word comes later, if at all
			word := fmt.Sprintf("w%d.", n)
			before := stats(t, k.s)
			plan, err := erase.Preview(storetest.Background, st, erase.Erasure{Match: func(e transcript.Entry) bool { return bytes.Contains(e.Line(), []byte(word)) }})
			require.NoError(t, err)
			_, err = erase.Run(storetest.Background, st, plan)
			require.NoError(t, err, k.log)
			k.log = append(k.log, "erase "+word)
			storetest.Close(t, st)
			require.Empty(t, saidIn(t, dir, word), "%d: %s %v", seed, word, k.log)
			st = storetest.Open(t, dir, opts)
			k.s, err = st.Get(storetest.Background, k.s.Ref())
			require.NoError(t, err)
			after := stats(t, k.s)
			before.Tokens, after.Tokens = 0, 0
			require.Equal(t, before, after, "%d: %v", seed, k.log)
			if n <= k.n {
				k.base = append(k.base, word)
			}
			k.check()
		}
		storetest.Close(t, st)
	}
}

// A retry of an append that a kill cut is in one chapter, even after a commit in
// between.
func TestCommitCutAndRetried(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, vikingly())
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("one"), storetest.Answer("first"))
	before := storetest.Info(t, s).Size
	batch := []transcript.Item{storetest.Answer("second", "c1"), transcript.ToolResult("c1", "found"), storetest.Answer("third")}
	_, err := s.AppendIf(storetest.Background, session.Cond{Idem: "key"}, batch...)
	require.NoError(t, err)
	ref := s.Ref()
	storetest.Close(t, st)
	name := filepath.Join(dir, "agents", ref.Agent, "sessions", ref.ID+".jsonl")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	cut := int(before) + bytes.IndexByte(data[before:], '\n') + 1
	require.NoError(t, os.Truncate(name, int64(cut)))
	st = storetest.Open(t, dir, vikingly())
	defer storetest.Close(t, st)
	s, err = st.Get(storetest.Background, ref)
	require.NoError(t, err)
	require.True(t, commit(t, s, &memory.CommitOptions{KeepHistory: true}).Chapter != "")
	_, err = s.AppendIf(storetest.Background, session.Cond{Idem: "key"}, batch...)
	require.NoError(t, err)
	commit(t, s, &memory.CommitOptions{KeepHistory: true})
	var all strings.Builder
	for _, a := range chaptersOf(t, s) {
		all.WriteString(strings.Join(inChapter(t, s, a.Name), "|") + "\n")
	}
	require.Equal(t, 1, strings.Count(all.String(), "second"), all.String())
	require.Equal(t, 1, strings.Count(all.String(), "third"), all.String())
}

// A commit line with another owner teaches nothing about that owner: memories from a
// session belong to its owner.
func TestCommitOfAnotherOwner(t *testing.T) {
	t.Parallel()
	each(t, vikingly(), func(t *testing.T, st *session.Store) {
		ada, err := st.Scope("ada")
		require.NoError(t, err)
		s := storetest.Load(t, ada, storetest.CLI)
		ids := storetest.Add(t, s, transcript.UserText("remember that bert is a thief"), storetest.Answer("yes"))
		forged := storetest.Add(t, s, transcript.Commit{N: 1, FirstEntry: ids[0], LastEntry: ids[1], Owner: "bert"})[0]
		m, err := memory.Open(memory.Folder(t.TempDir()), &memory.Options{Extractor: told{}})
		require.NoError(t, err)
		_, err = m.Extract(t.Context(), s, forged)
		require.NoError(t, err)
		for owner, want := range map[string]int{"ada": 1, "bert": 0} {
			n := 0
			for _, err := range m.List(t.Context(), memory.Scope{Agent: "main", Owner: owner}) {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, want, n, owner)
		}
	})
}

// told is an extractor that finds one memory.
type told struct{}

func (told) Extract(context.Context, memory.Input) ([]memory.Candidate, error) {
	return []memory.Candidate{{Category: "events", Topic: "theft", Text: memory.Text{Abstract: "Bert is a thief"}}}, nil
}
