package rebuild_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// foldLines folds lines of a transcript that is at rest.
func foldLines(t *testing.T, opts *rebuild.Options, lines ...string) *rebuild.Fold {
	t.Helper()
	f := rebuild.New(opts)
	require.NoError(t, addLines(f, lines...))
	return f
}

func addLines(f *rebuild.Fold, lines ...string) error {
	text := strings.Join(lines, "\n")
	var batcher transcript.Batcher
	var batches []transcript.Batch
	for rec, err := range transcript.Scan(strings.NewReader(text), int64(len(text)), &transcript.ScanOptions{Final: true}) {
		if err != nil {
			return err
		}
		if rec.Damage != nil {
			batches = append(batches, batcher.Break()...)
			continue
		}
		batches = append(batches, batcher.Add(rec.Entry)...)
	}
	for _, b := range append(batches, batcher.Break()...) {
		if err := f.Add(b); err != nil {
			return err
		}
	}
	return nil
}

// show writes a history in a short form, one message a line.
func show(h rebuild.History) string {
	var sb strings.Builder
	if h.System != "" {
		fmt.Fprintf(&sb, "system %q\n", h.System)
	}
	for _, m := range h.Messages {
		fmt.Fprintf(&sb, "%s", m.Role)
		for i, b := range m.Content {
			if m.Origins == nil || len(m.Origins) != len(m.Content) {
				sb.WriteString(" NO-ORIGIN")
			}
			_ = i
			switch b := b.(type) {
			case transcript.TextBlock:
				form := " [%s]"
				if m.Plain() {
					form = " %s"
				}
				fmt.Fprintf(&sb, form, strings.ReplaceAll(b.Text, "\n", "|"))
			case transcript.ToolCallBlock:
				fmt.Fprintf(&sb, " call(%s %s %s)", b.ID, b.Name, b.Input)
			case transcript.ToolResultBlock:
				mark := ""
				if b.IsError {
					mark = "!"
				}
				fmt.Fprintf(&sb, " result%s(%s %s)", mark, b.CallID, b.Text())
			default:
				fmt.Fprintf(&sb, " %s", transcript.BlockType(b))
			}
		}
		sb.WriteByte('\n')
	}
	return sb.String()
}

func rules(r rebuild.Report) string {
	var out []string
	for _, rep := range r {
		out = append(out, string(rep.Rule)+"@"+rep.Entry)
	}
	return strings.Join(out, " ")
}

// Short forms of lines.
func user(id, text string) string {
	return fmt.Sprintf(`{"type":"user","id":%q,"ts":"2026-11-20T08:00:00Z","content":%q}`, id, text)
}

func assistant(id, text string) string {
	return fmt.Sprintf(`{"type":"assistant","id":%q,"ts":"2026-11-20T08:00:00Z","content":%q}`, id, text)
}

// answer is a batch: an assistant line and one line a call.
func answer(id, text string, calls ...string) []string {
	content := "[]"
	if text != "" {
		content = fmt.Sprintf(`[{"type":"text","text":%q}]`, text)
	}
	lines := []string{fmt.Sprintf(`{"type":"assistant","id":%q,"ts":"2026-11-20T08:00:00Z","batch":%d,"stop_reason":"tool_use","content":%s}`, id, len(calls)+1, content)}
	for i, c := range calls {
		lines = append(lines, fmt.Sprintf(`{"type":"tool_use","id":"%s.%s","ts":"2026-11-20T08:00:00Z","mid":%q,"part":%d,"tool_use_id":%q,"name":"f","input":{}}`, id, c, id, i+2, c))
	}
	return lines
}

func result(id, call, text string) string {
	return fmt.Sprintf(`{"type":"tool_result","id":%q,"ts":"2026-11-20T08:00:00Z","tool_use_id":%q,"content":%q,"is_error":false}`, id, call, text)
}

func rewind(id, to string) string {
	return fmt.Sprintf(`{"type":"rewind","id":%q,"ts":"2026-11-20T08:00:00Z","to":%q}`, id, to)
}

func lines(groups ...any) []string {
	var out []string
	for _, g := range groups {
		switch g := g.(type) {
		case string:
			out = append(out, g)
		case []string:
			out = append(out, g...)
		}
	}
	return out
}

// refold writes a history as entries and folds them again.
func refold(t testing.TB, h rebuild.History) rebuild.History {
	t.Helper()
	n := 0
	id := func() string { n++; return fmt.Sprint("e", n) }
	f := rebuild.New(nil)
	for _, m := range h.Messages {
		entries, err := transcript.NewBatch(testTime, id, m)
		require.NoError(t, err, "cannot append canonical message %s", mustJSON(m))
		for i := range entries {
			e, err := transcript.ParseEntry(slices.Clone(entries[i].Line()))
			require.NoError(t, err, "line %s", entries[i].Line())
			entries[i] = e
		}
		require.NoError(t, f.Add(transcript.Batch{Entries: entries, Complete: true}))
	}
	out := f.History()
	out.System, out.Prompt = h.System, h.Prompt
	return out
}

func mustJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}
