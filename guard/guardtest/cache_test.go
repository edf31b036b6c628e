package guardtest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// A model reads the longest prefix that an earlier request has marked, if a mark follows
// within twenty blocks, and writes the rest up to the last mark.
func TestCache(t *testing.T) {
	const mark = `,"cache_control":{"type":"ephemeral"}`
	block := func(text string, words int, mark string) string {
		return fmt.Sprintf(`{"type":"text","text":%q%s}`, strings.Repeat(text+" ", words), mark)
	}
	user := func(blocks ...string) string { return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}` }
	body := func(tool, system string, messages ...string) string {
		return `{"model":"m","max_tokens":100,"tools":[{"name":"` + tool + `","input_schema":{"type":"object"}}],"system":[` + system + `],"messages":[` + strings.Join(messages, ",") + `]}`
	}
	system, marked := block("system", 2000, ""), block("system", 2000, mark)
	answer := `{"role":"assistant","content":"It is fine."}`
	first := body("a", marked, user(block("one", 2000, mark)))
	many := make([]string, 20)
	for i := range many {
		many[i] = block("many", 1, "")
	}
	const none, prompt, start = "none", "the system prompt", "the first request"
	for _, tt := range []struct {
		name, next, read string
		written          bool
	}{
		{"the same", first, start, false},
		{"the next turn", body("a", marked, user(block("one", 2000, "")), answer, user(block("two", 2000, mark))), start, true},
		{"without marks", body("a", system, user(block("one", 2000, ""))), none, false},
		{"an edited message", body("a", marked, user(block("One", 2000, mark))), prompt, true},
		{"an edited message without a mark before it", body("a", system, user(block("One", 2000, mark))), prompt, true},
		{"an edited system prompt", body("a", block("System", 2000, mark), user(block("one", 2000, mark))), none, true},
		{"another tool", body("b", marked, user(block("one", 2000, mark))), none, true},
		{"twenty blocks later", body("a", system, user(append(append([]string{block("one", 2000, "")}, many[1:19]...), block("two", 1, mark))...)), start, true},
		{"more blocks later", body("a", system, user(append(append([]string{block("one", 2000, "")}, many...), block("two", 1, mark))...)), none, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &guardtest.Model{Cache: true}
			ask := func(body string) transcript.Usage {
				t.Helper()
				status, answer, err := inProcess(m).post(t, body)
				require.NoError(t, err)
				require.Equal(t, 200, status, "%s", answer)
				return usageOf(t, answer)
			}
			before := ask(first)
			require.Zero(t, before.CacheRead)
			require.Equal(t, before.Prompt(), before.CacheWrite)
			want := map[string]int{none: 0, start: before.Prompt()}
			want[prompt] = ask(body("a", marked, user(block("-", 1, "")))).CacheRead
			require.Greater(t, want[start], want[prompt])
			require.Greater(t, want[prompt], 1024)
			after := ask(tt.next)
			require.Equal(t, want[tt.read], after.CacheRead)
			require.Equal(t, tt.written, after.CacheWrite > 0)
			if m := m.Requests(); !strings.Contains(tt.next, mark) {
				require.Equal(t, m[len(m)-1].Tokens, after.Input)
			}
		})
	}
	m := &guardtest.Model{Cache: true}
	for range 2 {
		_, answer, err := inProcess(m).post(t, body("a", block("short", 1, mark), user(block("one", 1, mark))))
		require.NoError(t, err)
		u := usageOf(t, answer)
		require.Zero(t, u.CacheRead+u.CacheWrite, "too short to cache")
	}
}

func usageOf(t *testing.T, answer []byte) transcript.Usage {
	t.Helper()
	resp, err := anthropic.Format{}.Response(answer)
	require.NoError(t, err)
	return resp.Usage
}
