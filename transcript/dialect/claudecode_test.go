package dialect_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// outline returns the texts, calls and results of the messages in order,
// and the names of messages that were set aside in brackets.
func outline(recs []transcript.Record) string {
	var words []string
	for _, r := range recs {
		switch b := r.Entry.Body.(type) {
		case transcript.MessageLine:
			for _, b := range b.Content {
				switch b := b.(type) {
				case transcript.TextBlock:
					words = append(words, b.Text)
				case transcript.ToolCallBlock:
					words = append(words, "call")
				case transcript.ToolResultBlock:
					words = append(words, "result")
				default:
					words = append(words, transcript.BlockType(b))
				}
			}
		case transcript.Custom:
			if b.Name != "system" && b.Name != "progress" {
				words = append(words, "("+b.Name+")")
			}
		default:
			words = append(words, "?"+r.Entry.Type())
		}
	}
	return strings.Join(words, " ")
}

// Rows without words neither fork a conversation nor end it.
func TestClaudeCodeReports(t *testing.T) {
	for name, want := range map[string]string{
		"api-error-takes-the-chain": "Name one river and where it ends. The Elbe. It ends in the North Sea. " +
			"Which city lies at its mouth? Cuxhaven.",
		"progress-forks-the-chain":   "Run the two checks. call result Lint is clean, now tests. call result Both are fine: 41 tests.",
		"prompt-typed-during-a-tool": "Build it. call result Never touch the vendor folder. Understood.",
	} {
		data, err := os.ReadFile(filepath.Join("testdata", "reports", name+".jsonl"))
		require.NoError(t, err)
		recs := scan(t, dialect.ClaudeCode, string(data))
		checkScanned(t, data, recs)
		require.Equal(t, want, outline(recs), name)
	}
}

// claudeRows returns a file of Claude Code. A row is its uuid, the uuid of its
// parent or "-", its type, and its words or other members.
func claudeRows(rows ...string) string {
	var sb strings.Builder
	for _, row := range rows {
		f := strings.SplitN(row, " ", 4)
		uuid, parent, kind, words := f[0], `"`+f[1]+`"`, f[2], f[3]
		if parent == `"-"` {
			parent = "null"
		}
		base := `{"uuid":"` + uuid + `","parentUuid":` + parent + `,"sessionId":"s","timestamp":"2026-03-01T09:00:00Z",`
		switch kind {
		case "user", "meta":
			more := ""
			if kind == "meta" {
				more = `"isMeta":true,`
			}
			base += more + `"type":"user","message":{"role":"user","content":"` + words + `"}`
		case "answer", "more":
			stop := `"end_turn"`
			if kind == "more" {
				stop = "null"
			}
			base += `"type":"assistant","message":{"id":"m` + uuid + `","role":"assistant","stop_reason":` + stop + `,"content":[{"type":"text","text":"` + words + `"}]}`
		case "call":
			base += `"type":"assistant","message":{"id":"` + words + `","role":"assistant","stop_reason":"tool_use","content":[{"type":"tool_use","id":"t` + uuid + `","name":"n","input":{}}]}`
		case "result":
			base += `"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + words + `","content":"ok"}]}`
		case "queued":
			if !strings.HasPrefix(words, "[") {
				words = `"` + words + `"`
			}
			base += `"type":"attachment","attachment":{"type":"queued_command","prompt":` + words + `}`
		default:
			base += `"type":"` + kind + `"` + words
		}
		sb.WriteString(base + "}\n")
	}
	return sb.String()
}

func TestClaudeCodeBranches(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		rows       []string
	}{
		{"an error, a call, its result and a second answer", "1 call result 2 3 4", []string{
			"a - user 1", "b a call x", "c b result tb", "d c answer 2", `e a system ,"subtype":"api_error"`, "f e user 3", "g f answer 4",
		}},
		{"an error before the answer", "1 2 3", []string{"a - user 1", "e a system ", "b a answer 2", "f e user 3"}},
		{"errors in a row", "1 2 3", []string{"a - user 1", "d a system ", "b a answer 2", "e d system ", "f e user 3"}},
		{"a hook without a parent", "1 2 3", []string{"a - user 1", "b a answer 2", "e - progress ", "f e user 3"}},
		{"two answers to one question", "1 2 3", []string{"a - user 1", "b a more 2", "c a answer 3"}},
		{"an answer without a parent", "1 2", []string{"a - user 1", "b - answer 2"}},
		{"back to a question", "1 (branch) 3", []string{"a - user 1", "b a answer 2", "c a user 3"}},
		{"back to an answer", "1 2 (branch) (branch) 5", []string{"a - user 1", "b a answer 2", "c b user 3", "d c answer 4", "e b user 5"}},
		{"back through a row without words", "1 2 (branch) (branch) 5", []string{
			"a - user 1", "b a answer 2", "s b system ", "c s user 3", "d c answer 4", "e s user 5",
		}},
		{"back to an abandoned branch", "1 2 (branch) 4", []string{"a - user 1", "b a answer 2", "c a user 3", "d b user 4"}},
		{"back with a local command", "1 2 (branch) meta 5", []string{"a - user 1", "b a answer 2", "c b user 3", "d b meta meta", "e d user 5"}},
		{"a hook that speaks for the user", "1 call result hook 3", []string{"a - user 1", "b a call x", "c b result tb", "d b meta hook", "e c answer 3"}},
		{"typed after parallel calls", "1 call call result result 2", []string{
			"a - user 1", "b a call x", "c b call x", "d b result tb", "e c result tc", "f b user 2",
		}},
		{"a late result of an abandoned call", "(branch) (branch) 2 (branch) 3", []string{
			"a - user 1", "b a call x", "c - user 2", "d b result tb", "e c answer 3",
		}},
		{"a late result at the end", "(branch) (branch) 2 3 (branch)", []string{
			"a - user 1", "b a call x", "c - user 2", "e c answer 3", "d b result tb",
		}},
		{"a late error of an abandoned branch", "(branch) (branch) 3 4 5", []string{
			"a - user 1", "b a answer 2", "c - user 3", "d c answer 4", "e a system ", "f e user 5",
		}},
		{"stopped by the user", "1 call [Request interrupted by user] 2", []string{
			"a - user 1", "b a call x", "c a user [Request interrupted by user]", "d c user 2",
		}},
		{"queued as blocks", "1 call result 2 3", []string{"a - user 1", "b a call x", "c b result tb", `d c queued [{"type":"text","text":"2"}]`, "e d answer 3"}},
		{"two queued with one parent", "1 call result 2 3 4", []string{"a - user 1", "b a call x", "c b result tb", "d c queued 2", "e c queued 3", "f c answer 4"}},
		{"queued and typed", "1 call result 2 (repeat) 3", []string{"a - user 1", "b a call x", "c b result tb", "d c queued 2", "e c user 2", "f e answer 3"}},
		{"typed and queued", "1 call 2 result (repeat) 3", []string{"a - user 1", "b a call x", "e b user 2", "c b result tb", "d c queued 2", "f d answer 3"}},
		{"queued twice", "1 call 2 2 (repeat) 3", []string{"a - user 1", "b a call x", "d b queued 2", "e d queued 2", "f e user 2", "g f answer 3"}},
		{"said again in the next turn", "1 call 2 3 2 4", []string{"a - user 1", "b a call x", "d b queued 2", "e d answer 3", "f e user 2", "g f answer 4"}},
		{"queued by the program", "1 (attachment) 2", []string{
			"a - user 1", `b a attachment ,"attachment":{"type":"queued_command","prompt":"done","commandMode":"task-notification"}`, "c b answer 2",
		}},
	} {
		data := claudeRows(tt.rows...)
		recs := scan(t, dialect.ClaudeCode, data)
		checkScanned(t, []byte(data), recs)
		if got := outline(recs); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A helper names the session that started it, and the call, wherever the
// program keeps its file.
func TestClaudeCodeHelpers(t *testing.T) {
	main := claudeRows("a - user 1", "b a call x") +
		`{"uuid":"c","parentUuid":"b","sessionId":"s","type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"tb","content":"ok"}]},"toolUseResult":{"agentId":"h1"}}` + "\n" +
		`{"uuid":"d","parentUuid":"c","sessionId":"s","type":"progress","data":{"type":"agent_progress","agentId":"h2"},"parentToolUseID":"td"}` + "\n"
	helper := func(agent string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{"uuid":"` + agent + `","parentUuid":null,"isSidechain":true,"agentId":"` + agent + `","sessionId":"s","type":"user","message":{"role":"user","content":"help"}}` + "\n")}
	}
	folder, err := dialect.ReadFolder(fstest.MapFS{
		"p/s.jsonl": {Data: []byte(main)}, "p/s/subagents/agent-h1.jsonl": helper("h1"), "p/agent-h2.jsonl": helper("h2"), "p/agent-h3.jsonl": helper("h3"),
	})
	require.NoError(t, err)
	for range 2 {
		got := []string{}
		for s := range folder.Sessions() {
			got = append(got, s.ID+" of "+s.Parent+" by "+s.Call)
		}
		require.Equal(t, []string{"s of  by ", "agent-h2 of s by td", "agent-h3 of s by ", "agent-h1 of s by tb"}, got)
	}
}
