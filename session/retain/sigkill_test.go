//go:build unix

package retain_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/retain"
)

func init() { storetest.Register("trasher", trasherChild) }

// trasherChild puts all sessions into the trash, restores them, puts them back and empties
// the trash. It announces the beginning and the end.
func trasherChild(args []string, _ io.Reader, stdout io.Writer) error {
	st, err := session.Open(args[0], nil)
	if err != nil {
		return err
	}
	infos, err := st.List(storetest.Background, nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "begin")
	for _, change := range []func(session.Ref) error{
		func(ref session.Ref) error { return retain.Trash(storetest.Background, st, ref) },
		func(ref session.Ref) error { return retain.Restore(storetest.Background, st, ref) },
		func(ref session.Ref) error { return st.SetState(storetest.Background, ref, session.Archived, -1) },
		func(ref session.Ref) error { return retain.Trash(storetest.Background, st, ref) },
	} {
		for _, info := range infos {
			if err := change(info.Ref); err != nil {
				return err
			}
		}
	}
	plan, err := retain.Preview(storetest.Background, st, retain.Policy{Now: after(31)})
	if err == nil {
		_, err = retain.Apply(storetest.Background, st, plan)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "done")
	select {}
}

// Wherever a process is killed while it moves sessions into the trash, out of it or
// deletes them there, each session is in one place: live, archived, in the trash, or
// deleted with a line in the ledger. A session that is there is whole.
func TestTrashSIGKILL(t *testing.T) {
	t.Parallel()
	kills := storetest.Extent(*storetest.Faults, 6, 60, 1000)
	base := storetest.Scratch(t)
	from := filepath.Join(base, "planted")
	st := storetest.Open(t, from, nil)
	var refs []session.Ref
	for range 3 {
		refs = append(refs, answered(t, st, session.Key{Agent: "main"}, nil).Ref())
	}
	storetest.Close(t, st)
	longest, whole := 200*time.Millisecond, 0
	places := map[string]int{}
	for range kills {
		dir := filepath.Join(base, "store")
		require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
		cmd := storetest.Child(t, "trasher", dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		said := bufio.NewScanner(out)
		require.True(t, said.Scan())
		began := time.Now()
		done := make(chan bool, 1)
		go func() { done <- said.Scan() }()
		select {
		case <-done:
			longest = time.Since(began) * 5 / 4
			whole++
		case <-time.After(rand.N(longest)):
		}
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())

		st := storetest.Open(t, dir, nil)
		in := map[string][]string{}
		for _, state := range []session.State{session.Live, session.Archived, session.Trashed} {
			in[string(state)] = ids(t, st, state)
		}
		removed, err := retain.Removals(t.Context(), st)
		require.NoError(t, err)
		for _, r := range removed {
			in["deleted"] = append(in["deleted"], r.ID)
		}
		for _, ref := range refs {
			var found []string
			for place, all := range in {
				if slices.Contains(all, ref.ID) {
					found = append(found, place)
				}
			}
			require.Len(t, found, 1, ref.ID)
			places[found[0]]++
			s, err := st.Get(t.Context(), ref)
			if found[0] == "deleted" {
				require.Nil(t, s)
				require.ErrorIs(t, err, fs.ErrNotExist)
				continue
			}
			require.Equal(t, found[0] == "trashed", errors.Is(err, fs.ErrNotExist))
			require.Equal(t, 2, storetest.Info(t, s).Messages)
			require.NoError(t, retain.Restore(t.Context(), st, ref))
			storetest.CheckSound(t, st, ref)
		}
		storetest.Close(t, st)
		require.NoError(t, os.RemoveAll(dir))
	}
	t.Logf("%d kills, %d behind the end: %v", kills, whole, places)
}
