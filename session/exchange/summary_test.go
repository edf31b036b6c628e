package exchange_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/transcript"
)

// The beginning of a summary: NUL, a command to a terminal, a C1 control character, and
// a byte that is no UTF-8. Files have it as JSON, without the last.
const (
	hostileSummary = "DOOR\x00 and \x1b[31m\u009b\xff "
	hostileJSON    = `DOOR\u0000 and \u001b[31m\u009b `
)

// A summary reaches neither a prompt nor the next summarizer with control characters,
// whichever way it came in.
func TestSummaryDoors(t *testing.T) {
	summarizer := compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
		checkSummary(t, in.Previous)
		return hostileSummary + strings.Repeat("They talked about the weather. ", 3) + "It was the day before the feast, and nothing else was said by anyone.", nil
	})
	talk := func(s *session.Session) {
		for range 8 {
			add(t, s, transcript.UserText("What will the weather be like at the feast, and who has heard it?"), transcript.AssistantText("It will rain, as the wireless says."))
		}
	}
	for name, enter := range map[string]func(s *session.Session) error{
		"Append": func(s *session.Session) error {
			_, err := s.Append(t.Context(), transcript.Compaction{Summary: hostileSummary})
			return err
		},
		"Compact": func(s *session.Session) error {
			_, err := s.Compact(t.Context(), nil)
			return err
		},
		"Commit": func(s *session.Session) error {
			_, err := memory.Commit(t.Context(), s, &memory.CommitOptions{Summarizer: summarizer})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			st := session.OpenDriver(memdriver.New(nil), &session.Options{Compact: compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: summarizer}})
			s := load(t, st)
			talk(s)
			require.NoError(t, enter(s))
			require.Positive(t, summariesIn(t, s))
			talk(s)
			done, err := s.Compact(t.Context(), nil)
			require.NoError(t, err)
			checkSummary(t, done.Compaction.Summary)
			dst := inMemory()
			_, err = exchange.Copy(t.Context(), st, dst, nil)
			require.NoError(t, err)
			require.Positive(t, summariesIn(t, load(t, dst)))
		})
	}
	found := 0
	for _, dir := range foreignFolders(t) {
		st := inMemory()
		report, _ := exchange.Import(t.Context(), st, sessionsIn(t, hostileFiles(t, dir)), nil) // some files are damaged
		for _, r := range report {
			if s, err := st.Get(t.Context(), r.Session); err == nil {
				found += summariesIn(t, s)
			}
		}
	}
	require.Greater(t, found, 8)
}

// hostileFiles are the files of a folder with another beginning for each summary.
func hostileFiles(t *testing.T, dir string) fs.FS {
	files := fstest.MapFS{}
	root := os.DirFS(dir)
	require.NoError(t, fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, path)
		var out []byte
		for line := range bytes.Lines(data) {
			for mark, member := range map[string]string{
				`"type":"compaction"`: `"summary":"`, `"type":"branch_summary"`: `"summary":"`, `"role":"compactionSummary"`: `"summary":"`,
				`"isCompactSummary":true`: `"content":"`,
			} {
				if bytes.Contains(line, []byte(mark)) {
					line = bytes.ReplaceAll(line, []byte(member), []byte(member+hostileJSON))
				}
			}
			out = append(out, line...)
		}
		files[path] = &fstest.MapFile{Data: out}
		return err
	}))
	return files
}

// summariesIn counts the texts with a summary that a model is shown.
func summariesIn(t *testing.T, s *session.Session) (n int) {
	h, err := s.History(t.Context())
	require.NoError(t, err)
	if h.Compaction != nil {
		checkSummary(t, h.Compaction.Summary)
	}
	checkSummary(t, h.System)
	for _, m := range h.Messages {
		if strings.Contains(m.Text(), "DOOR") {
			checkSummary(t, m.Text())
			n++
		}
	}
	return n
}

func checkSummary(t *testing.T, text string) {
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) || strings.ToValidUTF8(text, "") != text {
		t.Errorf("%q", text)
	}
}
