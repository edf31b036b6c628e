package redact_test

import (
	"embed"
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript/redact"
)

//go:embed testdata/*.txt
var probes embed.FS

var (
	drawn  = regexp.MustCompile(`\{([aludh])(\d+)\}`)
	secret = regexp.MustCompile(`(?s)«(.*?)»`)
)

// probe returns the text of a line, and the text that it should become.
func probe(g generator, line string) (in, want string) {
	line = drawn.ReplaceAllStringFunc(line, func(m string) string {
		n, _ := strconv.Atoi(m[2 : len(m)-1])
		return g.of(map[byte]string{'a': alnum, 'l': lower, 'u': upper + numerals, 'd': numerals, 'h': "0123456789abcdef"}[m[1]], n)
	})
	if !json.Valid([]byte(secret.ReplaceAllString(line, "$1"))) { // JSON has escapes of its own
		line = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\t`, "\t").Replace(line)
	}
	return secret.ReplaceAllString(line, "$1"), secret.ReplaceAllString(line, "[masked]")
}

// Real texts, as agents and people write them.
func TestProbes(t *testing.T) {
	// The third to the fifth have secrets that the doc of the package leaves out. The words
	// have none: the precision is zero if one of them is masked.
	for name, least := range map[string][2]float64{
		"words.txt": {0, 0.98}, "first.txt": {0.98, 0.98}, "second.txt": {0.98, 0.98}, "third.txt": {0.93, 0.98}, "fourth.txt": {0.92, 0.98},
		"fifth.txt": {0.91, 0.98}, "sixth.txt": {0.98, 0.98}, "seventh.txt": {0.96, 0.98}, "eighth.txt": {0.98, 0.98}, "ninth.txt": {0.98, 0.95},
	} {
		data, err := probes.ReadFile("testdata/" + name)
		require.NoError(t, err)
		g := generator{rand.New(rand.NewPCG(44, 2026))}
		count, secrets, found, wrong := 0, 0, 0, 0
		for line := range strings.Lines(string(data)) {
			line = strings.TrimSuffix(line, "\n")
			if strings.HasPrefix(line, "# ") {
				continue
			}
			count++
			in, want := probe(g, line)
			got := redact.Secrets(t.Context(), in)
			require.Equal(t, got, redact.Secrets(t.Context(), got), "masked twice")
			n := strings.Count(want, "[masked]")
			secrets += n
			if got == want {
				found += n
				continue
			}
			t.Logf("%s: %q becomes %q", name, in, got)
			if n == 0 || strings.Count(got, "[masked]") > n || got != in && strings.Count(got, "[masked]") == n {
				wrong++
			}
		}
		recall, precision := float64(found)/float64(secrets), float64(found)/float64(found+wrong)
		t.Logf("%s: %d texts with %d secrets: recall %.3f, precision %.3f", name, count, secrets, recall, precision)
		if count < 60 || recall < least[0] || precision < least[1] {
			t.Errorf("%s: recall %.3f, precision %.3f of %d texts: want at least %.2f and %.2f, of 60", name, recall, precision, count, least[0], least[1])
		}
	}
}
