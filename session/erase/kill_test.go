//go:build linux && (amd64 || arm64)

package erase_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
)

// An erase that was cut at any call on the disk, by a kill or by the power, is
// finished by Resume, if it had begun; if not, nothing has changed.
func TestEraseKilled(t *testing.T) {
	t.Parallel()
	which := storetest.Extent(*storetest.Faults, storetest.Sample{Moment: 6, Stride: 1 << 20, N: 41}, storetest.Sample{Moment: 4, Stride: 1 << 20, N: 4}, storetest.Sample{Moment: 1, Stride: 256, N: 1})
	work := storetest.Workload{Name: "erase", Run: func(w *storetest.Worker) error {
		if err := w.Start(); err != nil {
			return err
		}
		var refs []session.Ref
		err := w.Step("plant", func(context.Context) error {
			s := plant(t, w.Store, storetest.CLI)
			end, err := storetest.Head(storetest.Background, s)
			if err != nil {
				return err
			}
			fork, err := s.Fork(storetest.Background, end, nil)
			if err != nil {
				return err
			}
			refs = append(refs, s.Ref(), fork.Ref())
			other := storetest.Load(t, w.Store, session.Key{Agent: "main", Channel: "cli", Peer: "other"})
			storetest.Add(t, other, transcript.UserText("Hello."))
			return nil
		})
		if err != nil {
			return err
		}
		return w.Step("erase", func(context.Context) error {
			plan, err := erase.Preview(storetest.Background, w.Store, erase.Erasure{Match: storetest.HasWord})
			if err == nil {
				_, err = erase.Run(storetest.Background, w.Store, plan)
			}
			return err
		})
	}}
	for _, policy := range []session.SyncPolicy{session.SyncAlways, session.SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			base := storetest.Scratch(t)
			moments := storetest.Observe(t, work, policy, storetest.Mutant{})
			seen, tried, finished := 0, 0, 0
			storetest.Crashes(moments, policy == session.SyncNever, which, false, func(c storetest.Crash) {
				if seen++; !strings.HasSuffix(c.In, "erase") || t.Failed() || policy == session.SyncAlways && seen%which.N != 0 {
					return
				}
				dir := filepath.Join(base, "store")
				require.NoError(t, os.Mkdir(dir, 0o700))
				require.NoError(t, c.Image.Write(dir))
				begun := hasPlan(t, dir)
				st := storetest.Open(t, dir, nil)
				require.NoError(t, erase.Resume(storetest.Background, st))
				infos, err := st.List(storetest.Background, nil)
				require.NoError(t, err)
				require.Len(t, infos, 3)
				left := storetest.FilesWith(t, dir)
				tried++
				switch {
				case begun || c.In == "after erase":
					finished++
					require.Empty(t, left, "%s, with a plan: %v", c.In, begun)
				case len(left) > 0: // not begun
					plan, err := erase.Preview(storetest.Background, st, erase.Erasure{Match: storetest.HasWord})
					require.NoError(t, err)
					require.Len(t, plan.Entries, 2)
				}
				for _, info := range infos {
					storetest.CheckSound(t, st, info.Ref)
				}
				storetest.Close(t, st)
				require.Empty(t, plans(t, dir))
				require.NoError(t, os.RemoveAll(dir))
			})
			t.Logf("%d states, %d with an erase to finish or finished", tried, finished)
			require.Positive(t, finished)
		})
	}
}
