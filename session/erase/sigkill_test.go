//go:build unix

package erase_test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
)

func init() { storetest.Register("eraser", eraserChild) }

// eraserChild erases the word, and says when it begins and when it is done.
func eraserChild(args []string, _ io.Reader, stdout io.Writer) error {
	st, err := session.Open(args[0], nil)
	if err != nil {
		return err
	}
	plan, err := erase.Preview(storetest.Background, st, erase.Erasure{Match: storetest.HasWord})
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "begin")
	if _, err = erase.Run(storetest.Background, st, plan); err != nil {
		return err
	}
	fmt.Fprintln(stdout, "done")
	select {}
}

// An erase that is killed at some moment is finished by Resume once it has
// begun, and every session loads. How long the kill waits decides which moment it
// is, and nothing else.
func TestEraseSIGKILL(t *testing.T) {
	t.Parallel()
	kills := storetest.Extent(*storetest.Faults, 6, 60, 1000)
	base := storetest.Scratch(t)
	from := filepath.Join(base, "planted")
	st := storetest.Open(t, from, nil)
	s := plant(t, st, storetest.CLI)
	end, err := storetest.Head(t.Context(), s)
	require.NoError(t, err)
	old, err := s.Fork(t.Context(), end, nil)
	require.NoError(t, err)
	require.NoError(t, st.SetState(t.Context(), old.Ref(), session.Archived, -1))
	storetest.Close(t, st)
	longest, begun, whole := 200*time.Millisecond, 0, 0
	for range kills {
		dir := filepath.Join(base, "store")
		require.NoError(t, os.CopyFS(dir, os.DirFS(from)))
		cmd := storetest.Child(t, "eraser", dir)
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

		resumes := hasPlan(t, dir)
		st := storetest.Open(t, dir, nil)
		require.NoError(t, erase.Resume(t.Context(), st))
		infos, err := st.List(t.Context(), &session.ListOptions{State: session.AnyState})
		require.NoError(t, err)
		require.Len(t, infos, 2)
		if left := storetest.FilesWith(t, dir); resumes {
			begun++
			require.Empty(t, left)
		}
		for _, info := range infos {
			require.NoError(t, st.SetState(t.Context(), info.Ref, session.Live, -1))
			storetest.CheckSound(t, st, info.Ref)
		}
		storetest.Close(t, st)
		require.NoError(t, os.RemoveAll(dir))
	}
	t.Logf("%d kills: %d in the middle, %d behind the end", kills, begun, whole)
}
