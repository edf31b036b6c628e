package session_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

var bg = context.Background()

// A SIGKILL during a model call, a tool call or an append: the next start has
// everything that was acknowledged, and the next request is valid.
func TestKill(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	var dir string
	rnd := rand.New(rand.NewPCG(1, 2))
	killedIn := map[string]int{}
	var acked []event
	for round := range rounds {
		if round%10 == 0 { // or reading back takes longer and longer
			dir, acked = t.TempDir(), nil
		}
		phase, events := killAgent(t, dir, 1+rnd.IntN(40), rnd.IntN(3) == 0)
		killedIn[phase]++
		acked = append(acked, events...)

		st := open(t, dir, nil)
		s := load(t, st, cli)
		checkAcked(t, s, acked)
		next := fmt.Sprint("after kill ", round)
		ids := add(t, s, transcript.UserText(next))
		acked = append(acked, event{Did: "appended", Text: next, IDs: ids})
		checkRequest(t, s)
		before := history(t, s)
		closed(t, st)
		st = open(t, dir, nil)
		if got := history(t, load(t, st, cli)); got != before {
			t.Fatalf("round %d: a second restart changed the history", round)
		}
		closed(t, st)
	}
	t.Logf("killed in: %v", killedIn)
	for _, phase := range []string{"append", "model call", "tool call"} {
		if killedIn[phase] == 0 && !testing.Short() {
			t.Errorf("no kill hit a %s: %v", phase, killedIn)
		}
	}
}

// killAgent starts an agent, lets it say n things and kills it. It returns
// what the agent was doing and what was acknowledged.
func killAgent(t *testing.T, dir string, n int, inAppend bool) (phase string, acked []event) {
	t.Helper()
	cmd := child(t, "agent", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killed := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // the kill cut it
		}
		if e.IDs != nil {
			acked = append(acked, e)
		}
		phase = e.Did
		if n--; n <= 0 && !killed && (!inAppend || phase == "append") {
			killed = true
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); err == nil || !killed {
		t.Fatalf("the agent ended by itself: %v", err)
	}
	return phase, acked
}

// checkAcked holds that every acknowledged append is in the session, once and
// in order, and that a question without an answer is pending.
func checkAcked(t *testing.T, s *session.Session, acked []event) {
	t.Helper()
	at := map[string]int{}
	n := 0
	var texts strings.Builder
	for e, err := range s.Entries(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range h.Messages {
		texts.WriteString(m.Text())
		for _, b := range m.Content {
			if r, ok := b.(transcript.ToolResultBlock); ok {
				texts.WriteString(r.Text())
			}
		}
	}
	for _, a := range acked {
		if !strings.Contains(texts.String(), a.Text) {
			t.Fatalf("%q was acknowledged and the model is not shown it", a.Text)
		}
	}
}

// checkRequest renders the next request and validates what a provider would
// see.
func checkRequest(t testing.TB, s *session.Session) {
	t.Helper()
	var req transcript.Request
	if err := json.Unmarshal([]byte(request(t, s)), &req); err != nil {
		t.Fatal(err)
	}
	if v := rebuild.Validate(rebuild.Anthropic, req); len(v) > 0 {
		t.Fatalf("the next request is not valid: %v", v)
	}
}
