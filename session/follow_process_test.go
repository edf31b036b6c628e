//go:build linux

package session_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func init() {
	storetest.Register("follower", followerChild)
	storetest.Register("chatter", chatterChild)
}

// heard describes the entries that a follower got before it reported them.
type heard struct {
	N   int    `json:"n"`
	Sum string `json:"sum"` // over the IDs in order
}

const endOfTalk = "end"

// listen follows a session to the end of the talk and calls told, and then to the
// end of the session. Now and then it begins anew after the last entry.
func listen(ctx context.Context, s *session.Session, rnd *rand.Rand, total int, told func(heard)) error {
	sum, n, last := sha256.New(), 0, ""
	for {
		left := total/8 + rnd.IntN(total)
		for e, err := range s.Follow(ctx, last) {
			if err != nil {
				return err
			}
			n, last = n+1, e.ID
			hear(sum, e)
			if c, ok := e.Body.(transcript.Custom); ok && c.Name == endOfTalk {
				told(heard{n, fmt.Sprintf("%x", sum.Sum(nil))})
			}
			if left--; left < 0 {
				break
			}
		}
	}
}

func hear(sum hash.Hash, e transcript.Entry) { fmt.Fprintln(sum, e.ID) }

// followerChild has followers listen, half of them to a read-only store. It reports
// when all have loaded the session. Each keeps its history from then.
func followerChild(args []string, _ io.Reader, stdout io.Writer) error {
	var n, total int
	if _, err := fmt.Sscan(args[1], &n, &total); err != nil {
		return err
	}
	var mu sync.Mutex
	out := json.NewEncoder(stdout)
	stores, sessions := make([]*session.Store, n), make([]*session.Session, n)
	for i := range n {
		st, err := session.Open(args[0], &session.Options{ReadOnly: i%2 == 1})
		if err != nil {
			return err
		}
		stores[i] = st
		if sessions[i], err = lookup(st); err != nil {
			return err
		}
	}
	if err := out.Encode(heard{}); err != nil {
		return err
	}
	var all sync.WaitGroup
	errs := make([]error, n)
	for i, st := range stores {
		s := sessions[i]
		all.Go(func() {
			errs[i] = listen(storetest.Background, s, rand.New(rand.NewPCG(uint64(i), 7)), total, func(h heard) {
				mu.Lock()
				defer mu.Unlock()
				_ = out.Encode(h) // if it fails, the parent misses it
			})
			if errors.Is(errs[i], fs.ErrNotExist) {
				errs[i] = st.Close()
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// persist repeats do while it fails because the transcript was replaced.
func persist(do func() error) error {
	for {
		if err := do(); !errors.Is(err, session.ErrReplaced) || errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
}

func lookup(st *session.Store) (s *session.Session, err error) {
	err = persist(func() error { s, err = storetest.Current(storetest.Background, st, storetest.CLI); return err })
	return s, err
}

// chatterChild appends as often as requested, and then waits to be killed.
func chatterChild(args []string, stdin io.Reader, _ io.Writer) error {
	most, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	st, err := session.Open(args[0], &session.Options{Sync: session.SyncNever})
	if err != nil {
		return err
	}
	s, err := lookup(st)
	if err != nil {
		return err
	}
	for n := range most {
		items := []transcript.Item{transcript.UserText(args[1] + " " + strconv.Itoa(n))}
		for range n % 3 {
			items = append(items, storetest.Answer("an answer "+strings.Repeat("to that ", n%7), "call"))
		}
		if err := persist(func() error { _, err := s.Append(storetest.Background, items...); return err }); err != nil {
			return err
		}
	}
	_, err = io.Copy(io.Discard, stdin) // ends with the parent
	return err
}

// talkOf returns what a follower should get, and the number of cut batches.
func talkOf(t *testing.T, s *session.Session) (want heard, cut int) {
	t.Helper()
	sum := sha256.New()
	for b, err := range transcript.Batches(s.Scan(t.Context(), session.ScanOptions{})) {
		require.NoError(t, err)
		if !b.Complete {
			cut++
			continue
		}
		for _, e := range b.Entries {
			want.N++
			hear(sum, e)
		}
	}
	want.Sum = fmt.Sprintf("%x", sum.Sum(nil))
	return want, cut
}

// Followers in several processes get every entry once and in order, whatever
// happens to writers, followers and the file.
func TestFollowProcesses(t *testing.T) {
	t.Parallel()
	const processes, writers = 4, 8
	each := storetest.Extent(*storetest.Faults, 2, 16, 16)
	total := storetest.Extent(*storetest.Faults, 800, 100_000, 300_000)
	dir := t.TempDir()
	st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	path := filepath.Join(dir, "agents/main/sessions", s.Ref().ID+".jsonl")

	var listeners []*exec.Cmd
	var outs []*bufio.Scanner
	for range processes {
		cmd := storetest.Child(t, "follower", dir, fmt.Sprint(each, " ", total))
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		listeners, outs = append(listeners, cmd), append(outs, bufio.NewScanner(out))
	}
	for _, out := range outs {
		require.True(t, out.Scan(), "a process has no session")
	}
	talkers := make([]*exec.Cmd, writers)
	talk := func(i int) {
		talkers[i] = storetest.Child(t, "chatter", dir, strconv.Itoa(i), strconv.Itoa(total/writers/2))
		_, err := talkers[i].StdinPipe()
		require.NoError(t, err)
		require.NoError(t, talkers[i].Start())
	}
	kill := func(i int) {
		require.NoError(t, talkers[i].Process.Kill())
		_ = talkers[i].Wait() // says that it was killed
		require.False(t, talkers[i].ProcessState.Exited(), "a writer ended by itself")
	}
	for i := range writers {
		talk(i)
	}
	stopped := listeners[0].Process
	do := func(what func(ctx context.Context) error) {
		require.NoError(t, persist(func() error { return what(t.Context()) }))
	}
	step := total / 24
	n, kills, first := 0, 0, ""
	for e, err := range s.Follow(t.Context(), s.Ref().ID) {
		require.NoError(t, err)
		if n++; n >= total {
			break
		}
		if n%step != 0 {
			continue
		}
		switch round := n / step; {
		case round == 2:
			require.NoError(t, stopped.Signal(syscall.SIGSTOP))
		case round == 20:
			require.NoError(t, stopped.Signal(syscall.SIGCONT))
		case round%5 == 0:
			c := transcript.Compaction{Summary: "so far", FirstKept: e.ID, CoversTo: e.ID, TurnsBefore: 1}
			do(func(ctx context.Context) error { _, err := s.Append(ctx, c); return err })
			first = e.ID
		case round%5 == 1 && first != "":
			do(func(ctx context.Context) error { return s.Rewind(ctx, first) })
		case round == 8 || round == 14: // a sync has failed somewhere
			require.NoError(t, os.Chmod(path, 0o600|fs.ModeSticky))
			do(s.Recover)
		default:
			kill(n % writers)
			talk(n % writers)
			kills++
		}
	}
	for i := range writers {
		kill(i)
	}
	do(func(ctx context.Context) error {
		_, err := s.Append(ctx, transcript.Custom{Name: endOfTalk})
		return err
	})

	want, cut := talkOf(t, s)
	for _, out := range outs {
		for range each {
			var got heard
			require.True(t, out.Scan(), "a follower ended")
			require.NoError(t, json.Unmarshal(out.Bytes(), &got))
			require.Equal(t, want, got)
		}
	}
	require.NoError(t, st.Delete(t.Context(), s.Ref()))
	for i, cmd := range listeners {
		require.False(t, outs[i].Scan())
		require.NoError(t, cmd.Wait())
	}
	t.Logf("%d followers, %d entries, %d kills, %d cut batches", processes*each, want.N, kills+writers, cut)
}
