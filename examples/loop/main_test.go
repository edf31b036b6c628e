package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/session"
)

var callIDs = regexp.MustCompile(`toolu[_0-9]+`)

// talk runs the program on lines of input, with a model of its own, and returns
// what it printed and what the model was sent last.
func talk(t *testing.T, dir string, window int, lines ...string) (printed, sent string) {
	t.Helper()
	service := offline(window)
	c := config{dir, window, &model{url: "http://offline.invalid", name: "offline", http: http.Client{Transport: service}}}
	var out bytes.Buffer
	if err := run(t.Context(), c, strings.NewReader(strings.Join(lines, "\n")), &out); err != nil {
		t.Fatal(err)
	}
	for _, r := range service.Requests() {
		if r.Outcome != guardtest.Answered {
			t.Errorf("a request was %v: %s", r.Outcome, r.Refused)
		}
		sent = string(r.Body)
	}
	return out.String(), sent
}

// What the model is shown is the same in one run as in two.
func TestRestart(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.txt", []byte("alpha"), 0o600); err != nil {
		t.Fatal(err)
	}
	once, _ := talk(t, "one", 180_000, "hello", "what is in a.txt?", "thanks")
	if want := "Restored: 0 previous turns\nhello\n\nalpha\nthanks\n"; once != want {
		t.Errorf("it printed %q, want %q", once, want)
	}
	talk(t, "two", 180_000, "hello", "what is in a.txt?")
	twice, _ := talk(t, "two", 180_000, "thanks")
	if want := "Restored: 2 previous turns\nthanks\n"; twice != want {
		t.Errorf("the second run printed %q, want %q", twice, want)
	}
	_, one := talk(t, "one", 180_000, "bye")
	_, two := talk(t, "two", 180_000, "bye")
	// IDs of calls have the number of the request in them.
	if a, b := callIDs.ReplaceAllString(one, "toolu"), callIDs.ReplaceAllString(two, "toolu"); a != b {
		t.Errorf("after a restart the model is sent\n%s\nand not\n%s", b, a)
	}
}

// In a small window it goes on all the same.
func TestSmallWindow(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("big.txt", []byte(strings.Repeat("a line of a big file\n", 2000)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, sent := talk(t, "store", 3000, "one", "what is in big.txt?", "and in big.txt?", "two", "three")
	if !strings.Contains(sent, "[Previous conversation summary]") {
		t.Errorf("nothing was compacted in\n%s", sent)
	}
}

// Errors end the program, and what was said is kept.
func TestError(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	closed := &guardtest.Model{Answer: guardtest.Always(guardtest.Unauthorized())}
	m := &model{url: "http://offline.invalid", name: "offline", http: http.Client{Transport: closed}}
	err := run(t.Context(), config{dir, 3000, m}, strings.NewReader("hello"), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("the error is %v", err)
	}
	store, err := session.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Pending(t.Context()); err != nil || p.User != "hello" {
		t.Errorf("pending are %+v, %v", p, err)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}
