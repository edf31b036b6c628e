//go:build linux && (amd64 || arm64)

package soak_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// cutAfter runs work in a folder, and calls check with the states that a power cut may leave
// after it, or at any moment after work has called from. Of more than forty states these
// are a sample, unless -faults=gate asks for all.
func cutAfter(t *testing.T, work func(dir string, from func()), check func(dir string)) {
	t.Helper()
	s := &storetest.Spy{Dir: storetest.Scratch(t)}
	first := -1
	storetest.Spied(t, s.Run(func() {
		work(s.Dir, func() {
			first = len(s.Made())
		})
	}))
	if first < 0 {
		first = len(s.Made())
	}
	base, done := storetest.Scratch(t), map[uint64]bool{}
	step := storetest.Extent(*storetest.Faults, 97, 1, 1)
	try := func(img storetest.Image) {
		img = img.Rebooted()
		sum := img.Sum()
		if done[sum] || t.Failed() {
			return
		}
		done[sum] = true
		if len(done) > 40 && len(done)%step > 0 {
			return
		}
		dir := filepath.Join(base, "store")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, img.Write(dir))
		check(dir)
		require.NoError(t, os.RemoveAll(dir))
	}
	d := storetest.NewDisk()
	for i, c := range s.Made() {
		if i >= first {
			d.States(false, 1<<20, try)
		}
		d.Apply(c)
	}
	d.States(false, 1<<20, try)
	require.NotEmpty(t, done)
	t.Logf("%d states", len(done))
}

// said makes a session with two texts, of which the first contains the word.
func said(t *testing.T, dir string, policy session.SyncPolicy) (st *session.Store, s *session.Session, ids []string) {
	st = storetest.Open(t, dir, &session.Options{Sync: policy})
	s = storetest.Load(t, st, storetest.CLI)
	return st, s, storetest.Add(t, s, transcript.UserText("A "+storetest.Word+"."), transcript.AssistantText("Yes."))
}

// eraseEntry erases one entry.
func eraseEntry(t *testing.T, st *session.Store, s *session.Session, id string) {
	t.Helper()
	plan, err := erase.Preview(t.Context(), st, erase.Erasure{Entries: []erase.Selection{{Session: s.Ref(), Entries: []string{id}}}})
	require.NoError(t, err)
	require.NoError(t, storetest.ErrOf(erase.Run(t.Context(), st, plan)))
}

// stands checks that a store contains a session with an entry.
func stands(t *testing.T, dir, id string) {
	t.Helper()
	st := storetest.Open(t, dir, nil)
	infos := storetest.List(t, st, &session.ListOptions{State: session.AnyState})
	require.Len(t, infos, 1)
	s, err := st.Get(t.Context(), infos[0].Ref)
	require.NoError(t, err)
	var has []string
	for _, e := range storetest.Entries(t, s) {
		has = append(has, e.ID)
	}
	require.Contains(t, has, id)
	storetest.Close(t, st)
}

// A process that was killed while it restored a session has renamed the transcript
// and not synced the folder. The archive is removed only after that.
func TestCutAfterAKilledRestore(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, st *session.Store, s *session.Session, ids []string){
		"restore": func(t *testing.T, st *session.Store, s *session.Session, _ []string) {
			require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Live, -1))
		},
		"erase": func(t *testing.T, st *session.Store, s *session.Session, ids []string) {
			eraseEntry(t, st, s, ids[0])
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ids []string
			cutAfter(t, func(dir string, from func()) {
				var st *session.Store
				var s *session.Session
				st, s, ids = said(t, dir, session.SyncAlways)
				path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")
				lines, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
				storetest.Close(t, st)

				f, err := os.Create(path + ".tmp-0123456789abcdef")
				require.NoError(t, err)
				_, err = f.Write(lines)
				require.NoError(t, err)
				require.NoError(t, f.Sync())
				require.NoError(t, f.Close())
				require.NoError(t, os.Rename(f.Name(), path))
				from()
				st = storetest.Open(t, dir, nil)
				do(t, st, s, ids)
				storetest.Close(t, st)
			}, func(dir string) { stands(t, dir, ids[1]) })
		})
	}
}

// No power cut after an erase brings back words of an archive that was restored before.
func TestCutAfterAnEraseOfARestored(t *testing.T) {
	t.Parallel()
	cutAfter(t, func(dir string, _ func()) {
		st, s, ids := said(t, dir, session.SyncAlways)
		require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
		require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Live, -1))
		eraseEntry(t, st, s, ids[0])
		storetest.Close(t, st)
	}, func(dir string) { require.Empty(t, storetest.FilesWith(t, dir)) })
}

// An archive is on stable storage with the folders it is in, whatever the policy.
func TestCutAfterAnArchive(t *testing.T) {
	t.Parallel()
	var ids []string
	cutAfter(t, func(dir string, _ func()) {
		var st *session.Store
		var s *session.Session
		st, s, ids = said(t, dir, session.SyncNever)
		require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
		storetest.Close(t, st)
	}, func(dir string) { stands(t, dir, ids[0]) })
}

// So is a session that was restored.
func TestCutAfterARestore(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st, s, ids := said(t, dir, session.SyncNever)
	require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
	storetest.Close(t, st)
	left, err := storetest.ReadImage(dir)
	require.NoError(t, err)
	cutAfter(t, func(dir string, _ func()) {
		require.NoError(t, left.Write(dir))
		st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
		require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Live, -1))
		storetest.Close(t, st)
	}, func(dir string) { stands(t, dir, ids[0]) })
}

// A killed process has made folders and not synced their parents. They are synced
// before a session in them is promised.
func TestCutAfterFoldersOfAKilled(t *testing.T) {
	t.Parallel()
	for _, left := range []string{"agents", "agents/main", "agents/main/sessions", "agents/main/archive"} {
		t.Run(left, func(t *testing.T) {
			t.Parallel()
			var ids []string
			cutAfter(t, func(dir string, _ func()) {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, left), 0o700))
				var st *session.Store
				var s *session.Session
				st, s, ids = said(t, dir, session.SyncAlways)
				if left == "agents/main/archive" {
					require.NoError(t, st.SetState(t.Context(), s.Ref(), session.Archived, -1))
				}
				storetest.Close(t, st)
			}, func(dir string) { stands(t, dir, ids[0]) })
		})
	}
}
