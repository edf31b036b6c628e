package dialect_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// The helpers in the file of a session are sessions of their own, linked to the calls
// with their prompts, even if they work at the same time.
func TestClaudeCodeInlineHelpers(t *testing.T) {
	row := func(uuid, parent, kind, content string, side bool) string {
		up := `"` + parent + `"`
		if parent == "" {
			up = "null"
		}
		return fmt.Sprintf(`{"parentUuid":%s,"isSidechain":%v,"userType":"external","cwd":"/quay","sessionId":"s1","version":"1.0.83","type":"%s",`+
			`"message":{"role":"%s","content":%s},"uuid":"%s","timestamp":"2025-08-01T09:00:00Z"}`, up, side, kind, kind, content, uuid)
	}
	task := func(id, prompt string) string {
		return fmt.Sprintf(`{"type":"tool_use","id":"%s","name":"Task","input":{"description":"d","prompt":"%s"}}`, id, prompt)
	}
	result := func(id, text string) string {
		return fmt.Sprintf(`[{"type":"tool_result","tool_use_id":"%s","content":"%s"}]`, id, text)
	}
	file := strings.Join([]string{
		row("u1", "", "user", `"Count boats and crew."`, false),
		row("a1", "u1", "assistant", "["+task("t1", "Count boats")+","+task("t2", "Count crew")+"]", false),
		row("k1", "", "user", `[{"type":"text","text":"Count crew"}]`, true),
		row("h1", "", "user", `"Count boats"`, true),
		row("h1", "", "user", `"Count boats"`, true), // again
		row("h2", "h1", "assistant", `[{"type":"text","text":"I look."},`+task("t3", "Look at the quay")+`]`, true),
		row("k2", "k1", "assistant", `[{"type":"text","text":"Nine."}]`, true),
		row("n1", "", "user", `"Look at the quay"`, true),
		row("n2", "n1", "assistant", `[{"type":"text","text":"Two."}]`, true),
		row("h3", "h2", "user", result("t3", "Two."), true),
		`{"broken`,
		row("h4", "h3", "assistant", `[{"type":"text","text":"Two boats."}]`, true),
		row("r1", "a1", "user", result("t1", "Two boats."), false),
		row("r2", "r1", "user", result("t2", "Nine."), false),
		row("x1", "", "user", `"Typed by no call"`, true),
		row("a2", "r2", "assistant", `[{"type":"text","text":"Two and nine."}]`, false),
	}, "\n") + "\n"
	folder, err := dialect.ReadFolder(fstest.MapFS{"projects/-quay/s1.jsonl": {Data: []byte(file)}})
	require.NoError(t, err)
	var got []string
	for range 2 { // the sequence may be ranged over again
		got = nil
		for s := range folder.Sessions() {
			require.NoError(t, s.Err)
			var recs []transcript.Record
			for rec, err := range s.Records() {
				require.NoError(t, err)
				recs = append(recs, rec)
				if rec.HasEntry() {
					require.Equal(t, file[rec.Offset:rec.End-1], string(rec.Entry.Line()))
				}
			}
			got = append(got, fmt.Sprintf("%s of %s %s, %d damaged, in %s, %q: %s", s.ID, s.Parent, s.Call, len(s.Damage), s.Dir, s.Title, outline(recs)))
		}
	}
	require.Equal(t, []string{
		`s1 of  , 1 damaged, in /quay, "Count boats and crew.": Count boats and crew. call call (sidechain) (sidechain) (repeat) ` + strings.Repeat("(sidechain) ", 5) + `? (sidechain) result result (sidechain) Two and nine.`,
		`agent-k1 of s1 t2, 0 damaged, in /quay, "Count crew": Count crew Nine.`,
		`agent-h1 of s1 t1, 0 damaged, in /quay, "Count boats": Count boats (repeat) I look. call result Two boats.`,
		`agent-n1 of agent-h1 t3, 0 damaged, in /quay, "Look at the quay": Look at the quay Two.`,
		`agent-x1 of s1 , 0 damaged, in /quay, "Typed by no call": Typed by no call`,
	}, got)
}
