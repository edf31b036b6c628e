package compact_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/transcript"
)

// shortSummary is a line of testdata/summaries.txt.
type shortSummary struct{ talk, kind, text string }

func shortSummaries(t *testing.T) (list []shortSummary) {
	data, err := os.ReadFile("testdata/summaries.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		of, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		talk, kind, both := strings.Cut(of, " ")
		require.True(t, ok && both, line)
		list = append(list, shortSummary{talk, kind, strings.NewReplacer(`\n`, "\n", `\e`, "\x1b").Replace(text)})
	}
	return list
}

// talkOf is a conversation of about size tokens: about work with code, or in a
// language of testdata/notes.
func talkOf(t *testing.T, talk string, size int) (msgs []transcript.Message) {
	next := newRecallWork(1, .05).next
	if talk != "code" {
		next = newNotes(t, talk).next
	}
	for n := 0; n < size; {
		for _, item := range next() {
			m := item.(transcript.Message)
			msgs, n = append(msgs, m), n+estimate.Count("", nil, []transcript.Message{m})
		}
	}
	return msgs
}

// Every honest summary is accepted, however short. Bad ones are refused, except for a
// few without a sign in their size and form.
func TestShortSummaries(t *testing.T) {
	t.Parallel()
	for _, size := range amount([]int{3_000, 20_000}, []int{3_000, 20_000, 100_000}) {
		talks, count := map[string][]transcript.Message{}, map[string]int{}
		for i, s := range shortSummaries(t) {
			if count[s.kind]++; size > 3_000 && i%amount(4, 1) != 0 {
				continue
			}
			if talks[s.talk] == nil {
				talks[s.talk] = talkOf(t, s.talk, size)
			}
			in := compact.Input{Messages: talks[s.talk], MaxTokens: 2_000}
			_, err := compact.Either(says(s.text, nil)).Summarize(t.Context(), in)
			if errors.Is(err, compact.ErrRefused) != (s.kind == "bad") {
				t.Errorf("%d tokens, %s %s %q: %v", size, s.talk, s.kind, s.text, err)
			}
		}
		require.Equal(t, map[string]int{"honest": 42, "bad": 37, "untold": 7}, count)
	}
}
