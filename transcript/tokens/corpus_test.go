package tokens_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/tokens"
)

// A sample is a text and its tokens by vocabulary.
type sample struct {
	class, text string
	counts      map[string]int
}

// own returns the texts of testdata/texts.txt and the generated ones, by class.
// testdata/counts.json has their tokens.
func own(t *testing.T) []sample {
	t.Helper()
	texts := map[string]string{}
	data, err := os.ReadFile(filepath.Join("testdata", "texts.txt"))
	require.NoError(t, err)
	for part := range strings.SplitSeq(string(data), "\n-- ") {
		name, text, ok := strings.Cut(strings.TrimPrefix(part, "-- "), " --\n")
		require.True(t, ok, "no name in front of %.40q", part)
		texts[name] = text
	}
	rng := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, 1500)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	texts["base64"] = base64.StdEncoding.EncodeToString(noise)
	texts["hex"] = hex.EncodeToString(noise[:1000])
	var csv, rows strings.Builder
	for i := range 60 {
		fmt.Fprintf(&csv, "%d,%.2f,%d,%.4f\n", 1000+i, 900*rng.Float64(), rng.IntN(100000), rng.Float64())
		fmt.Fprintf(&rows, `{"id":%d,"ok":%t,"name":"user-%d","score":%.1f,"tags":["a","b%d"]}`, 5000+i, i%3 == 0, rng.IntN(999), 100*rng.Float64(), i%7)
	}
	texts["numeric_csv"], texts["json_min"] = csv.String(), "["+strings.ReplaceAll(rows.String(), "}{", "},{")+"]"

	data, err = os.ReadFile(filepath.Join("testdata", "counts.json"))
	require.NoError(t, err)
	var rowsOf map[string]struct {
		SHA256 string         `json:"sha256"`
		Tokens map[string]int `json:"tokens"`
	}
	require.NoError(t, json.Unmarshal(data, &rowsOf))
	var samples []sample
	for _, class := range slices.Sorted(maps.Keys(texts)) {
		row, sum := rowsOf[class], sha256.Sum256([]byte(texts[class]))
		require.Equal(t, row.SHA256, hex.EncodeToString(sum[:8]), "%s: this is not the text whose tokens were counted", class)
		samples = append(samples, sample{class: class, text: texts[class], counts: row.Tokens})
	}
	return samples
}

// corpora names a folder with more sample files, by others and not in this module.
var corpora = flag.String("corpora", "", "a folder with more sample files")

// onCorpora runs a test with our own texts, and with a larger corpus if a flag
// names one.
func onCorpora(t *testing.T, test func(t *testing.T, samples []sample)) {
	t.Helper()
	t.Run("own", func(t *testing.T) { test(t, own(t)) })
	if *corpora != "" {
		t.Run("corpora", func(t *testing.T) { test(t, larger(t, filepath.Join(*corpora, "tokens"))) })
	}
}

// larger returns the texts of a folder.
func larger(t *testing.T, dir string) (samples []sample) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "counts.json"))
	require.NoError(t, err)
	var rows map[string]map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &rows))
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		require.NoError(t, err)
		s := sample{text: string(text), counts: map[string]int{}}
		for key, value := range rows[name] {
			if key == "class" {
				err = json.Unmarshal(value, &s.class)
			} else {
				var n int
				err = json.Unmarshal(value, &n)
				s.counts[key] = n
			}
			require.NoError(t, err, "%s: %s", name, key)
		}
		samples = append(samples, s)
	}
	return samples
}

// counted returns the samples that were counted with all these vocabularies, and
// for each the value halfway from the mean of the counts to the largest.
func counted(samples []sample, vocabularies []string) (of []sample, counts []int) {
	for _, s := range samples {
		n, sum, all := 0, 0, true
		for _, name := range vocabularies {
			n, sum, all = max(n, s.counts[name]), sum+s.counts[name], all && s.counts[name] > 0
		}
		if all {
			of, counts = append(of, s), append(counts, (n+sum/len(vocabularies))/2)
		}
	}
	return of, counts
}

// An estimate is within 8 % of the count on average, and within 30 % for the
// sum of the texts of one kind; within 20 % for kinds that once were far off.
func TestCorpus(t *testing.T) { onCorpora(t, testCorpus) }

func testCorpus(t *testing.T, all []sample) {
	for _, tt := range []struct {
		family tokens.Family
		of     []string // half way from the mean of these to the largest
	}{
		{tokens.Default, []string{"o200k"}},
		{tokens.O200k, []string{"o200k"}},
		{tokens.Cl100k, []string{"cl100k"}},
		{tokens.Gemini, []string{"gemma3"}},
		{tokens.DeepSeek, []string{"deepseek_v3"}},
		{tokens.Llama, []string{"llama3"}},
		{tokens.For("qwen3.8-max").Family, []string{"qwen3"}},
		{tokens.For("mistral-large-3").Family, []string{"tekken"}},
		{tokens.For("llama-4-scout").Family, []string{"llama4"}},
		{tokens.Cautious, []string{"o200k", "gemini", "deepseek_v3", "llama3"}},
	} {
		samples, counts := counted(all, tt.of)
		if strings.HasSuffix(t.Name(), "/corpora") && len(samples) == 0 {
			continue
		}
		require.NotEmpty(t, samples, "counted with %v", tt.of)
		e := tokens.Estimator{Family: tt.family}
		errors := 0.0
		under := map[int]int{} // texts by percent of margin
		classes := map[string][2]int{}
		for i, s := range samples {
			got, want := e.Text(s.text), counts[i]
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
			most := 30.0
			if slices.Contains([]string{"lang_ar", "lang_fa", "lang_hi", "lang_th", "lang_tr", "lang_vi", "de_compounds"}, class) && tt.family != tokens.Cautious {
				most = 20
			}
			if math.Abs(off) > most {
				t.Errorf("%v: %s is off by %.1f %%, want %.0f at most", tt.of, class, off, most)
			}
		}
	}
}

// The models of Claude since 4.7 count as many more tokens than earlier ones as third
// parties have measured, and earlier ones about as many as the last public vocabulary.
func TestCorpusClaude(t *testing.T) { onCorpora(t, testCorpusClaude) }

func testCorpusClaude(t *testing.T, all []sample) {
	percent := map[string]int{ // 4.7 of 4.6
		"en_prose": 140, "en_markdown_docs": 141, "lang_de": 146, "lang_fr": 136, "lang_es": 124, "log_git": 134, "json_min": 131, "transcript_jsonl": 131,
		"code_python": 124, "code_ts": 124, "code_go": 119, "code_c": 115, "numeric_csv": 106, "hex": 106,
	}
	sums := map[string][2]int{}
	for _, s := range all {
		if n := s.counts["claude_legacy"]; n > 0 && percent[s.class] > 0 {
			c := sums[s.class]
			sums[s.class] = [2]int{c[0] + tokens.Estimator{Family: tokens.ClaudeX}.Text(s.text), c[1] + n*percent[s.class]/100}
		}
	}
	require.NotEmpty(t, sums)
	errors := 0.0
	for _, class := range slices.Sorted(maps.Keys(sums)) {
		off := 100 * (float64(sums[class][0])/float64(sums[class][1]) - 1)
		t.Logf("%-20s %+6.1f %%", class, off)
		errors += math.Abs(off)
	}
	require.Less(t, errors/float64(len(sums)), 10.0, "percent, on average")
}

// A conversation of an agent is many texts: code, logs, JSON, prose. For an
// unknown model it is estimated within a fifth of every vocabulary's count, and
// rarely too low.
func TestCorpusMixes(t *testing.T) { onCorpora(t, testCorpusMixes) }

func testCorpusMixes(t *testing.T, all []sample) {
	for _, tt := range []struct {
		family      tokens.Family
		of          string
		least, most float64 // percent
	}{
		{tokens.Default, "o200k", -5, 5},
		{tokens.Cautious, "o200k", -10, 20},
		{tokens.Cautious, "cl100k", -10, 20},
		{tokens.Cautious, "llama3", -10, 20},
		{tokens.Cautious, "deepseek_v3", -10, 20},
		{tokens.Cautious, "gemini", -10, 20},
	} {
		errors := mixes(all, tokens.Estimator{Family: tt.family}, tt.of)
		require.NotEmpty(t, errors, "counted with %s", tt.of)
		low := 0
		for low < len(errors) && errors[low] < -5 {
			low++
		}
		t.Logf("family %d, %s: %+.1f %% (%+.1f to %+.1f), %d of %d are more than 5 %% too low",
			tt.family, tt.of, errors[len(errors)/2], errors[0], errors[len(errors)-1], low, len(errors))
		if errors[0] < tt.least || errors[len(errors)-1] > tt.most {
			t.Errorf("family %d, %s: mixes are off by %.1f to %.1f %%, want %.0f to %.0f", tt.family, tt.of, errors[0], errors[len(errors)-1], tt.least, tt.most)
		}
	}
}

// mixes returns the errors of an estimate for 600 conversations made of the texts
// that were counted with a vocabulary, in percent, the smallest first. It is nil
// if there are too few texts.
func mixes(all []sample, e tokens.Estimator, vocabulary string) (errors []float64) {
	var parts [][2]int // estimate and count
	for _, s := range all {
		switch s.class {
		case "code_c", "code_go", "code_js", "code_perl", "code_python", "code_shell", "code_ts", "css", "diff", "en_markdown", "en_markdown_docs",
			"en_prose", "html", "json_min", "json_pretty", "log", "log_git", "logs_shell", "transcript_jsonl", "yaml", "yaml_toml":
			if n := s.counts[vocabulary]; n > 0 {
				parts = append(parts, [2]int{e.Text(s.text), n})
			}
		}
	}
	if len(parts) == 0 {
		return nil
	}
	rng := rand.New(rand.NewPCG(1, 2))
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
	return errors
}
