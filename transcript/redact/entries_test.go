package redact_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// entry parses a line.
func entry(t *testing.T, line string) transcript.Entry {
	t.Helper()
	e, err := transcript.ParseEntry([]byte(line))
	require.NoError(t, err)
	return e
}

func TestEntries(t *testing.T) {
	hook := func(text string) string { return strings.ReplaceAll(text, "pw1", "***") }
	media := strings.Repeat("pw1/", 200)
	for line, want := range map[string]string{
		`{"type":"user","id":"pw1","content":"say pw1"}`:                                          `{"type":"user","id":"pw1","content":"say ***"}`,
		`{"type":"tool_use","id":"a","tool_use_id":"pw1","name":"pw1","input":{"id":"pw1"}}`:      `{"type":"tool_use","id":"a","tool_use_id":"pw1","name":"pw1","input":{"id":"***"}}`,
		`{"type":"user","id":"a","content":"` + media + `"}`:                                      `{"type":"user","id":"a","content":"` + media + `"}`,
		`{"type":"user","id":"a","content":"x","src":"{\"signature\":\"pw1\",\"text\":\"pw1\"}"}`: `{"type":"user","id":"a","content":"x","src":"{\"signature\":\"pw1\",\"text\":\"***\"}"}`,
		`{"type":"user","id":"a","content":"x","src":"plain pw1"}`:                                `{"type":"user","id":"a","content":"x","src":"plain ***"}`,
		`{"type":"user","id":"a","content":"x","later":{"deep":["pw1",1.50]}}`:                    `{"type":"user","id":"a","content":"x","later":{"deep":["***",1.50]}}`,
	} {
		e := entry(t, line)
		got, err := redact.Entries([]transcript.Entry{e, e.WithChecksum()}, hook)
		require.NoError(t, err)
		require.Equal(t, want, string(got[0].Line()))
		require.Equal(t, string(entry(t, want).WithChecksum().Line()), string(got[1].Line()))
		require.Equal(t, line, string(e.Line()), "the entry was modified")
	}
}

// An answer that is changed in one of its lines loses the reasoning of all of them.
func TestEntriesReasoning(t *testing.T) {
	hook := func(text string) string { return strings.ReplaceAll(text, "pw1", "***") }
	all := []transcript.Entry{
		entry(t, `{"type":"assistant","id":"a","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"x"}]}`),
		entry(t, `{"type":"tool_use","id":"b","mid":"a","tool_use_id":"t","name":"n","input":{"x":"pw1"}}`),
		entry(t, `{"type":"assistant","id":"c","content":[{"type":"thinking","thinking":"hm","signature":"s"}]}`),
	}
	got, err := redact.Entries(all, hook)
	require.NoError(t, err)
	require.NotContains(t, string(got[0].Line()), "thinking")
	require.Equal(t, string(all[2].Line()), string(got[2].Line()))
}

// Redaction keeps the shape of any line.
func FuzzEntries(f *testing.F) {
	for _, line := range []string{
		`{"type":"user","id":"a","content":"password=Hunter27"}`,
		`{"type":"assistant","id":"a","content":[{"type":"thinking","thinking":"x"},{"type":"text","text":"token=aB3dE5gH7jK9"}],"src":"{\"type\":\"x\",\"password\":\"secretword1\"}"}`,
		`{"type":"tool_use","id":"a","tool_use_id":"t","name":"n","input":{"password":"x\ud800y1","a":[[{"b":"c"}]]}}`,
		`{"type":"custom","id":"a","name":"n","data":"xyz","crc":"00000000"}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		hook := func(s string) string { return strings.ReplaceAll(redact.Secrets(t.Context(), s), "x", "\"") }
		e, err := transcript.ParseEntry([]byte(line))
		if err != nil {
			return
		}
		got, err := redact.Entries([]transcript.Entry{e}, hook)
		require.NoError(t, err)
		again, err := transcript.ParseEntry(got[0].Line())
		require.NoError(t, err, string(got[0].Line()))
		require.True(t, checksum.Intact(got[0].Line()) || !checksum.Intact(e.Line()))
		require.Equal(t, e.Type(), again.Type())
		require.Equal(t, e.ID, again.ID)
		twice, err := redact.Entries(got, hook)
		require.NoError(t, err)
		require.Equal(t, string(got[0].Line()), string(twice[0].Line()))
	})
}

// The hook receives the name of a member once for all rows of a value, and every row gets
// its result.
func TestEntriesRows(t *testing.T) {
	calls := map[string]int{}
	hook := func(text string) string {
		calls[text]++
		return strings.ReplaceAll(text, "pw1", "***")
	}
	rows := strings.Repeat(`{"pw1":1,"plain":"x"},`, 100) + `{"pw1":2}`
	got, err := redact.Entries([]transcript.Entry{entry(t, `{"type":"tool_use","id":"a","tool_use_id":"b","name":"c","input":{"rows":[`+rows+`]}}`)}, hook)
	require.NoError(t, err)
	require.Equal(t, map[string]int{"pw1": 1, "plain": 1, "rows": 1, "x": 100, `plain="x"`: 100}, calls)
	require.Equal(t, 101, strings.Count(string(got[0].Line()), `"***":`))
	require.NotContains(t, string(got[0].Line()), "pw1")
}
