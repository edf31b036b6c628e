package retain_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/convolog/convolog/session/retain"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func init() { storetest.Register("pruner", prunerChild) }

// prunerChild deletes, archives and restores the sessions of a key but for the
// newest, until its input ends. It announces each that it has deleted, with the
// number of messages that it had seen, and the end of each round.
func prunerChild(args []string, stdin io.Reader, stdout io.Writer) error {
	later := func() time.Time { return time.Now().Add(2 * time.Hour) } // no session is too young
	st, err := session.Open(args[0], &session.Options{Sync: session.SyncNever, Now: later})
	if err != nil {
		return err
	}
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		ended.Store(true)
	}()
	out := json.NewEncoder(stdout)
	rnd := rand.New(rand.NewPCG(1, 1))
	for !ended.Load() {
		r := retain.Policy{PerKey: 1, Force: true, Delete: rnd.IntN(3) == 0, Now: later}
		r.Keep = func(session.Info) bool { return rnd.IntN(2) == 0 }
		plan, err := retain.Preview(storetest.Background, st, r)
		if err != nil {
			return err
		}
		report, err := retain.Apply(storetest.Background, st, plan)
		if err != nil {
			return err
		}
		messages := map[session.Ref]int{}
		for _, item := range plan.Items {
			messages[item.Ref] = item.Messages
		}
		for _, item := range report.Items {
			if r.Delete && item.Outcome == "done" {
				if err := out.Encode(storetest.Report{Did: fmt.Sprint(messages[item.Ref]), Text: item.ID}); err != nil {
					return err
				}
			}
		}
		if err := out.Encode(storetest.Report{Did: "round"}); err != nil {
			return err
		}
		archived, err := st.List(storetest.Background, &session.ListOptions{State: session.Archived})
		if err != nil {
			return err
		}
		for _, info := range archived {
			if rnd.IntN(3) == 0 {
				if err := st.SetState(storetest.Background, info.Ref, session.Live, -1); err != nil {
					return err
				}
			}
		}
	}
	return st.Close()
}

// One process prunes a key, another one writes to all of its sessions: nothing
// that was acknowledged is lost. It is in its session, archived or not, or was
// known to the plan by which the session was deleted.
func TestPruneBesideAppends(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	st := storetest.Open(t, dir, &session.Options{Sync: session.SyncNever})
	first := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, first, transcript.UserText("the first"))
	cmd := storetest.Child(t, "pruner", dir)
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	deleted := map[string]int{} // by ID: the messages that were known
	var deletions atomic.Int32
	rounds := make(chan struct{}, 1<<20) // a token for each writer after each round
	const writers = 3
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(rounds)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e storetest.Report
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				continue
			}
			if e.Did == "round" {
				for range writers {
					rounds <- struct{}{}
				}
				continue
			}
			var n int
			_, _ = fmt.Sscan(e.Did, &n)
			deleted[e.Text] = n
			deletions.Add(1)
		}
	})

	gone := func(err error) bool {
		return errors.Is(err, session.ErrArchived) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, session.ErrReplaced)
	}
	var mu sync.Mutex // guards the fields below
	sessions := []*session.Session{first}
	acked := map[string][]string{}
	var writing sync.WaitGroup
	each, fewest := storetest.Extent(*storetest.Faults, 30, 500, 5000), storetest.Extent[int32](*storetest.Faults, 3, 30, 300)
	for w := range writers {
		writing.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 2))
			for n, tries := 0, 0; n < each || deletions.Load() < fewest && !t.Failed(); tries++ {
				if tries >= each { // the input of one round is bounded, however slow it is
					if _, ok := <-rounds; !ok {
						return
					}
					tries = 0
				}
				if rnd.IntN(10) == 0 {
					s, err := st.Create(t.Context(), storetest.CLI, nil)
					if gone(err) { // pruned before it was there whole
						continue
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					sessions = append(sessions, s)
					mu.Unlock()
				}
				mu.Lock()
				s := sessions[max(0, len(sessions)-1-rnd.IntN(5))]
				mu.Unlock()
				ids, err := s.Append(t.Context(), transcript.UserText(fmt.Sprint(w, " says ", n)))
				if err != nil && !gone(err) {
					t.Error(err)
					return
				}
				mu.Lock()
				acked[s.Ref().ID] = append(acked[s.Ref().ID], ids...)
				mu.Unlock()
				n += len(ids)
			}
		})
	}
	writing.Wait()
	require.NoError(t, in.Close())
	reading.Wait()
	require.NoError(t, cmd.Wait())

	kept, archived := 0, 0
	for id, want := range acked {
		s, err := st.Get(t.Context(), session.Ref{Agent: "main", ID: id})
		if errors.Is(err, fs.ErrNotExist) {
			require.GreaterOrEqual(t, deleted[id], len(want), "session %s had more messages than the plan knew of", id)
			continue
		}
		require.NoError(t, err)
		kept++
		info, err := s.Info(t.Context())
		if errors.Is(err, session.ErrReplaced) { // once, of a session that was restored
			info, err = s.Info(t.Context())
		}
		require.NoError(t, err)
		if info.State == session.Archived {
			archived++
		}
		there := map[string]int{}
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			there[e.ID]++
		}
		for _, one := range want {
			require.Equal(t, 1, there[one], "entry %s of session %s", one, id)
		}
	}
	t.Logf("%d sessions: %d deleted, %d archived", len(acked), len(acked)-kept, archived)
	storetest.Close(t, st)
}
