package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

var rounds = flag.Int("rounds", 20, "`number` of servers to kill")

var built string // the folder of the page and its packages

func TestMain(m *testing.M) {
	flag.Parse()
	if dir := os.Getenv(serverDir); dir != "" {
		fmt.Fprintln(os.Stderr, serveFolder(dir, os.Getenv(serverAddr)))
		os.Exit(1)
	}
	if _, err := exec.LookPath("npm"); err != nil {
		if os.Getenv("CI") != "" {
			panic(err)
		}
		fmt.Println("skipped: there is no npm (Debian: apt-get install npm)")
		return
	}
	var err error
	if built, err = build(context.Background()); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

func words(name string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s-%d ", name, i)
	}
	return b.String()
}

// A message that the user writes while a call waits is refused. The call can still be
// decided, though the client shows the message.
func TestTyped(t *testing.T) {
	t.Parallel()
	sv := newProcess(t, t.TempDir())
	ch := &chat{newClient(t), "talk", sv.url()}
	e := ch.call("send", object{"text": "danger"})
	held := e.last().Parts[3]
	e = ch.call("send", object{"text": "hello there"})
	require.Equal(t, "error", e.Status)
	require.Contains(t, e.Error, "a call waits for a decision")
	e = ch.call("decide", object{"approval": held.Approval.ID, "approved": true})
	require.Equal(t, "ready", e.Status, e.Error)
	loaded := (&chat{newClient(t), "talk", sv.url()}).call("load", nil)
	require.Len(t, loaded.Messages, 2)
	require.Contains(t, loaded.last().kinds(), "tool-clock output-available")
}

// The client gets texts, reasoning, tools, approvals and usage, and the store returns the
// same messages.
func TestClient(t *testing.T) {
	t.Parallel()
	sv := newProcess(t, t.TempDir())
	ch := &chat{newClient(t), "talk", sv.url()}
	same := func(e event) {
		t.Helper()
		require.Equal(t, "ready", e.Status, e.Error)
		loaded := (&chat{ch.client, "talk", sv.url()}).call("load", nil)
		require.Len(t, loaded.Messages, len(e.Messages))
		for i, m := range e.Messages {
			require.Equal(t, m.ID, loaded.Messages[i].ID)
			require.Equal(t, m.text(), loaded.Messages[i].text())
			want, got := m.kinds(), loaded.Messages[i].kinds()
			slices.Sort(want) // a streamed text is before the reasoning
			slices.Sort(got)
			if m.Role == "user" {
				require.Equal(t, []string{"text"}, got)
				continue
			}
			require.Equal(t, want, got)
			require.Equal(t, m.Metadata, loaded.Messages[i].Metadata)
		}
	}

	e := ch.call("send", object{"text": "hello you"})
	require.Equal(t, "hello you", e.last().text())
	require.Equal(t, "stop", e.Finish.FinishReason)
	same(e)

	e = ch.call("send", object{"text": "tool"})
	require.Equal(t, []string{"step-start", "text done", "reasoning done", "tool-clock output-available", "step-start", "text done"}, e.last().kinds())
	require.JSONEq(t, `{"time":"noon"}`, string(e.last().Parts[3].Output))
	require.Equal(t, 8, e.last().Metadata.Usage.InputTokens)
	require.Equal(t, 4, e.last().Metadata.Usage.OutputTokens)
	same(e)

	for _, approved := range []bool{true, false} {
		e = ch.call("send", object{"text": "danger"})
		require.Equal(t, "tool-calls", e.Finish.FinishReason)
		held := e.last().Parts[3]
		require.Equal(t, "approval-requested", held.State)
		same(e)
		again := ch.call("resume", nil) // the same request for an approval
		require.Equal(t, e.last(), again.last())
		e = ch.call("decide", object{"approval": held.Approval.ID, "approved": approved, "reason": "because"})
		want := map[bool]string{true: "output-available", false: "output-denied"}[approved]
		require.Equal(t, []string{"step-start", "text done", "reasoning done", "tool-clock " + want, "step-start", "text done"}, e.last().kinds())
		same(e)
	}

	e = ch.call("send", object{"text": "void"})
	require.Equal(t, "void", e.last().text())
	same(e)
	before := e.Messages
	e = ch.call("again", nil)
	require.Equal(t, len(before), len(e.Messages))
	require.Equal(t, before[len(before)-2], e.Messages[len(before)-2])
	require.NotEqual(t, before[len(before)-1].ID, e.last().ID)
	same(e)
	e = ch.call("send", object{"text": "hello anew", "messageId": before[0].ID})
	require.Len(t, e.Messages, 2)
	require.Equal(t, "hello anew", e.last().text())
	same(e)

	require.Equal(t, "ready", ch.call("resume", nil).Status) // 204
	for _, begin := range []string{"one two ", ""} {
		ch.do("send", object{"text": begin + "hold it"})
		_, _ = ch.until("send", func(m message) bool { return m.Role == "assistant" && m.text() == begin })
		ch.do("stop", nil)
		e, _ = ch.until("send", nil)
		require.Equal(t, "interrupted", e.Finish.FinishReason)
		require.Equal(t, begin, e.last().text())
		same(e)
	}

	other := &chat{ch.client, "talk2", sv.url()}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sv.url()+"/talk", http.NoBody)
	require.NoError(t, err)
	for key, status := range map[string]int{"ann": 200, "bob": 404, "eve": 401} {
		req.Header.Set("Authorization", "Bearer "+key)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, status, resp.StatusCode, key)
	}
	require.Equal(t, "ready", other.call("resume", nil).Status, "a new chat")
}

// A client that leaves in the middle of an answer gets all of it when it asks again, from
// this server or another.
func TestCut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b := newProcess(t, dir), newProcess(t, dir)
	ch := &chat{newClient(t), "cut", a.url()}
	said := words("cut", 10)
	reads := func(m message) bool { return m.Role == "assistant" && m.text() == said }
	ch.do("send", object{"text": said + "hold it"})
	for _, url := range []string{b.url(), a.url(), b.url()} {
		_, _ = ch.until("", reads)
		ch.call("cut", nil)
		ch.url = url
		ch.do("resume", nil)
	}
	_, _ = ch.until("", reads)
	release(t, dir, "hold")
	e, _ := ch.until("resume", nil)
	require.Equal(t, said+"hold it", e.last().text())
}

// Servers are killed in the middle of an answer, each with another server on the same
// store. The text that a client saw is in the store, and every message is there once.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir, random := t.TempDir(), rand.New(rand.NewPCG(1, 2))
	servers := []*process{newProcess(t, dir), newProcess(t, dir)}
	c := newClient(t)
	held := func(round int) string { return fmt.Sprint("hold", round) }
	textOf := func(round int) string { return words(fmt.Sprint("round", round), 60) + held(round) }
	equal := 0
	for round := range *rounds {
		a, b := servers[round%2], servers[(round+1)%2]
		ch := &chat{c, fmt.Sprint("chat", round/4), a.url()} // four rounds in each chat
		text, least := textOf(round), 12*(1+random.IntN(20))
		ch.do("send", object{"text": text})
		_, seen := ch.until("send", func(m message) bool {
			return m.Role == "assistant" && len(m.text()) > least && strings.HasPrefix(text, m.text())
		})
		if round%3 == 1 { // the answer is read at the other server when its server dies
			ch.call("cut", nil)
			ch.url = b.url()
			ch.do("resume", nil)
			_, seen = ch.until("resume", func(m message) bool { return len(m.text()) > least })
		}
		a.kill()
		release(t, dir, held(round)) // the other server may be the one that answers
		command := map[bool]string{true: "resume", false: "send"}[round%3 == 1]
		e, more := ch.until(command, nil)
		if more != "" {
			seen = more
		}
		if command == "send" {
			require.True(t, e.Finish.IsError, "round %d: %s", round, e.Error)
			require.Equal(t, "error", e.Status)
			if round%3 == 2 {
				a.start()
				b = a
			}
			ch.url = b.url()
			ch.call("resume", nil)
		}
		require.NotEmpty(t, seen)
		loaded := ch.call("load", nil)
		stored := loaded.last()
		require.Equal(t, "assistant", stored.Role)
		require.True(t, strings.HasPrefix(stored.text(), seen), "round %d: seen %q, stored %q", round, seen, stored.text())
		require.True(t, strings.HasPrefix(text, stored.text()), stored.text())
		require.Equal(t, text, loaded.Messages[len(loaded.Messages)-2].text())
		if stored.text() == seen {
			equal++
		}
		next := ch.call("send", object{"text": fmt.Sprint("next", round)})
		require.Equal(t, fmt.Sprint("next", round), next.last().text())
		require.Len(t, next.Messages, 4*(round%4+1))
		if b != a {
			a.start()
		}
	}
	t.Logf("in %d of %d rounds the client had seen the whole stored text", equal, *rounds)
	for _, sv := range servers {
		sv.kill()
	}
	store, err := session.Open(dir, nil)
	require.NoError(t, err)
	defer store.Close()
	ann, err := store.Scope("ann")
	require.NoError(t, err)
	for n := 0; n*4 < *rounds; n++ {
		s, err := ann.Get(t.Context(), session.Ref{Agent: "main", ID: fmt.Sprint("chat", n)})
		require.NoError(t, err)
		var got, want []string
		for e, err := range s.Entries(t.Context(), "") {
			require.NoError(t, err)
			if f, ok := e.Body.(transcript.MessageLine); ok && f.Kind == transcript.TypeUser {
				got = append(got, f.Message().Text())
			}
		}
		for round := 4 * n; round < min(4*n+4, *rounds); round++ {
			want = append(want, textOf(round), fmt.Sprint("next", round))
		}
		require.Equal(t, want, got)
	}
}

// The built page is one script without addresses of other hosts in its document.
func TestPage(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile(filepath.Join(built, "public", "bundle.js"))
	require.NoError(t, err)
	require.Greater(t, len(script), 100_000)
	document, err := os.ReadFile(filepath.Join(built, "public", "index.html"))
	require.NoError(t, err)
	require.NotContains(t, string(document), "http")
}
