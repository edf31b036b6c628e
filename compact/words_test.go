package compact_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// core are the kinds of facts whose loss makes users angry.
var core = []string{aConstraint, aCorrection, aDeferred, aDecision}

// wordsRun counts the facts that were found after a number of compactions:
// found[kind][depth].
type wordsRun struct {
	found           map[string][]recalled
	carried, filled float64 // greatest and mean share of the window
	verbatim        float64 // mean share
	n               int
}

// runWords runs a conversation up to the last of the compactions, by a summarizer
// that keeps nothing.
func runWords(t *testing.T, w *wordsWork, window, depth, maxCarried int) *wordsRun {
	t.Helper()
	run := &wordsRun{found: map[string][]recalled{}}
	nothing := compact.SummarizerFunc(func(context.Context, compact.Input) (string, error) {
		return "They went on with what had been asked, and most of it is finished by now, as the messages below show. " + strings.Repeat("It went well. ", 20), nil
	})
	covered := map[int]int{} // fact -> the compaction that covered it
	converse(t, window, compact.Options{Summarizer: nothing, MaxCarried: maxCarried}, w.next, func(at talk) bool {
		verbatim := compact.Document{Results: -1}.Text(rebuild.Without(at.after.Messages, func(_ transcript.Block, from transcript.Origin) bool { return from.Batch == 0 }))
		shown := rebuild.CarriedText(at.made)
		for k, fact := range w.facts {
			if w.stale[k] || covered[k] == 0 && strings.Contains(verbatim, fact.text) {
				continue
			}
			if covered[k] == 0 {
				covered[k] = at.n
			}
			kind := run.found[fact.kind]
			if kind == nil {
				kind = make([]recalled, depth+1)
				run.found[fact.kind] = kind
			}
			age := at.n - covered[k] + 1
			kind[age].asked++
			if strings.Contains(shown, fact.text) || strings.Contains(verbatim, fact.text) {
				kind[age].found++
			}
		}
		run.carried = max(run.carried, float64(sizeOf(shown))/float64(window))
		run.verbatim += float64(sizeOf(verbatim)) / float64(window)
		run.filled += float64(estimate.Count("", nil, at.after.Messages)) / float64(window)
		run.n = at.n
		return at.n < depth
	})
	return run
}

// of returns how many facts of the kinds were found at a range of depths.
func (r *wordsRun) of(from, to int, kinds ...string) (all recalled) {
	for _, kind := range kinds {
		for depth, one := range r.found[kind] {
			if depth >= from && depth <= to {
				all.asked, all.found = all.asked+one.asked, all.found+one.found
			}
		}
	}
	return all
}

// The user's facts are still there after any number of compactions, in every
// language, although the summarizer keeps none of them.
func TestUserWords(t *testing.T) {
	t.Parallel()
	all := []string{"en", "de", "zh", "ja"}
	for i, tt := range []struct {
		name  string
		share float64
		coder bool
	}{{"talk", .08, false}, {"coder", .05, true}} {
		for _, lang := range amount(all[2*i:2*i+1], all) {
			for _, window := range amount([]int{32_000}, []int{16_000, 32_000, 64_000, 200_000}) {
				t.Run(fmt.Sprintf("%s/%s/%dk", tt.name, lang, window/1000), func(t *testing.T) {
					t.Parallel()
					depth := amount(6, 20)
					r := runWords(t, newWordsWork(wordsSeed, lang, tt.share, tt.coder), window, depth, 0)
					var line strings.Builder
					show := func(name string, kinds ...string) {
						fmt.Fprintf(&line, "%s", name)
						for _, at := range []int{1, 3, 6, 10, 15, 20} {
							if at <= depth {
								got := r.of(at, at, kinds...)
								fmt.Fprintf(&line, " %.0f%%(%d)", 100*got.share(), got.asked)
							}
						}
						line.WriteString("; ")
					}
					show("core", core...)
					for _, kind := range slices.Concat(core, []string{inPaste, inFile, anOption}) {
						show(kind, kind)
					}
					ofOptions := .95
					if window < 32_000 {
						ofOptions = .9
					}
					for _, bar := range []struct {
						kinds []string
						deep  int
						least float64
					}{{core, depth, .95}, {[]string{inPaste}, 6, .9}, {[]string{inFile}, depth, 1}, {[]string{anOption}, 10, ofOptions}} {
						if got := r.of(1, bar.deep, bar.kinds...); got.asked > 0 && got.share() < bar.least {
							t.Errorf("%v to depth %d: %d of %d are there", bar.kinds, bar.deep, got.found, got.asked)
						}
					}
					require.LessOrEqual(t, r.carried, .25, "of the window")
					t.Logf("%scarried <= %.1f %%; filled %.1f %%", line.String(), 100*r.carried, 100*r.filled/float64(r.n))
				})
			}
		}
	}
}

// In a chat in which the user writes half of all tokens, not all texts can be
// carried. A lower MaxCarried keeps more verbatim, and fewer of the older facts.
func TestChatWords(t *testing.T) {
	t.Parallel()
	for _, lang := range amount([]string{"en"}, []string{"en", "de", "zh", "ja"}) {
		for _, most := range []int{0, 32_000 / 12} {
			t.Run(fmt.Sprintf("%s/%d", lang, most), func(t *testing.T) {
				t.Parallel()
				r := runWords(t, newWordsWork(wordsSeed, lang, .5, false), 32_000, amount(4, 10), most)
				var line strings.Builder
				for _, at := range amount([]int{1, 3, 4}, []int{1, 3, 6, 10}) {
					got := r.of(at, at, core...)
					fmt.Fprintf(&line, " %.0f%%(%d)", 100*got.share(), got.asked)
				}
				t.Logf("core%s; carried <= %.1f %%, verbatim %.1f %%, filled %.1f %%", line.String(), 100*r.carried, 100*r.verbatim/float64(r.n), 100*r.filled/float64(r.n))
				if most > 0 {
					require.LessOrEqual(t, r.carried, 1./12)
				}
			})
		}
	}
}
