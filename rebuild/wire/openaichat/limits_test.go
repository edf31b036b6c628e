package openaichat_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/transcript"
)

// parallel returns a conversation with an answer of n calls and their results.
func parallel(n int) transcript.Request {
	answer := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.TextBlock{Text: "I look."}}}
	results := transcript.Message{Role: transcript.RoleUser}
	for i := range n {
		id := fmt.Sprint("call_", i)
		answer.Content = append(answer.Content, transcript.ToolCallBlock{ID: id, Name: "n", Input: []byte(`{}`)})
		results.Content = append(results.Content, transcript.ToolResultBlock{CallID: id, Content: []transcript.Block{transcript.TextBlock{Text: "r"}}})
	}
	results.Content = append(results.Content, transcript.TextBlock{Text: "Go on."})
	return transcript.Request{Model: "gpt-x", Messages: []transcript.Message{transcript.UserText("go"), answer, results}}
}

// strict returns the referee of a format.
func strict(c openaichat.Format) wiretest.OpenAIChat {
	return wiretest.OpenAIChat{Reasoning: c.Reasoning, ShortIDs: c.ShortIDs}
}

func rules(report rebuild.Report) string {
	var names []string
	for _, r := range report {
		names = append(names, string(r.Rule))
	}
	return strings.Join(names, " ")
}

// An answer has at most 128 calls; each part of a larger one is followed by its
// results; the text comes once.
func TestManyCalls(t *testing.T) {
	for _, tt := range []struct {
		calls, answers int
		rules          string
	}{{128, 1, ""}, {129, 2, "split-answer"}, {300, 3, "split-answer"}} {
		for _, c := range []openaichat.Format{{}, {Reasoning: true}} {
			body, report, err := c.Request(parallel(tt.calls))
			if err != nil || rules(report) != tt.rules {
				t.Fatalf("%d calls: report %v, error %v", tt.calls, report, err)
			}
			if found := wiretest.Check(strict(c), body); len(found) > 0 {
				t.Errorf("%d calls: %v", tt.calls, found)
			}
			for what, n := range map[string]int{`"role":"assistant"`: tt.answers, `"role":"tool"`: tt.calls, "I look.": 1, "Go on.": 1} {
				if got := strings.Count(string(body), what); got != n {
					t.Errorf("%d calls: %s is there %d times, not %d", tt.calls, what, got, n)
				}
			}
		}
	}
}

// Servers that imitate the API refuse more than the original.
func TestImitatorRules(t *testing.T) {
	mistral, deepSeek := openaichat.Format{ShortIDs: true}, openaichat.Format{Reasoning: true}
	body, report, err := mistral.Request(parallel(2))
	require.NoError(t, err)
	require.Equal(t, "rewritten-id rewritten-id added-answer", rules(report))
	if found := wiretest.Check(strict(mistral), body); len(found) > 0 {
		t.Errorf("%v in %s", found, body)
	}
	const answer = `{"role":"assistant","content":null,"tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"n","arguments":"{}"}}]}`
	const result = `{"role":"tool","tool_call_id":"abcdefghi","content":""}`
	for _, tt := range []struct {
		format   openaichat.Format
		messages string
		rule     string
	}{
		{mistral, answer + "," + result + `,{"role":"user","content":"x"}`, "user-after-tool"},
		{mistral, answer + "," + result + `,{"role":"assistant","content":"x"}`, "prefill"},
		{deepSeek, answer + "," + result, "reasoning"},
		{openaichat.Format{}, answer + "," + result + `,{"role":"user","content":"x"},{"role":"assistant","content":"x"}`, ""},
	} {
		var got []string
		for _, v := range wiretest.Check(strict(tt.format), []byte(`{"model":"m","messages":[{"role":"user","content":"go"},`+tt.messages+`]}`)) {
			got = append(got, v.Rule)
		}
		if !slices.Equal(got, strings.Fields(tt.rule)) {
			t.Errorf("rules %v, want %q", got, tt.rule)
		}
	}
}
