package compact_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// recalled counts the facts searched for and found.
type recalled struct{ asked, found int }

func (r recalled) share() float64 { return float64(r.found) / float64(max(r.asked, 1)) }

// recallRun holds the measurements of a conversation with six compactions.
type recallRun struct {
	kinds         map[string]*recalled
	leaked        []string // secrets that code carries
	carried, made float64  // greatest shares of the window, without and with the summary
	filled        float64  // the mean share
	least, most   int      // sizes after compactions
	grown         []float64
	extracts      bool // the summaries are also made by code
}

// recall runs conversations through six compactions each, several if the window
// is small. After each compaction it looks for every earlier fact that is no
// longer shown verbatim.
func recall(t *testing.T, window int, share float64, s compact.Summarizer) *recallRun {
	t.Helper()
	run := &recallRun{kinds: map[string]*recalled{}, least: window, extracts: s == nil}
	for seed := range max(1, uint64(64_000/window)) {
		run.talk(t, newRecallWork(recallSeed+seed, share), window, s)
	}
	run.filled /= float64(len(run.grown))
	return run
}

// talk runs one conversation.
func (run *recallRun) talk(t *testing.T, w *recallWork, window int, s compact.Summarizer) {
	t.Helper()
	left := 0
	converse(t, window, compact.Options{Summarizer: s}, w.next, func(at talk) bool {
		run.grown = append(run.grown, float64(at.size-left)/float64(window))
		left = run.look(w, at.after, window)
		return at.n < 6
	})
}

// look looks for the facts in a history after a compaction, and returns the
// history's size.
func (r *recallRun) look(w *recallWork, h rebuild.History, window int) int {
	var kept, made []transcript.Message
	for _, m := range h.Messages {
		for i, b := range m.Content {
			list := &kept
			if m.Origins[i].Batch == 0 && m.Origins[i].Entry != "" {
				list = &made
			}
			*list = append(*list, transcript.Message{Role: m.Role, Content: []transcript.Block{b}})
		}
	}
	verbatim, shown := compact.Document{Results: -1}.Text(kept), compact.Document{Results: -1}.Text(made)
	for _, f := range w.facts {
		if strings.Contains(verbatim, f.text) {
			continue
		}
		if r.kinds[f.kind] == nil {
			r.kinds[f.kind] = &recalled{}
		}
		r.kinds[f.kind].asked++
		isFile := func(i transcript.Carried) bool { return i.Text == f.text }
		if strings.Contains(shown, f.text) || slices.ContainsFunc(h.Compaction.Files, isFile) {
			r.kinds[f.kind].found++
		}
	}
	carried := rebuild.CarriedText(*h.Compaction)
	if r.extracts {
		carried += h.Compaction.Summary
	}
	for _, s := range w.secrets {
		if strings.Contains(carried, s) {
			r.leaked = append(r.leaked, s)
		}
	}
	size := estimate.Count("", nil, h.Messages)
	r.carried = max(r.carried, float64(sizeOf(rebuild.CarriedText(*h.Compaction)))/float64(window))
	r.made = max(r.made, float64(estimate.Count("", nil, made))/float64(window))
	r.filled += float64(size) / float64(window)
	r.least, r.most = min(r.least, size), max(r.most, size)
	return size
}

func (r *recallRun) of(kinds ...string) recalled {
	var all recalled
	for _, k := range kinds {
		if one := r.kinds[k]; one != nil {
			all.asked, all.found = all.asked+one.asked, all.found+one.found
		}
	}
	return all
}

// The user's statements survive any number of compactions by a summarizer that
// keeps every second sentence, and so does the record of the work.
func TestRecallOfFacts(t *testing.T) {
	t.Parallel()
	bars := []struct {
		name  string
		kinds []string
		least float64
	}{
		{"user", ofUser, .95},
		{aChanged, []string{aChanged}, 1},
		{aReadFile, []string{aReadFile}, .95},
		{aFailure, []string{aFailure}, .90},
		{anID, []string{anID}, .90},
	}
	for _, share := range []float64{.01, .20} {
		for _, window := range amount([]int{16_000}, []int{8_000, 16_000, 32_000, 64_000, 200_000}) {
			t.Run(fmt.Sprintf("%d%%/%dk", int(share*100), window/1000), func(t *testing.T) {
				t.Parallel()
				r := recall(t, window, share, compact.SummarizerFunc(halfOf))
				var line strings.Builder
				for _, b := range bars {
					got := r.of(b.kinds...)
					fmt.Fprintf(&line, "%s %.1f %% of %d; ", b.name, 100*got.share(), got.asked)
					if share == .01 && window > 8_000 && got.share() < b.least {
						t.Errorf("%s: %d of %d are there", b.name, got.found, got.asked)
					}
				}
				for _, k := range ofUser {
					fmt.Fprintf(&line, "%s %.0f %%; ", k, 100*r.of(k).share())
				}
				t.Logf("%scarried <= %.1f %%, with the summary %.1f %%; filled %.1f %% (%.1f-%.1f); at least %.0f %% came in between", line.String(), 100*r.carried, 100*r.made, 100*r.filled,
					100*float64(r.least)/float64(window), 100*float64(r.most)/float64(window), 100*slices.Min(r.grown))
				if len(r.leaked) > 0 {
					t.Errorf("carried are the secrets %q", r.leaked)
				}
				if share == .01 && window > 8_000 && (r.filled < .30 || r.filled > .45) {
					t.Errorf("%.1f %% of the window are filled", 100*r.filled)
				}
				if r.carried > .25 {
					t.Errorf("carried text takes %.1f %% of the window", 100*r.carried)
				}
				if window > 8_000 && r.made > .34 || window > 16_000 && r.made > 1./3 {
					t.Errorf("carried text and summary take %.1f %% of the window", 100*r.made)
				}
			})
		}
	}
}

// Without a model, no text that a compaction adds contains a secret from the
// user, a tool or the assistant.
func TestRecallOfSecrets(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{.01, .20} {
		r := recall(t, 16_000, share, nil)
		if len(r.leaked) > 0 {
			t.Errorf("%q", r.leaked)
		}
		user, failures := r.of(ofUser...), r.of(aFailure)
		t.Logf("user %.0f %% of %d, tool errors %.0f %% of %d, filled %.0f %%", 100*user.share(), user.asked, 100*failures.share(), failures.asked, 100*r.filled)
	}
}
