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
)

// kept counts the words that answers need: the ones in the final history, and the
// ones there or in the result of one search with the question.
type kept struct{ words, carried, searched int }

func (k kept) share() (carried, searched float64) {
	return 100 * float64(k.carried) / float64(max(k.words, 1)), 100 * float64(k.searched) / float64(max(k.words, 1))
}

func (k kept) String() string {
	carried, searched := k.share()
	return fmt.Sprintf("%.1f %% carried, %.1f %% with one search, of %d words", carried, searched, k.words)
}

// keptTable holds the counts for each kind of question.
type keptTable map[string]*kept

func (k keptTable) all() (sum kept) {
	for _, one := range k {
		sum.words, sum.carried, sum.searched = sum.words+one.words, sum.carried+one.carried, sum.searched+one.searched
	}
	return sum
}

// ask compacts a conversation in a window with a summarizer that keeps no facts, and
// then asks its questions.
func (k keptTable) ask(t *testing.T, talk longTalk, window int) (compactions int) {
	t.Helper()
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Compact: compact.Options{
		Trigger: compact.Trigger{Window: window, Overhead: 1_000}, Recall: true,
		Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary)),
	}})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	for _, m := range talk.messages {
		storetest.Add(t, s, m)
		if m.Role != transcript.RoleAssistant {
			continue
		}
		done, err := s.AfterTurn(t.Context())
		require.NoError(t, err)
		if done.Entry != "" {
			compactions++
		}
	}
	h, err := s.History(t.Context())
	require.NoError(t, err)
	var sb strings.Builder
	for _, m := range h.Messages {
		sb.WriteString(m.Text() + "\n")
	}
	shown := strings.ToLower(sb.String())
	tool := search.RecallTools(s)[0]
	for _, p := range talk.probes {
		input, err := json.Marshal(map[string]string{"query": p.text})
		require.NoError(t, err)
		result, err := tool.Call(t.Context(), input)
		require.NoError(t, err)
		result = strings.ToLower(result)
		if k[p.kind] == nil {
			k[p.kind] = &kept{}
		}
		for _, w := range p.words {
			k[p.kind].words++
			w = strings.ToLower(w)
			if strings.Contains(shown, w) {
				k[p.kind].carried++
			}
			if strings.Contains(shown, w) || strings.Contains(result, w) {
				k[p.kind].searched++
			} else if *storetest.Soak == "long" {
				t.Logf("%s: %s: %q is lost", p.kind, p.text, w)
			}
		}
	}
	return compactions
}

func (k keptTable) log(t *testing.T, title string) {
	t.Logf("%s: %v", title, k.all())
	for _, kind := range slices.Sorted(maps.Keys(k)) {
		t.Logf("  %s: %v", kind, *k[kind])
	}
}

// After compactions whose summaries keep no facts, most words that answers to ten kinds
// of questions need are carried, and one search finds the rest.
func TestTenKinds(t *testing.T) {
	for _, window := range storetest.Extent(*storetest.Soak, []int{32_000}, []int{16_000, 32_000}, []int{16_000, 32_000, 64_000}) {
		t.Run(fmt.Sprintf("%dk", window/1000), func(t *testing.T) {
			k, n, talks := keptTable{}, 0, storetest.Extent(*storetest.Soak, 3, 5, 10)
			for seed := range uint64(talks) {
				n += k.ask(t, newTenKinds(tenSeed+seed), window)
			}
			k.log(t, fmt.Sprintf("%dk, %d conversations, %d compactions", window/1000, talks, n))
			if carried, searched := k.all().share(); window >= 32_000 && (carried < 93 || searched < 97) {
				t.Errorf("%.1f %% of the words are carried, want 93; with one search %.1f %%, want 97", carried, searched)
			}
		})
	}
}
