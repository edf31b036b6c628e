package memory_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

func init() {
	storetest.Register("committer", committerChild)
	storetest.Register("chapter", chapterChild)
}

// committerChild appends and commits, and prints the words in the session.
func committerChild(args []string, _ io.Reader, stdout io.Writer) error {
	_, s, err := storetest.OpenSession(args[0])
	n, _ := strconv.Atoi(args[1])
	for i := 0; err == nil; i++ {
		n += 2
		_, err = s.Append(storetest.Background, transcript.UserText(fmt.Sprintf("w%d.", n-1)), storetest.Answer(fmt.Sprintf("w%d.", n)))
		if err == nil {
			fmt.Fprintln(stdout, n)
		}
		if err == nil && i%2 == 1 {
			_, err = memory.Commit(storetest.Background, s, &memory.CommitOptions{KeepHistory: i%4 == 1})
		}
		if err == nil {
			err = memory.RecordUse(storetest.Background, s, memory.Use{URI: "u"})
		}
	}
	return err
}

// A program that is killed at some moment while it commits loses no message,
// and puts none into two chapters.
func TestCommitSIGKILL(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(storetest.Scratch(t), "store")
	said := 0
	for range storetest.Extent(*storetest.Faults, 4, 100, 2_000) {
		cmd := storetest.Child(t, "committer", dir, strconv.Itoa(said+100))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines, first := bufio.NewScanner(out), said
		var acked []string
		after := rand.IntN(12)
		for lines.Scan() {
			said, err = strconv.Atoi(lines.Text())
			require.NoError(t, err)
			acked = append(acked, fmt.Sprintf("w%d.", said-1), fmt.Sprintf("w%d.", said))
			if len(acked) >= 2*after {
				time.Sleep(rand.N(3 * time.Millisecond))
				break
			}
		}
		require.NoError(t, cmd.Process.Kill())
		for lines.Scan() {
			said, _ = strconv.Atoi(lines.Text())
		}
		require.Error(t, cmd.Wait())
		require.Greater(t, said, first)

		st := storetest.Open(t, dir, nil)
		s := storetest.Load(t, st, storetest.CLI)
		before := slices.Concat(filed(t, s)...)
		h, err := memory.Uncommitted(storetest.Background, s)
		require.NoError(t, err)
		for _, w := range wordsOf(h) {
			require.NotContains(t, before, w)
		}
		commit(t, s, nil)
		all := slices.Concat(filed(t, s)...)
		for _, w := range acked {
			require.Contains(t, all, w)
		}
		slices.Sort(all)
		require.Equal(t, len(all), len(slices.Compact(all)))
		if open := live(t, s); len(open) > 0 { // the kill cut an append after its question
			require.Equal(t, []string{fmt.Sprintf("w%d.", said+1)}, open)
		}
		require.Equal(t, len(chaptersOf(t, s)), stats(t, s).Commits)
		storetest.Close(t, st)
		if len(all) > 80 { // each round reads each chapter
			require.NoError(t, os.RemoveAll(dir))
		}
	}
}

// chapterChild waits for a line, commits, and prints whether a chapter was closed.
func chapterChild(args []string, stdin io.Reader, stdout io.Writer) error {
	st, s, err := storetest.OpenSession(args[0])
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "ready")
	if _, err := bufio.NewReader(stdin).ReadString('\n'); err != nil {
		return err
	}
	done, err := memory.Commit(storetest.Background, s, &memory.CommitOptions{KeepHistory: args[1] == "keep"})
	if err == nil {
		fmt.Fprintln(stdout, done.Chapter != "", done.Reason)
	}
	return errors.Join(err, st.Close()) // a dead process would cause a copy
}

// Processes that commit at once make one chapter.
func TestCommitTwoProcesses(t *testing.T) {
	t.Parallel()
	for round := range storetest.Extent(*storetest.Faults, 2, 10, 100) {
		dir := filepath.Join(storetest.Scratch(t), "store")
		st := storetest.Open(t, dir, nil)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Talk(t, s, 0, 3)
		keep := []string{"keep", "compact"}[round%2]
		var outs []*bufio.Scanner
		var ins []io.Writer
		for range 2 {
			cmd := storetest.Child(t, "chapter", dir, keep)
			in, err := cmd.StdinPipe()
			require.NoError(t, err)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			defer func() { require.NoError(t, cmd.Wait()) }()
			lines := bufio.NewScanner(out)
			require.True(t, lines.Scan())
			outs, ins = append(outs, lines), append(ins, in)
		}
		for _, in := range ins {
			_, err := io.WriteString(in, "\n")
			require.NoError(t, err)
		}
		var said []string
		for _, lines := range outs {
			require.True(t, lines.Scan())
			said = append(said, strings.TrimSpace(lines.Text()))
		}
		slices.Sort(said)
		require.Equal(t, []string{"false no_messages", "true"}, said)
		require.Len(t, chaptersOf(t, s), 1)
		require.Empty(t, live(t, s))
		require.Equal(t, 1, stats(t, s).Commits)
		storetest.Close(t, st)
	}
}

// Each message that is appended during commits is in one chapter, or live.
func TestCommitBeside(t *testing.T) {
	t.Parallel()
	each(t, &session.Options{Sync: session.SyncNever, Compact: compact.Options{Summarizer: compact.SummarizerFunc(storetest.Says(storetest.ShortSummary))}}, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		var group, done sync.WaitGroup
		ctx, stop := context.WithCancel(t.Context())
		done.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, err := memory.Commit(storetest.Background, s, &memory.CommitOptions{KeepHistory: i%3 == 0})
				if err != nil {
					require.ErrorIs(t, err, session.ErrConflict)
				}
			}
		})
		turns := storetest.Extent(*storetest.Soak, 20, 200, 2_000)
		for g := range 8 {
			group.Go(func() {
				for i := range turns {
					n := g*turns + i
					require.NoError(t, storetest.ErrOf(s.Append(storetest.Background, transcript.UserText(fmt.Sprintf("w%da.", n)), storetest.Answer(fmt.Sprintf("w%db.", n)))))
				}
			})
		}
		group.Wait()
		stop()
		done.Wait()
		h, err := memory.Uncommitted(storetest.Background, s)
		require.NoError(t, err)
		all := append(wordsOf(h), slices.Concat(filed(t, s)...)...)
		slices.Sort(all)
		require.Len(t, slices.Compact(slices.Clone(all)), len(all), "twice")
		require.Len(t, all, 8*turns*2)
		commit(t, s, nil)
		require.Empty(t, live(t, s))
		inChapters := slices.Sorted(slices.Values(slices.Concat(filed(t, s)...)))
		require.Equal(t, all, inChapters)
	})
}
