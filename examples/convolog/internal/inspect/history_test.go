package inspect

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// foreign are the dialects that other programs write.
var foreign = []dialect.Dialect{
	dialect.MiniClaw, dialect.Claw0, dialect.ZyHive, dialect.OpenViking, dialect.Pi, dialect.ClaudeCode, dialect.Codex, dialect.GeminiCLI,
}

// history folds records and fails the test unless a provider takes the result,
// with a text of the user behind it if it is not the user's turn.
func history(t testing.TB, records iter.Seq2[transcript.Record, error]) (*rebuild.Fold, rebuild.History) {
	t.Helper()
	fold := rebuild.New(nil)
	for batch, err := range transcript.Batches(records) {
		require.NoError(t, err)
		require.NoError(t, fold.Add(batch))
	}
	h := fold.History()
	messages := h.Messages
	if n := len(messages); n == 0 || messages[n-1].Role == transcript.RoleAssistant {
		messages = append(slices.Clip(messages), transcript.UserText("next"))
	}
	body, _, err := anthropic.Format{}.Request(transcript.Request{Model: "m", System: h.System, Messages: messages})
	require.NoError(t, err)
	var req transcript.Request
	require.NoError(t, json.Unmarshal(body, &req))
	if v := wiretest.Validate(req); len(v) > 0 {
		t.Fatalf("not valid: %v\n%s", v, body)
	}
	return fold, h
}

func scanBytes(d dialect.Dialect, data []byte) iter.Seq2[transcript.Record, error] {
	return d.Scan(bytes.NewReader(data), int64(len(data)), &transcript.ScanOptions{Final: true})
}

// corpora holds more sample files, which are of others and are not in this module.
var corpora = flag.String("corpora", "", "a folder with more sample files")

// roots are the folders of sample files.
func roots() []string {
	all := []string{"../../../../transcript/dialect/testdata"}
	if *corpora != "" {
		all = append(all, *corpora)
	}
	return all
}

// transcripts yields the transcripts of the sample files.
func transcripts(t testing.TB) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, root := range roots() {
			fsys := os.DirFS(root)
			err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() || path.Ext(name) != ".jsonl" || strings.HasPrefix(name, "tokens/") {
					return err
				}
				data, err := fs.ReadFile(fsys, name)
				if err == nil && !yield(path.Join(root, name), data) {
					return fs.SkipAll
				}
				return err
			})
			require.NoError(t, err)
		}
	}
}

// This test samples the prefixes. -faults=gate tries a thousand
// of every transcript, which .ci/run asks for.
var faults = flag.String("faults", "short", "how many prefixes are tried: short, gate or long")

// Wherever a transcript is cut, its history is one that a provider takes.
func TestEveryPrefix(t *testing.T) {
	t.Parallel()
	read, tries := 0, 50
	if *faults != "short" {
		tries = 1000
	}
	for name, data := range transcripts(t) {
		d, _, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		if d == "" || d == dialect.Native || d == dialect.ZyHiveLog {
			continue
		}
		read++
		step := max(1, len(data)/tries) // every byte of a short file
		for n := 0; n < len(data); n += step {
			if _, h := history(t, scanBytes(d, data[:n])); n == 0 && len(h.Messages) > 0 {
				t.Errorf("%s: a history of nothing: %v", name, h)
			}
		}
		history(t, scanBytes(d, data))
	}
	require.NotZero(t, read, "no transcript found")
}

// A session of many files is valid as well.
func TestEverySession(t *testing.T) {
	for _, root := range roots() {
		f, err := dialect.ReadFolder(os.DirFS(root))
		require.NoError(t, err)
		found := 0
		for s := range f.Sessions() {
			if s.Err == nil {
				found++
				history(t, s.Records())
			}
		}
		if found == 0 {
			t.Errorf("no session in %s", root)
		}
	}
}

func FuzzHistory(f *testing.F) {
	for _, data := range transcripts(f) {
		d, _, err := dialect.Detect(bytes.NewReader(data), int64(len(data)))
		require.NoError(f, err)
		if len(data) > 8<<10 {
			data = data[:8<<10]
		}
		f.Add(data, byte(max(slices.Index(foreign, d), 0)))
	}
	f.Fuzz(func(t *testing.T, data []byte, which byte) {
		history(t, scanBytes(foreign[int(which)%len(foreign)], data))
	})
}
