package session_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// One process compacts while another appends: nothing of either is lost, and
// what came while a summary was made is in the next request.
func TestCompactWhileAnotherProcessAppends(t *testing.T) {
	const each = 150
	dir := t.TempDir()
	key := session.Key{Agent: "main", Channel: "test", Peer: "peer0"}
	st := open(t, dir, nil)
	defer closed(t, st)
	s := load(t, st, key)
	talk(t, s, 0, 10)

	cmd := child(t, "writer", dir, "7", "1", fmt.Sprint(each))
	must(t, cmd.Start())
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	ended := false
	over := func() bool {
		select {
		case err := <-exited:
			must(t, err)
			ended = true
		default:
		}
		return ended
	}

	late := "" // said while the summary was made
	summarizer := func(ctx context.Context, in compact.Input) (string, error) {
		before, err := s.Head(ctx)
		if err != nil {
			return "", err
		}
		for { // until the other process has appended something
			head, err := s.Head(ctx)
			if err != nil || head != before || over() {
				h, err := s.History(ctx)
				if late = ""; head != before && err == nil {
					late = h.Messages[len(h.Messages)-2].Text()
				}
				return fmt.Sprintf("%d messages. %s", len(in.Messages), whole), err
			}
			runtime.Gosched()
		}
	}
	compacted, overtaken := 0, 0
	for !over() {
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
		if late != "" {
			overtaken++
			if got := request(t, s); !strings.Contains(got, late) {
				t.Fatalf("%q came while the summary was made and is lost:\n%s", late, got)
			}
		}
	}
	t.Logf("%d compactions, %d of them overtaken by an append", compacted, overtaken)
	if overtaken == 0 {
		t.Error("no append came during a compaction: the test shows nothing")
	}

	full, err := s.FullHistory(t.Context())
	must(t, err)
	n := 0
	for _, m := range full.Messages {
		if m.Text() == fmt.Sprintf("%s writer 7 no %d", key, n) {
			n++
		}
	}
	if n != each {
		t.Errorf("%d of %d messages of the other process are there", n, each)
	}
	entries := 0
	for e, err := range s.Entries(t.Context()) {
		must(t, err)
		if e.Type() == "compaction" {
			entries++
		}
	}
	if entries != compacted {
		t.Errorf("%d compactions in the transcript, %d were acknowledged", entries, compacted)
	}
	add(t, s, transcript.UserText("next"))
	checkRequest(t, s)
	if s.Turns() != 10+each+1 {
		t.Errorf("%d turns, want %d", s.Turns(), 10+each+1)
	}
}
