//go:build linux && (amd64 || arm64)

package session_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// cutAfter runs work in a folder, and calls check with every state of it that a power
// cut may leave after that, or from the moment on at which work calls from.
func cutAfter(t *testing.T, work func(dir string, from func()), check func(dir string)) {
	t.Helper()
	s := &spy{dir: scratch(t)}
	first := -1
	spied(t, s.run(func() {
		work(s.dir, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			first = len(s.calls)
		})
	}))
	if first < 0 {
		first = len(s.calls)
	}
	base, done := scratch(t), map[uint64]bool{}
	try := func(img image) {
		img = img.rebooted()
		sum := img.sum()
		if done[sum] || t.Failed() {
			return
		}
		done[sum] = true
		dir := filepath.Join(base, "store")
		require.NoError(t, os.Mkdir(dir, 0o700))
		require.NoError(t, img.write(dir))
		check(dir)
		require.NoError(t, os.RemoveAll(dir))
	}
	d := newDisk()
	for i, c := range s.calls {
		if i >= first {
			d.states(false, 1<<20, try)
		}
		d.apply(c)
	}
	d.states(false, 1<<20, try)
	require.NotEmpty(t, done)
	t.Logf("%d states", len(done))
}

// said makes a session with two texts, of which the first has the word.
func said(t *testing.T, dir string, policy session.SyncPolicy) (st *session.Store, s *session.Session, ids []string) {
	st = open(t, dir, &session.Options{Sync: policy})
	s = load(t, st, cli)
	return st, s, add(t, s, transcript.UserText("A "+word+"."), transcript.AssistantText("Yes."))
}

// stands checks that a store has a session with an entry.
func stands(t *testing.T, dir, id string) {
	t.Helper()
	st := open(t, dir, nil)
	infos, err := st.List(t.Context(), &session.ListOptions{State: session.AnyState})
	require.NoError(t, err)
	require.Len(t, infos, 1)
	s, err := st.Get(t.Context(), infos[0].Ref)
	require.NoError(t, err)
	var has []string
	for _, e := range entries(t, s) {
		has = append(has, e.ID)
	}
	require.Contains(t, has, id)
	closed(t, st)
}

// A process that was killed while it restored a session has given the transcript its
// name and not synced the folder. That comes before the archive beside it is removed.
func TestCutAfterAKilledRestore(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, st *session.Store, s *session.Session, ids []string){
		"restore": func(t *testing.T, st *session.Store, s *session.Session, _ []string) {
			require.NoError(t, st.Restore(t.Context(), s.Ref()))
		},
		"erase": func(t *testing.T, st *session.Store, s *session.Session, ids []string) {
			erased(t, st, chosen(s, ids[0]))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ids []string
			cutAfter(t, func(dir string, from func()) {
				var st *session.Store
				var s *session.Session
				st, s, ids = said(t, dir, session.SyncAlways)
				path := filepath.Join(dir, "agents/main/sessions", s.ID()+".jsonl")
				lines, err := os.ReadFile(path)
				require.NoError(t, err)
				require.NoError(t, st.Archive(t.Context(), s.Ref()))
				closed(t, st)

				f, err := os.Create(path + ".tmp-0123456789abcdef")
				require.NoError(t, err)
				_, err = f.Write(lines)
				require.NoError(t, err)
				require.NoError(t, f.Sync())
				require.NoError(t, f.Close())
				require.NoError(t, os.Rename(f.Name(), path))
				later := time.Now().Add(time.Hour) // others have written to the index since
				require.NoError(t, os.Chtimes(filepath.Join(dir, "agents/main/sessions.jsonl"), later, later))
				from()
				st = open(t, dir, nil)
				do(t, st, s, ids)
				closed(t, st)
			}, func(dir string) { stands(t, dir, ids[1]) })
		})
	}
}

// No power cut after an erase brings back words of an archive that was restored before.
func TestCutAfterAnEraseOfARestored(t *testing.T) {
	t.Parallel()
	cutAfter(t, func(dir string, _ func()) {
		st, s, ids := said(t, dir, session.SyncAlways)
		require.NoError(t, st.Archive(t.Context(), s.Ref()))
		require.NoError(t, st.Restore(t.Context(), s.Ref()))
		erased(t, st, chosen(s, ids[0]))
		closed(t, st)
	}, func(dir string) { require.Empty(t, filesWith(t, dir)) })
}

// An archive is on stable storage with the folders it is in, whatever the policy.
func TestCutAfterAnArchive(t *testing.T) {
	t.Parallel()
	var ids []string
	cutAfter(t, func(dir string, _ func()) {
		var st *session.Store
		var s *session.Session
		st, s, ids = said(t, dir, session.SyncNever)
		require.NoError(t, st.Archive(t.Context(), s.Ref()))
		closed(t, st)
	}, func(dir string) { stands(t, dir, ids[0]) })
}

// So is a session that was restored.
func TestCutAfterARestore(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	st, s, ids := said(t, dir, session.SyncNever)
	require.NoError(t, st.Archive(t.Context(), s.Ref()))
	closed(t, st)
	left, err := readImage(dir)
	require.NoError(t, err)
	cutAfter(t, func(dir string, _ func()) {
		require.NoError(t, left.write(dir))
		st := open(t, dir, &session.Options{Sync: session.SyncNever})
		require.NoError(t, st.Restore(t.Context(), s.Ref()))
		closed(t, st)
	}, func(dir string) { stands(t, dir, ids[0]) })
}

// A process that was killed has made folders and not synced the ones they are in. That
// is made up for before a session in them is promised.
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
					require.NoError(t, st.Archive(t.Context(), s.Ref()))
				}
				closed(t, st)
			}, func(dir string) { stands(t, dir, ids[0]) })
		})
	}
}
