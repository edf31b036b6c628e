package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

func newCounter(t *testing.T) *exact {
	t.Helper()
	x, err := newExact()
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestCount(t *testing.T) {
	x := newCounter(t)
	const text = "Hello, world!" // four tokens of o200k
	msgs := []transcript.Message{
		transcript.UserText(text),
		{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ThinkingBlock{Thinking: text, Signature: "x"},
			transcript.ToolCallBlock{ID: "1", Name: text, Input: json.RawMessage(`{}`)},
		}},
		transcript.ToolResult("1", text),
	}
	if n := x.text(text); n != 4 {
		t.Errorf("%q is %d tokens", text, n)
	}
	// Four texts; two IDs and {}; three messages, three blocks.
	if n, want := x.Count("", nil, msgs), 4*4+3+3*4+3*3; n != want {
		t.Errorf("the messages are %d tokens, want %d", n, want)
	}
	if n, want := x.Count(text, []transcript.Tool{{Name: text, Description: text}}, nil), 3*4+4+12; n != want {
		t.Errorf("system and tools are %d tokens, want %d", n, want)
	}
	if n := x.Count("", nil, nil); n != 0 {
		t.Errorf("nothing is %d tokens", n)
	}
	image := []transcript.Message{{Content: []transcript.Block{transcript.ImageBlock{}}}}
	if n, want := x.Count("", nil, image), x.rest.Count("", nil, image); n != want {
		t.Errorf("an image is %d tokens, want %d", n, want)
	}
}

// Remembered counts have a bound, and forgetting changes no count.
func TestRemembered(t *testing.T) {
	x := newCounter(t)
	x.remember(strings.Repeat("a", maxKnown+1), 1)
	if len(x.known) != 0 {
		t.Error("a text above the bound is kept")
	}
	n := x.text("Hello, world!")
	x.remember("Hello, world!", n)
	if x.bytes != 13 || len(x.known) != 1 {
		t.Errorf("%d texts of %d bytes, want one of 13", len(x.known), x.bytes)
	}
	const part = maxKnown / 4
	for i := range 20 {
		x.remember(strings.Repeat(string(rune('a'+i)), part), 1)
		kept := 0
		for s := range x.known {
			kept += len(s)
		}
		if kept != x.bytes || kept > maxKnown || kept < part {
			t.Fatalf("%d bytes are kept, said to be %d", kept, x.bytes)
		}
	}
	if _, ok := x.known["Hello, world!"]; ok {
		t.Error("the oldest text is kept")
	}
	if again := x.text("Hello, world!"); again != n {
		t.Errorf("%d tokens, then %d", n, again)
	}
}

// A store counts with the vocabulary, and the program reads its transcript.
func TestSession(t *testing.T) {
	x := newCounter(t)
	ctx, dir := context.Background(), t.TempDir()
	store, err := session.Open(dir, &session.Options{Counter: x})
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(ctx, transcript.UserText("Hello, world!")); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var files []string
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if filepath.Ext(path) == ".jsonl" && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(files, nil, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), ": 8 tokens, estimated 8 (+0.0 %)\n") {
		t.Errorf("printed %q of %q", out.String(), files)
	}
}

func TestRun(t *testing.T) {
	var out strings.Builder
	if err := run(nil, strings.NewReader("Hello, world!"), &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != "-: 4 tokens, estimated 4 (+0.0 %)\n" {
		t.Errorf("printed %q", out.String())
	}
	if err := run([]string{filepath.Join(t.TempDir(), "none")}, nil, &out); !os.IsNotExist(err) {
		t.Errorf("the error for a file that is not there is %v", err)
	}
}

// The estimator's list of Han and Hangul characters that are one token agrees with
// the vocabulary.
func TestFrequent(t *testing.T) {
	x := newCounter(t)
	est := tokens.Estimator{Family: tokens.O200k}
	for _, script := range []*unicode.RangeTable{unicode.Han, unicode.Hangul} {
		for _, part := range script.R16 {
			for r := max(rune(part.Lo), 0x4e00); r <= min(rune(part.Hi), 0xd7a3); r += rune(part.Stride) {
				if one := est.Text(string(r)) == 1; one != (x.text(string(r)) == 1) {
					t.Errorf("%c: the estimator takes it for one token: %t", r, one)
				}
			}
		}
	}
}
