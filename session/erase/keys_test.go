package erase_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// The receipt of a person's erase lists the keys that remain in the fork of another owner:
// nothing else of the person is left in the folder.
func TestEraseKeysOfForks(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	const word = storetest.Word
	alice, err := st.Scope("alice")
	require.NoError(t, err)
	s := storetest.Load(t, alice, session.Key{Agent: "main", Channel: "t", Peer: word})
	done, err := s.AppendIf(t.Context(), session.Cond{Idem: "key-" + word}, transcript.UserText("A "+word+"."))
	require.NoError(t, err)
	unscoped, err := st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	fork, err := unscoped.Fork(t.Context(), done.IDs[0], &session.CreateOptions{Owner: "bob"})
	require.NoError(t, err)
	storetest.Add(t, fork, transcript.UserText("Bob's own."))
	plan, receipt := carryOut(t, st, erase.Erasure{Owner: "alice"})
	want := []transcript.Place{
		{Kind: "key", Agent: "main", Session: fork.Ref().ID},
		{Kind: "idempotency key", Agent: "main", Session: fork.Ref().ID, Entry: done.IDs[0]},
	}
	require.Equal(t, want, plan.Kept)
	require.Equal(t, want, receipt.Kept)
	left := storetest.FilesWith(t, dir)
	slices.Sort(left)
	require.Len(t, left, 2, "the fork and its row in the index: %v", left)
	require.Equal(t, fork.Ref().ID+".jsonl", filepath.Base(left[1]))
	require.Equal(t, 2, strings.Count(strings.Join(storetest.Lines(t, fork), "\n"), word), "the two keys")
	require.Contains(t, strings.Join(receipt.Beyond, "\n"), "snapshots of the file system")

	carryOut(t, st, erase.Erasure{Sessions: []session.Ref{fork.Ref()}})
	require.Empty(t, storetest.FilesWith(t, dir))
}

// The receipt also lists the keys that the header of such a fork holds for batches that were
// not copied, and the key of a fork that has copied nothing.
func TestEraseKeysOfForksWithoutLines(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "alice"})
	require.NoError(t, err)
	done, err := s.AppendIf(t.Context(), session.Cond{Idem: "key-" + storetest.Word}, transcript.UserText("A "+storetest.Word+"."))
	require.NoError(t, err)
	bob := &session.CreateOptions{Owner: "bob"}
	first, err := s.Fork(t.Context(), s.Ref().ID, bob)
	require.NoError(t, err)
	summed(t, s)
	entries := storetest.EntryIDs(t, s)
	late, err := s.Fork(t.Context(), entries[len(entries)-1], bob)
	require.NoError(t, err)
	plan, receipt := carryOut(t, st, erase.Erasure{Owner: "alice"})
	want := []transcript.Place{
		{Kind: "key", Agent: "main", Session: late.Ref().ID},
		{Kind: "key", Agent: "main", Session: first.Ref().ID},
		{Kind: "idempotency key", Agent: "main", Session: late.Ref().ID, Entry: done.IDs[0]},
	}
	require.Equal(t, want, plan.Kept)
	require.Equal(t, want, receipt.Kept)
	require.Contains(t, strings.Join(storetest.Lines(t, late), ""), "key-"+storetest.Word)
}

// The receipt names no key of a fork that was deleted because it was in the trash.
func TestKeyOfAForkInTheTrash(t *testing.T) {
	t.Parallel()
	for _, trashed := range []bool{false, true} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s, err := st.Create(t.Context(), storetest.CLI, &session.CreateOptions{Owner: "alice"})
		require.NoError(t, err)
		ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
		fork, err := s.Fork(t.Context(), ids[0], &session.CreateOptions{Owner: "bob"})
		require.NoError(t, err)
		storetest.Add(t, fork, transcript.UserText("Of bob."))
		if trashed {
			require.NoError(t, st.SetState(t.Context(), fork.Ref(), session.Trashed, -1))
		}
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Owner: "alice"})
		require.NoError(t, err)
		require.Len(t, plan.Kept, map[bool]int{false: 1}[trashed])
		receipt, err := erase.Run(t.Context(), st, plan)
		require.NoError(t, err)
		require.Len(t, receipt.Kept, map[bool]int{false: 1}[trashed])
		_, err = st.Get(t.Context(), fork.Ref())
		require.Equal(t, trashed, errors.Is(err, fs.ErrNotExist), err)
		storetest.Close(t, st)
	}
}
