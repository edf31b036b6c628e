package rebuild_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// transcriptOf writes a conversation as a store does. The text of every line is
// unique, so that missing ones can be seen.
func transcriptOf(t testing.TB) []byte {
	t.Helper()
	n := 0
	id := func() string { n++; return fmt.Sprintf("e%03d", n) }
	call := func(id string) transcript.ToolCallBlock {
		return transcript.ToolCallBlock{ID: id, Name: "f", Input: json.RawMessage(`{"q": "` + id + `"}`)}
	}
	answer := func(text string, calls ...transcript.Block) transcript.Response {
		content := append([]transcript.Block{transcript.TextBlock{Text: text}}, calls...)
		return transcript.Response{API: "anthropic", Model: "m", Message: transcript.Message{Role: transcript.RoleAssistant, Content: content}}
	}
	batches := [][]transcript.Item{
		{transcript.UserText("text-1 你好")},
		{answer("text-2", call("call-a"), transcript.TextBlock{Text: "text-3"}, call("call-b"))},
		{transcript.ToolResult("call-b", "text-4")},
		{transcript.ToolResult("call-a", "text-5")},
		{answer("text-6")},
		{transcript.UserText("text-7"), answer("text-8", call("call-a")), transcript.ToolResult("call-a", "text-9"), answer("text-10")},
		{transcript.UserText("text-11")},
	}
	file := []byte(`{"type":"session","id":"s","ts":"2026-11-20T08:00:00Z","v":1,"key":"a:b:c","gen":1}` + "\n")
	for _, items := range batches {
		entries, err := transcript.NewBatch(testTime, id, items...)
		require.NoError(t, err)
		for _, e := range entries {
			file = append(append(file, e.Line()...), '\n')
		}
	}
	return file
}

// foldBytes folds a file at rest and returns the entries in it as well.
func foldBytes(t testing.TB, file []byte, opts *rebuild.Options) (*rebuild.Fold, []transcript.Entry) {
	t.Helper()
	f := rebuild.New(opts)
	var batcher transcript.Batcher
	var entries []transcript.Entry
	add := func(batches []transcript.Batch) bool {
		for _, b := range batches {
			if err := f.Add(b); err != nil {
				return false // a critical entry that is not known
			}
		}
		return true
	}
	for rec, err := range transcript.Scan(bytes.NewReader(file), int64(len(file)), &transcript.ScanOptions{Final: true}) {
		require.NoError(t, err)
		if rec.Damage != nil {
			if !add(batcher.Break()) {
				return nil, nil
			}
			continue
		}
		entries = append(entries, rec.Entry)
		if !add(batcher.Add(rec.Entry)) {
			return nil, nil
		}
	}
	if !add(batcher.Break()) {
		return nil, nil
	}
	return f, entries
}

// Any prefix of a transcript, cut at any byte, loses no complete line and renders
// valid. Calls of an incomplete batch that have no result are excepted: they
// never ran.
func TestEveryPrefix(t *testing.T) {
	file := transcriptOf(t)
	for cut := range len(file) + 1 {
		f, _ := foldBytes(t, file[:cut], nil)
		h := f.History()
		shown := mustJSON(h)
		for line := range bytes.Lines(file[:cut]) {
			if !bytes.HasSuffix(line, []byte("\n")) && !json.Valid(line) {
				continue
			}
			for _, word := range strings.FieldsFunc(string(line), func(r rune) bool { return strings.ContainsRune(`" :[]{},`, r) }) {
				if strings.HasPrefix(word, "text-") && !strings.Contains(shown, word) {
					t.Fatalf("cut at %d: %s is on a complete line and not in\n%s", cut, word, shown)
				}
			}
		}
		last, err := transcript.NewBatch(testTime, func() string { return "last" }, transcript.UserText("and now?"))
		require.NoError(t, err)
		require.NoError(t, f.Add(transcript.Batch{Entries: last, Complete: true}))
		checkCanonical(t, f.History())
		checkRendered(t, f.History())
	}
}

// Any bytes at all fold into a history that is canonical and, after a user
// text, valid.
func FuzzBytes(f *testing.F) {
	file := transcriptOf(f)
	f.Add(file)
	f.Add(file[:len(file)/2])
	f.Add(bytes.ReplaceAll(file, []byte("\n"), nil))
	f.Add([]byte("{\"type\":\"tool_use\",\"mid\":\"x\",\"tool_use_id\":\"a\"}\n{\"type\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\"}]}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, opts := range []*rebuild.Options{nil, {Full: true}} {
			fold, _ := foldBytes(t, data, opts)
			if fold == nil {
				continue
			}
			h := fold.History()
			checkCanonical(t, h)
			require.Equal(t, mustJSON(h), mustJSON(refold(t, h)))
			fold.Report()
			fold.Pending()
			last, err := transcript.NewBatch(testTime, func() string { return "last" }, transcript.UserText("and now?"))
			require.NoError(t, err)
			require.NoError(t, fold.Add(transcript.Batch{Entries: last, Complete: true}))
			checkRendered(t, fold.History())
		}
	})
}
