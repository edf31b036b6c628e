package search_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

// reached counts needed words: anywhere in the history, next to the question's
// subject, and both again with the results of three searches.
type reached struct{ words, anywhere, carried, foundAnywhere, found int }

func (r reached) String() string {
	share := func(n int) float64 { return 100 * float64(n) / float64(max(r.words, 1)) }
	return fmt.Sprintf("%.1f %% carried, %.1f %% with three searches; in their sentence %.1f %%, %.1f %%; of %d",
		share(r.anywhere), share(r.foundAnywhere), share(r.carried), share(r.found), r.words)
}

func (r *reached) add(o reached) {
	r.words, r.anywhere, r.carried = r.words+o.words, r.anywhere+o.anywhere, r.carried+o.carried
	r.foundAnywhere, r.found = r.foundAnywhere+o.foundAnywhere, r.found+o.found
}

// mostAsked limits the questions about one chat.
const mostAsked = 120

// A long chat goes through compactions without a model. Words that its questions need are in the
// history, or in the results of three calls of the search tool: with the question, with its
// subject, and with the subject and words of corrections.
func TestRecallShare(t *testing.T) {
	for _, tt := range storetest.Extent(*storetest.Soak, []struct{ window, tokens, chats int }{{8_000, 16_000, 1}},
		[]struct{ window, tokens, chats int }{{8_000, 60_000, 2}, {32_000, 136_000, 2}, {200_000, 527_000, 1}},
		[]struct{ window, tokens, chats int }{{8_000, 60_000, 5}, {32_000, 136_000, 5}, {200_000, 527_000, 3}}) {
		t.Run(fmt.Sprintf("%dk", tt.window/1000), func(t *testing.T) {
			kinds, all, used := map[string]*reached{}, reached{}, 0
			for n := range tt.chats {
				used += recallShare(t, chatSeed+uint64(n), tt.window, tt.tokens, func(q chatQuestion, r reached) {
					if kinds[q.kind] == nil {
						kinds[q.kind] = &reached{}
					}
					all.add(r)
					kinds[q.kind].add(r)
				})
			}
			t.Logf("%dk window, %d chats of %dk tokens, %d compactions: %v", tt.window/1000, tt.chats, tt.tokens/1000, used, all)
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				t.Logf("  %s: %v", kind, *kinds[kind])
			}
			require.GreaterOrEqual(t, all.found*100, all.words*95)
		})
	}
}

func recallShare(t *testing.T, seed uint64, window, most int, count func(chatQuestion, reached)) (compactions int) {
	st := session.OpenDriver(memdriver.New(nil), &session.Options{
		Compact: compact.Options{Trigger: compact.Trigger{Window: window, Overhead: 1_000}, Recall: true},
	})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	c := newChat(seed)
	for size := 0; size < most; {
		user, assistant := c.turn()
		size += tokens.Estimator{}.Count("", nil, []transcript.Message{transcript.UserText(user), transcript.AssistantText(assistant)})
		_, err := s.Append(t.Context(), transcript.UserText(user), transcript.AssistantText(assistant))
		require.NoError(t, err)
		done, err := s.AfterTurn(t.Context())
		require.NoError(t, err)
		if done.Entry != "" {
			compactions++
		}
	}
	h, err := s.History(t.Context())
	require.NoError(t, err)
	var shown strings.Builder
	for _, m := range h.Messages {
		shown.WriteString(m.Text() + "\n")
	}
	tool := search.RecallTools(s)[0]
	step := max(1, len(c.questions)/mostAsked)
	for i, q := range c.questions {
		if i%step > 0 {
			continue
		}
		var results strings.Builder
		for _, query := range []string{q.text, q.about, q.about + " wrong moved correction mistake after all"} {
			input, err := json.Marshal(map[string]string{"query": query})
			require.NoError(t, err)
			text, err := tool.Call(t.Context(), input)
			require.NoError(t, err)
			require.Less(t, len(text), 8_200)
			results.WriteString(text)
		}
		r := reached{}
		for _, w := range q.words {
			r.words++
			if strings.Contains(shown.String(), w) {
				r.anywhere++
			}
			if strings.Contains(shown.String()+results.String(), w) {
				r.foundAnywhere++
			}
			if mentions(shown.String(), q, w) {
				r.carried++
			}
			if mentions(shown.String()+results.String(), q, w) {
				r.found++
			}
		}
		count(q, r)
	}
	return compactions
}

// mentions reports whether a text contains a word in a sentence about a
// question: alone, a day or a name may occur for many reasons.
func mentions(text string, q chatQuestion, word string) bool {
	for rest := text; ; {
		i := strings.Index(strings.ToLower(rest), strings.ToLower(q.about))
		if i < 0 {
			return false
		}
		from, to := max(0, i-60), min(len(rest), i+len(q.about)+60)
		if strings.Contains(rest[from:to], word) {
			return true
		}
		rest = rest[i+len(q.about):]
	}
}
