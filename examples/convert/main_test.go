package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

const fixtures = "../../transcript/dialect/testdata"

var programs = []string{"mini-claw", "claw0", "zyhive", "openviking", "pi", "claude-code"}

// histories returns the texts, calls and results of the whole conversation of
// every session below dir, sorted, since IDs change.
func histories(t *testing.T, dir string) []string {
	t.Helper()
	folder, err := dialect.ReadFolder(os.DirFS(dir))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for s := range folder.Sessions() {
		if s.Err != nil {
			continue
		}
		fold := rebuild.New(&rebuild.Options{Full: true})
		for batch, err := range transcript.Batches(s.Records()) {
			if err != nil {
				t.Fatal(err)
			}
			if err := fold.Add(batch); err != nil {
				t.Fatal(err)
			}
		}
		var sb strings.Builder
		role := transcript.Role("")
		for _, m := range fold.History().Messages {
			var said []string
			for _, b := range m.Content {
				switch b := b.(type) {
				case transcript.TextBlock:
					said = append(said, strings.Fields(b.Text)...)
				case transcript.ToolCallBlock:
					said = append(said, "call", b.ID)
				case transcript.ToolResultBlock:
					said = append(said, "result", b.CallID, b.Text())
				}
			}
			if len(said) > 0 && m.Role != role {
				role = m.Role
				sb.WriteString("|" + string(role))
			}
			if len(said) > 0 {
				sb.WriteString(" " + strings.Join(said, " "))
			}
		}
		all = append(all, sb.String())
	}
	slices.Sort(all)
	return all
}

// files returns what is in the files below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		all[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever is converted says the same afterwards, in every format.
func TestConvert(t *testing.T) {
	for _, program := range programs {
		from := filepath.Join(fixtures, program)
		want := histories(t, from)
		for _, to := range []dialect.Dialect{dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking} {
			dir := filepath.Join(t.TempDir(), "out")
			var out bytes.Buffer
			if err := run(&out, to, dir, []string{from}); err != nil && !strings.Contains(err.Error(), "index") && !strings.Contains(err.Error(), "lists it") {
				t.Fatal(err)
			}
			if got := histories(t, dir); !slices.Equal(got, want) {
				t.Errorf("%s to %s:\n%q\nwant\n%q", program, to, got, want)
			}
			if lines := strings.Count(out.String(), "\n"); lines != len(want) {
				t.Errorf("%s to %s: %d lines about %d sessions\n%s", program, to, lines, len(want), &out)
			}
			// A second time nothing is overwritten.
			before := files(t, dir)
			if err := run(&out, to, dir, []string{from}); err == nil || !strings.Contains(err.Error(), "exist") {
				t.Errorf("%s to %s, again: %v", program, to, err)
			}
			after := files(t, dir)
			for name, data := range before {
				if after[name] != data {
					t.Errorf("%s was changed", name)
				}
			}
		}
	}
}

// A session of our own store, and a single file.
func TestConvertNative(t *testing.T) {
	dir := t.TempDir()
	st, err := session.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := st.Load(t.Context(), session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []transcript.Message{transcript.UserText("hi"), transcript.AssistantText("hello")} {
		if _, err := s.Append(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{dir, filepath.Join(dir, "agents/main/sessions", s.ID()+".jsonl")} {
		to := t.TempDir()
		var out bytes.Buffer
		if err := run(&out, dialect.MiniClaw, to, []string{from}); err != nil {
			t.Fatal(err)
		}
		if got := histories(t, to); !slices.Equal(got, []string{"|user hi|assistant hello"}) {
			t.Errorf("%s: %q\n%s", from, got, &out)
		}
		for name := range files(t, to) {
			if base := filepath.Base(name); base != "sessions.json" && !strings.HasPrefix(base, "agent_main_cli") && !strings.HasPrefix(base, "main_cli_user_") {
				t.Errorf("file %s", base)
			}
		}
	}
}

func TestArguments(t *testing.T) {
	for _, args := range []string{"a b -to zyhive dir", "-to zyhive a b dir", "a b dir --to=zyhive"} {
		to, dir, from, err := arguments(strings.Fields(args))
		if to != dialect.ZyHive || dir != "dir" || !slices.Equal(from, []string{"a", "b"}) || err != nil {
			t.Errorf("%s: %q %q %q %v", args, to, dir, from, err)
		}
	}
	for _, args := range []string{"", "a dir", "-to zyhive dir", "a b -nonsense"} {
		if _, _, _, err := arguments(strings.Fields(args)); err == nil {
			t.Errorf("%s: no error", args)
		}
	}
}

func TestConvertErrors(t *testing.T) {
	empty := t.TempDir()
	text := filepath.Join(t.TempDir(), "a.txt")
	if err := os.WriteFile(text, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		to   dialect.Dialect
		from string
	}{{dialect.Pi, fixtures + "/pi"}, {"nothing", fixtures + "/pi"}, {dialect.Claw0, empty}, {dialect.Claw0, text}, {dialect.Claw0, filepath.Join(empty, "nowhere")}} {
		if err := run(new(bytes.Buffer), tt.to, t.TempDir(), []string{tt.from}); err == nil {
			t.Errorf("%s from %s: no error", tt.to, tt.from)
		}
	}
}
