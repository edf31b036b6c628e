package session_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A SIGKILL in any phase of a turn: the next start has everything that was
// acknowledged, and the next request is valid. The agent waits for the kill in
// every phase but "large append", in which the kill is repeated until it comes
// before the append is acknowledged.
func TestKill(t *testing.T) {
	t.Parallel()
	kills := storetest.Extent(*storetest.Faults, 2, 12, 60)
	for i, phase := range []string{"model call", "tool call", "append begun", "append written", "large append"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(1, uint64(i)))
			var dir string
			var acked []storetest.Report
			tries, hits := 0, 0
			most := storetest.Extent(*storetest.Faults, 4, 1_000, 1_000)
			for ; hits < kills && tries < most; tries++ {
				if tries%10 == 0 { // or reading back takes longer and longer
					dir, acked = t.TempDir(), nil
				}
				events, hit := killAgent(t, dir, phase, 1+rnd.IntN(6))
				acked = append(acked, events...)
				if hit {
					hits++
				}
				acked = append(acked, survived(t, dir, acked, fmt.Sprint("after kill ", tries)))
			}
			t.Logf("%d of %d kills", hits, tries)
		})
	}
}

// survived opens the store after a kill, checks it, appends a text and returns
// its acknowledgement. A second restart changes nothing.
func survived(t *testing.T, dir string, acked []storetest.Report, next string) storetest.Report {
	t.Helper()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	checkAcked(t, s, acked)
	ids := storetest.Add(t, s, transcript.UserText(next))
	storetest.CheckRequest(t, s)
	before := storetest.History(t, s)
	storetest.Close(t, st)
	st = storetest.Open(t, dir, nil)
	require.Equal(t, before, storetest.History(t, storetest.Load(t, st, storetest.CLI)), "a second restart changed the history")
	storetest.Close(t, st)
	return storetest.Report{Did: "appended", Text: next, IDs: ids}
}

// killAgent starts an agent and kills it when it has come to a phase for the
// n-th time. It returns the acknowledged appends, and whether none followed the
// announcement of the phase.
func killAgent(t *testing.T, dir, phase string, n int) (acked []storetest.Report, hit bool) {
	t.Helper()
	cmd := storetest.Child(t, "agent", dir, phase, fmt.Sprint(n))
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }() // Wait may have closed it
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	killed := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e storetest.Report
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the kill cut it
		}
		if e.IDs != nil {
			acked = append(acked, e)
			hit = false
		}
		if e.Here {
			killed, hit = true, true
			require.NoError(t, cmd.Process.Kill())
		}
	}
	require.Error(t, cmd.Wait())
	require.True(t, killed, "the agent ended by itself")
	return acked, hit
}

// checkAcked checks that every acknowledged append is in the session, once and
// in order, and that a question without an answer is pending.
func checkAcked(t *testing.T, s *session.Session, acked []storetest.Report) {
	t.Helper()
	at := map[string]int{}
	n := 0
	var texts []string
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		at[e.ID] = n
		n++
	}
	last := 0
	for _, a := range acked {
		for _, id := range a.IDs {
			i, ok := at[id]
			if !ok || i <= last {
				t.Fatalf("entry %s of %q was acknowledged and is not there, or not in order", id, a.Text)
			}
			last = i
		}
	}
	h, err := s.History(t.Context())
	require.NoError(t, err)
	for _, m := range h.Messages {
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				texts = append(texts, b.Text)
			case transcript.ToolResultBlock:
				texts = append(texts, b.Text())
			}
		}
	}
	for _, a := range acked {
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, a.Text) }) {
			t.Fatalf("%.100q was acknowledged and is not in the history", a.Text)
		}
	}
}
