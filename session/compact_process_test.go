package session_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

func init() { storetest.Register("paced", pacedChild) }

// pacedChild appends a message for each line that it reads.
func pacedChild(args []string, stdin io.Reader, _ io.Writer) error {
	st, err := session.Open(args[0], &session.Options{Sync: session.SyncNever})
	if err != nil {
		return err
	}
	key := session.Key{Agent: "main", Channel: "test", Peer: "peer0"}
	s, err := st.Load(storetest.Background, key)
	if err != nil {
		return err
	}
	n := 0
	for lines := bufio.NewScanner(stdin); lines.Scan(); n++ {
		if _, err := s.Append(storetest.Background, transcript.UserText(fmt.Sprintf("%s writer 7 no %d", key, n)), transcript.AssistantText("ok")); err != nil {
			return err
		}
	}
	return st.Close()
}

// One process compacts while another appends: nothing of either is lost, and
// messages that came during a summary are in the next request.
func TestCompactWhileAnotherProcessAppends(t *testing.T) {
	const rounds, before = 20, 6
	dir := t.TempDir()
	key := session.Key{Agent: "main", Channel: "test", Peer: "peer0"}
	st := storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, key)
	storetest.Talk(t, s, 0, 10)

	cmd := storetest.Child(t, "paced", dir)
	pace, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	each := 0
	say := func(n int) {
		each += n
		require.NoError(t, storetest.ErrOf(io.WriteString(pace, strings.Repeat("\n", n))))
	}
	late := "" // appended during the summary
	summarizer := func(ctx context.Context, in compact.Input) (string, error) {
		before, err := storetest.Head(ctx, s)
		say(1)
		for head := before; err == nil && head == before; runtime.Gosched() {
			head, err = storetest.Head(ctx, s)
		}
		if err != nil {
			return "", err
		}
		h, err := s.History(ctx)
		late = h.Messages[len(h.Messages)-2].Text()
		return fmt.Sprintf("%d messages. %s", len(in.Messages), storetest.WholeSummary), err
	}
	compacted := 0
	for range rounds {
		say(before)
		late = ""
		done, err := s.Compact(t.Context(), &compact.Options{
			Keep: compact.Keep{Turns: 3}, Summarizer: compact.SummarizerFunc(summarizer), Timeout: -1,
		})
		if err != nil && !errors.Is(err, compact.ErrNotSmaller) {
			t.Fatal(err)
		}
		if done.Entry == "" {
			continue
		}
		compacted++
		if got := storetest.Request(t, s); late == "" || !strings.Contains(got, late) {
			t.Fatalf("%q came while the summary was made and is lost:\n%s", late, got)
		}
	}
	require.NoError(t, pace.Close())
	require.NoError(t, cmd.Wait())
	require.NotZero(t, compacted, "no compaction was made: the test shows nothing")

	n := 0
	for _, m := range storetest.FullHistory(t, s).Messages {
		if m.Text() == fmt.Sprintf("%s writer 7 no %d", key, n) {
			n++
		}
	}
	require.Equal(t, each, n)
	entries := 0
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		if e.Type() == "compaction" {
			entries++
		}
	}
	require.Equal(t, compacted, entries)
	storetest.Add(t, s, transcript.UserText("next"))
	storetest.CheckRequest(t, s)
	require.Equal(t, 10+each+1, storetest.Info(t, s).Turns)
}
