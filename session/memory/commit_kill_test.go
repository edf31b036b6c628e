//go:build linux && (amd64 || arm64)

package memory_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// A commit that a kill or a power cut stops at any disk call, and that is made
// again, gives the same chapters.
func TestCommitKilled(t *testing.T) {
	t.Parallel()
	which := storetest.Extent(*storetest.Faults, storetest.Sample{Moment: 4, Stride: 1 << 20, N: 101}, storetest.Sample{Moment: 2, Stride: 256, N: 5}, storetest.Sample{Moment: 1, Stride: 64, N: 1})
	want := [][]string{{"w1.", "w2."}, {"w3.", "w4."}, {"w5.", "w6."}}
	options := []*memory.CommitOptions{nil, {KeepHistory: true}, nil}
	commits := storetest.Workload{Name: "commit", Run: func(w *storetest.Worker) error {
		s, err := w.Begun()
		n := 0
		for i, opts := range options {
			if err == nil {
				n += 2
				err = w.Add(s, transcript.UserText(fmt.Sprintf("w%d.", n-1)), storetest.Answer(fmt.Sprintf("w%d.", n)))
			}
			last := w.IDs
			if err == nil && i == 1 {
				err = w.Add(s, transcript.UserText("gone"), storetest.Answer("gone"))
			}
			if err == nil && i == 1 {
				err = w.Step("rewind", func(context.Context) error { return s.Rewind(storetest.Background, last[1]) })
			}
			if err == nil {
				err = w.Step(fmt.Sprint("commit ", i), func(context.Context) error {
					_, err := memory.Commit(storetest.Background, s, opts)
					return err
				})
			}
			if err == nil {
				err = w.Step("use", func(context.Context) error { return memory.RecordUse(storetest.Background, s, memory.Use{URI: "u"}) })
			}
		}
		return err
	}}
	for _, policy := range []session.SyncPolicy{session.SyncAlways, session.SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			base := storetest.Scratch(t)
			moments := storetest.Observe(t, commits, policy, storetest.Mutant{})
			seen, tried := 0, 0
			storetest.Crashes(moments, policy == session.SyncNever, which, false, func(c storetest.Crash) {
				i := slices.IndexFunc([]string{"commit 0", "commit 1", "commit 2"}, func(step string) bool { return strings.HasSuffix(c.In, step) })
				if seen++; i < 0 || t.Failed() || policy == session.SyncAlways && seen%which.N != 0 {
					return
				}
				tried++
				dir := filepath.Join(base, "store")
				require.NoError(t, os.Mkdir(dir, 0o700))
				require.NoError(t, c.Image.Write(dir))
				for range 2 { // the second time after another Open
					st := storetest.Open(t, dir, nil)
					s := storetest.Load(t, st, storetest.CLI)
					if found := filed(t, s); len(found) < i || c.In == fmt.Sprint("after commit ", i) {
						require.Equal(t, want[:i+1], found, c.In)
					}
					commit(t, s, options[i])
					require.Equal(t, want[:i+1], filed(t, s), c.In)
					require.Empty(t, live(t, s))
					require.Equal(t, i+1, stats(t, s).Commits)
					require.Equal(t, i, stats(t, s).Contexts)
					storetest.Close(t, st)
				}
				require.NoError(t, os.RemoveAll(dir))
			})
			t.Logf("%d states", tried)
			require.Positive(t, tried)
		})
	}
}
