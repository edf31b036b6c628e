//go:build linux && (amd64 || arm64)

package session_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
)

// A commit that was cut at any call on the disk, by a kill or by the power, and is
// made again gives the same archives.
func TestCommitKilled(t *testing.T) {
	t.Parallel()
	which := extent(*faults, sample{4, 1 << 20, 101}, sample{2, 256, 5}, sample{1, 64, 1})
	want := [][]string{{"w1.", "w2."}, {"w3.", "w4."}, {"w5.", "w6."}}
	options := []*session.CommitOptions{nil, {KeepHistory: true}, nil}
	commits := workload{"commit", func(w *worker) error {
		s, err := w.begun()
		n := 0
		for i, opts := range options {
			if err == nil {
				n += 2
				err = w.add(s, text(fmt.Sprintf("w%d.", n-1)), answer(fmt.Sprintf("w%d.", n)))
			}
			last := w.ids
			if err == nil && i == 1 {
				err = w.add(s, text("gone"), answer("gone"))
			}
			if err == nil && i == 1 {
				err = w.step("rewind", func(context.Context) error { return s.Rewind(bg, last[1]) })
			}
			if err == nil {
				err = w.step(fmt.Sprint("commit ", i), func(context.Context) error {
					_, err := s.Commit(bg, opts)
					return err
				})
			}
			if err == nil {
				err = w.step("use", func(context.Context) error { return s.Use(bg, []string{"u"}, nil) })
			}
		}
		return err
	}}
	for _, policy := range []session.SyncPolicy{session.SyncAlways, session.SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			base := scratch(t)
			moments := observe(t, commits, policy, mutant{})
			seen, tried := 0, 0
			crashes(moments, policy == session.SyncNever, which, false, func(c crash) {
				i := slices.IndexFunc([]string{"commit 0", "commit 1", "commit 2"}, func(step string) bool { return strings.HasSuffix(c.in, step) })
				if seen++; i < 0 || t.Failed() || policy == session.SyncAlways && seen%which.n != 0 {
					return
				}
				tried++
				dir := filepath.Join(base, "store")
				require.NoError(t, os.Mkdir(dir, 0o700))
				require.NoError(t, c.img.write(dir))
				for range 2 { // the second time the store is opened once more
					st := open(t, dir, nil)
					s := load(t, st, crashKey)
					if found := filed(t, s); len(found) < i || c.in == fmt.Sprint("after commit ", i) {
						require.Equal(t, want[:i+1], found, c.in)
					}
					commit(t, s, options[i])
					require.Equal(t, want[:i+1], filed(t, s), c.in)
					require.Empty(t, live(t, s))
					require.Equal(t, i+1, s.Stats().Commits)
					require.Equal(t, i, s.Stats().Contexts)
					closed(t, st)
				}
				require.NoError(t, os.RemoveAll(dir))
			})
			t.Logf("%d states", tried)
			require.Positive(t, tried)
		})
	}
}
