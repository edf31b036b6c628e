package tokens_test

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/convolog/convolog/transcript/tokens"
)

// A sample is a text of the corpus and its tokens by vocabulary.
type sample struct {
	class, text string
	counts      map[string]int
}

func corpus(t *testing.T) []sample {
	t.Helper()
	dir := filepath.Join("..", "..", "..", "shared", "corpora", "tokens")
	data, err := os.ReadFile(filepath.Join(dir, "counts.json"))
	if err != nil {
		t.Skip("no corpus beside the checkout: ", err)
	}
	var rows map[string]map[string]json.RawMessage
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	var samples []sample
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		s := sample{text: string(text), counts: map[string]int{}}
		for key, value := range rows[name] {
			if key == "class" {
				err = json.Unmarshal(value, &s.class)
			} else {
				var n int
				err = json.Unmarshal(value, &n)
				s.counts[key] = n
			}
			if err != nil {
				t.Fatalf("%s: %s: %v", name, key, err)
			}
		}
		samples = append(samples, s)
	}
	if len(samples) < 100 {
		t.Fatalf("%d texts", len(samples))
	}
	return samples
}

// An estimate is within 8 % of the count on average, for the sum of the texts
// of one kind within 30 %.
func TestCorpus(t *testing.T) {
	samples := corpus(t)
	for _, tt := range []struct {
		family tokens.Family
		of     []string // the largest of these
	}{
		{tokens.Default, []string{"o200k"}},
		{tokens.O200k, []string{"o200k"}},
		{tokens.Cl100k, []string{"cl100k"}},
		{tokens.Gemini, []string{"gemini"}},
		{tokens.DeepSeek, []string{"deepseek_v3"}},
		{tokens.Llama, []string{"llama3"}},
		{tokens.Cautious, []string{"o200k", "gemini", "deepseek_v3", "llama3"}},
	} {
		e := tokens.Estimator{Family: tt.family}
		errors := 0.0
		under := map[int]int{} // texts by percent of margin
		classes := map[string][2]int{}
		for _, s := range samples {
			want := 0
			for _, name := range tt.of {
				want = max(want, s.counts[name])
			}
			got := e.Text(s.text)
			errors += math.Abs(float64(got-want)) / float64(want)
			for _, margin := range []int{0, 5, 10, 15, 20} {
				if got*(100+margin) < want*100 {
					under[margin]++
				}
			}
			c := classes[s.class]
			classes[s.class] = [2]int{c[0] + got, c[1] + want}
		}
		mean := 100 * errors / float64(len(samples))
		t.Logf("%v: mean absolute error %.2f %%, too low by factor: %v of %d", tt.of, mean, under, len(samples))
		if mean > 8 {
			t.Errorf("%v: mean absolute error is %.2f %%, want 8 at most", tt.of, mean)
		}
		for _, class := range slices.Sorted(maps.Keys(classes)) {
			c := classes[class]
			off := 100 * (float64(c[0])/float64(c[1]) - 1)
			if tt.family == tokens.Default {
				t.Logf("%-20s %+6.1f %%", class, off)
			}
			if math.Abs(off) > 30 {
				t.Errorf("%v: %s is off by %.1f %%, want 30 at most", tt.of, class, off)
			}
		}
	}
}

// A conversation of an agent is many texts: code, logs, JSON, prose.
func TestCorpusMixes(t *testing.T) {
	var parts [][2]int // estimate and count
	for _, s := range corpus(t) {
		switch s.class {
		case "code_c", "code_go", "code_js", "code_perl", "code_python", "code_shell", "code_ts", "css", "diff", "en_markdown_docs",
			"en_prose", "html", "json_min", "json_pretty", "log_git", "logs_shell", "transcript_jsonl", "yaml_toml":
			parts = append(parts, [2]int{est.Text(s.text), s.counts["o200k"]})
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var errors []float64
	for range 600 {
		got, want := 0, 0
		for range 40 {
			p := parts[rng.IntN(len(parts))]
			got += p[0]
			want += p[1]
		}
		errors = append(errors, 100*(float64(got)/float64(want)-1))
	}
	slices.Sort(errors)
	t.Logf("600 mixes of %d texts: %+.1f %% (%+.1f to %+.1f)", len(parts), errors[300], errors[0], errors[599])
	if errors[0] < -5 || errors[599] > 5 {
		t.Errorf("mixes are off by %.1f to %.1f %%, want 5 at most", errors[0], errors[599])
	}
}
