package compact_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// keepsNothing writes a summary without facts.
func keepsNothing(context.Context, compact.Input) (string, error) {
	return strings.Repeat("They went through several matters, one after the other, and continued. ", 6), nil
}

// depths are the numbers of compactions at which the columns end.
var depths = []int{3, 6, 10, 15, 20}

// TestNotes measures carried texts again, with texts by another author than
// TestUserWords. Its least shares hold for each language.
func TestNotes(t *testing.T) {
	t.Parallel()
	for _, window := range amount([]int{16_000}, []int{16_000, 32_000, 64_000}) {
		for _, language := range []string{"de", "en", "es", "ja"} {
			t.Run(fmt.Sprintf("%dk/%s", window/1_000, language), func(t *testing.T) {
				t.Parallel()
				testNotes(t, window, language)
			})
		}
	}
}

func testNotes(t *testing.T, window int, language string) {
	n := newNotes(t, language)
	type cell struct{ found, all int }
	table := map[string][]cell{}
	user, tokens := 0, 0
	age := map[string]int{} // fact -> compactions since
	next := func() []transcript.Item {
		items := n.next()
		for _, item := range items {
			if m := item.(transcript.Message); m.Role == transcript.RoleUser && m.Text() != "" {
				user += sizeOf(m.Text())
			}
		}
		return items
	}
	converse(t, window, compact.Options{Summarizer: compact.SummarizerFunc(keepsNothing)}, next, func(now talk) bool {
		tokens += now.cut.Covered
		carried := oneSpace(rebuild.CarriedText(now.made))
		kept := oneSpace(compact.Document{Results: -1}.Text(now.before.Messages[now.cut.At:]))
		for _, fact := range n.live {
			key := fact.key + fact.texts[0]
			in := func(text string) func(string) bool {
				return func(s string) bool { return strings.Contains(text, oneSpace(s)) }
			}
			if slices.ContainsFunc(fact.texts[:1], in(kept)) {
				continue // it is still shown
			}
			age[key]++
			cells := table[fact.kind]
			if cells == nil {
				cells = make([]cell, len(depths))
			}
			at, _ := slices.BinarySearch(depths, age[key])
			cells[at].all++
			if !slices.ContainsFunc(fact.texts, func(s string) bool { return !in(carried)(s) }) {
				cells[at].found++
			} else if *soak == "long" {
				t.Logf("%s lost at %d: %s: %q", t.Name(), age[key], fact.kind, fact.texts)
			}
			table[fact.kind] = cells
		}
		return now.n < amount(6, 20)
	})
	t.Logf("%s: the user has %d %% of ~%d tokens", t.Name(), user*100/(tokens+1), tokens)
	small := window < 32_000
	said := make([]cell, len(depths))
	for _, kind := range slices.Sorted(maps.Keys(table)) {
		ofUser := slices.Contains([]string{"constraint", "decision", "correction", "later"}, kind)
		var row strings.Builder
		for i, c := range table[kind] {
			fmt.Fprintf(&row, " %d/%d", c.found, c.all)
			if ofUser {
				said[i].found, said[i].all = said[i].found+c.found, said[i].all+c.all
			}
		}
		t.Logf("%s: %-14s%s", t.Name(), kind, row.String())
	}
	for _, bar := range []struct {
		cells  []cell
		deep   int // columns
		least  float64
		unless bool
	}{
		{said, 3, .95, false},
		{said, 5, .95, small},
		{said[3:], 2, .8, false},
		{table["answer"], 3, .95, false},
		{table["file"], 5, 1, false},
		{table["paste of rows"], 2, .9, small},
	} {
		var all cell
		for _, c := range bar.cells[:min(bar.deep, len(bar.cells))] {
			all.found, all.all = all.found+c.found, all.all+c.all
		}
		if !bar.unless {
			require.GreaterOrEqual(t, float64(all.found), bar.least*float64(all.all), "%v", bar)
		}
	}
}

func oneSpace(s string) string { return strings.Join(strings.Fields(s), " ") }
