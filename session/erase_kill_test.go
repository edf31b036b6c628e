//go:build linux && (amd64 || arm64)

package session_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// An erase that was cut at any call on the disk, by a kill or by the power, is
// finished by the next Open, if it had begun; if not, nothing has changed.
func TestEraseKilled(t *testing.T) {
	t.Parallel()
	which := extent(*faults, sample{6, 1 << 20, 41}, sample{4, 1 << 20, 4}, sample{1, 256, 1})
	erase := workload{"erase", func(w *worker) error {
		if err := w.start(); err != nil {
			return err
		}
		var refs []session.Ref
		err := w.step("plant", func(context.Context) error {
			s := plant(t, w.store, cli)
			end, err := s.Head(bg)
			if err != nil {
				return err
			}
			fork, err := s.Fork(bg, end, nil)
			if err != nil {
				return err
			}
			refs = append(refs, s.Ref(), fork.Ref())
			other := load(t, w.store, session.Key{Agent: "main", Channel: "cli", Peer: "other"})
			add(t, other, transcript.UserText("Hello."))
			return nil
		})
		if err != nil {
			return err
		}
		return w.step("erase", func(context.Context) error {
			plan, err := w.store.PlanErase(bg, session.Erasure{Match: has})
			if err == nil {
				_, err = w.store.Erase(bg, plan)
			}
			return err
		})
	}}
	for _, policy := range []session.SyncPolicy{session.SyncAlways, session.SyncNever} {
		t.Run(policy.String(), func(t *testing.T) {
			t.Parallel()
			base := scratch(t)
			moments := observe(t, erase, policy, mutant{})
			seen, tried, finished := 0, 0, 0
			crashes(moments, policy == session.SyncNever, which, false, func(c crash) {
				if seen++; !strings.HasSuffix(c.in, "erase") || t.Failed() || policy == session.SyncAlways && seen%which.n != 0 {
					return
				}
				dir := filepath.Join(base, "store")
				require.NoError(t, os.Mkdir(dir, 0o700))
				require.NoError(t, c.img.write(dir))
				notes, err := filepath.Glob(filepath.Join(dir, "erase-*.jsonl"))
				require.NoError(t, err)
				st := open(t, dir, nil)
				infos, err := st.List(bg, nil)
				require.NoError(t, err)
				require.Len(t, infos, 3)
				left := filesWith(t, dir)
				tried++
				switch {
				case len(notes) > 0 || c.in == "after erase":
					finished++
					require.Empty(t, left, "%s, with the notes %q", c.in, notes)
				case len(left) > 0: // not begun
					plan, err := st.PlanErase(bg, session.Erasure{Match: has})
					require.NoError(t, err)
					require.Len(t, plan.Entries, 2)
				}
				for _, info := range infos {
					sound(t, st, info.Ref)
				}
				closed(t, st)
				notes, err = filepath.Glob(filepath.Join(dir, "erase-*"))
				require.NoError(t, err)
				require.Empty(t, notes)
				require.NoError(t, os.RemoveAll(dir))
			})
			t.Logf("%d states, %d with an erase to finish or finished", tried, finished)
			require.Positive(t, finished)
		})
	}
}
