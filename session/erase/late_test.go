package erase_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"testing"

	"github.com/convolog/convolog/session/retain"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// An erase that could not look for forks, or not erase one that it has found, deletes
// no session: the same plan finds the forks again.
func TestEraseAgainFindsForks(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"look", "fork"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			dir := storetest.Scratch(t)
			b, st := storetest.OpenBetween(t, dir)
			defer storetest.Close(t, st)
			s := storetest.Load(t, st, storetest.CLI)
			ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
			plan, err := erase.Preview(t.Context(), st, erase.Erasure{Sessions: []session.Ref{s.Ref()}})
			require.NoError(t, err)
			_, err = s.Fork(t.Context(), ids[1], nil)
			require.NoError(t, err)
			broken := errors.New("the disk is broken")
			fails := func(session.Ref) error { return broken }
			if where == "look" {
				b.BeforeScan = fails
			} else {
				b.BeforeRewrite = fails
			}
			_, err = erase.Run(t.Context(), st, plan)
			require.ErrorIs(t, err, broken)
			b.BeforeScan, b.BeforeRewrite = nil, nil
			_, err = erase.Run(t.Context(), st, plan)
			require.NoError(t, err)
			require.Empty(t, storetest.FilesWith(t, dir))
			_, err = st.Get(t.Context(), s.Ref())
			require.ErrorIs(t, err, fs.ErrNotExist)
		})
	}
}

// A session that an erase only looks at may be deleted meanwhile.
func TestEraseBesideDelete(t *testing.T) {
	t.Parallel()
	for _, during := range []string{"plan", "erase"} {
		dir := storetest.Scratch(t)
		b, st := storetest.OpenBetween(t, dir)
		s, beside := storetest.Load(t, st, storetest.CLI), storetest.Load(t, st, session.Key{Agent: "main", Channel: "cli", Peer: "beside"})
		storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."))
		storetest.Add(t, beside, transcript.UserText("Nothing."))
		remove := storetest.Once(func() { require.NoError(t, b.Driver.Delete(t.Context(), driver.Anywhere, beside.Ref())) })
		removes := func(ref session.Ref) error {
			if ref != beside.Ref() {
				return nil
			}
			return remove(ref)
		}
		if during == "plan" {
			b.BeforeScan = removes
		}
		plan, err := erase.Preview(t.Context(), st, erase.Erasure{Match: storetest.HasWord})
		require.NoError(t, err, during)
		b.BeforeScan = removes
		_, err = erase.Run(t.Context(), st, plan)
		require.NoError(t, err, during)
		require.Empty(t, storetest.FilesWith(t, dir))
		_, err = st.Get(t.Context(), beside.Ref())
		require.ErrorIs(t, err, fs.ErrNotExist)
		storetest.Close(t, st)
	}
}

// A fork that was archived since the plan is archived again when the erase is finished
// later. Until then every Open warns.
func TestEraseResumesForks(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	b, st := storetest.OpenBetween(t, dir)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Sessions: []session.Ref{s.Ref()}})
	require.NoError(t, err)
	fork, err := s.Fork(t.Context(), ids[1], nil)
	require.NoError(t, err)
	require.NoError(t, retain.Archive(t.Context(), st, fork.Ref()))
	broken := errors.New("the disk is broken")
	b.BeforeRewrite = func(ref session.Ref) error {
		row, err := b.Get(t.Context(), ref)
		if err == nil && row.Archived {
			return nil // it is restored
		}
		return broken
	}
	_, err = erase.Run(t.Context(), st, plan)
	require.ErrorIs(t, err, broken)
	storetest.Close(t, st)
	var log strings.Builder
	st = storetest.Open(t, dir, &session.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	defer storetest.Close(t, st)
	require.Contains(t, log.String(), "an erase is unfinished")
	require.NoError(t, erase.Resume(t.Context(), st))
	require.Empty(t, plans(t, dir))
	require.Empty(t, storetest.FilesWith(t, dir))
	fork, err = st.Get(t.Context(), fork.Ref())
	require.NoError(t, err)
	require.Equal(t, session.Archived, storetest.Info(t, fork).State)
}
