package compact_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// carriedOf compacts one turn with a call and its result, and returns the lines
// of what is carried by the place in which it was seen.
func carriedOf(t *testing.T, opts *compact.Options, user string, results ...string) map[string]string {
	t.Helper()
	f := rebuild.New(nil)
	add(t, f, "a", transcript.UserText(user))
	for i, r := range results {
		id := fmt.Sprint("c", i)
		result := transcript.ToolResult(id, r)
		if strings.HasPrefix(r, "FAIL") {
			result = transcript.ToolError(id, r)
		}
		add(t, f, id, called(id, "run", `{}`), result)
	}
	add(t, f, "z", transcript.AssistantText(strings.Repeat("They looked at it and went on. ", 60)))
	for i := range 3 {
		add(t, f, fmt.Sprint("n", i), transcript.UserText("and then"), transcript.AssistantText("yes"))
	}
	opts.Keep, opts.Summarizer = compact.Keep{Turns: 1}, says("They talked about the harbour and the bridge for some time.", nil)
	c, err := compactOnce(t, f, opts)
	require.NoError(t, err)
	lines := map[string]string{}
	for line := range strings.Lines(carriedPart(c.Summary)) {
		if name, rest, ok := strings.Cut(line, ": "); ok {
			lines[name] = strings.TrimSpace(rest)
		}
	}
	return lines
}

// A file is carried once, whatever lines of it were mentioned, and with the line
// only where a user or an error named it.
func TestCarriedLines(t *testing.T) {
	var listing strings.Builder
	for i := range 20 {
		fmt.Fprintf(&listing, "src/shop.go:%d: x\nsrc/cart.go:%d: x\n", 100+i, 200+i)
	}
	got := carriedOf(t, &compact.Options{}, "See docs/plan.md:12 and docs/plan.md:40 please.", "FAIL src/pay.go:7: no\n", "FAIL src/pay.go:9: no", listing.String())
	for name, want := range map[string]string{
		"By the user": "docs/plan.md:40 docs/plan.md:12",
		"In errors":   "src/pay.go:9",
		"In results":  "src/cart.go src/shop.go",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}

// Members of things in a program look like files. They are the last to be
// carried, unless the user named them.
func TestCarriedMembers(t *testing.T) {
	var program strings.Builder
	for i := range 12 {
		word := string(rune('a' + i))
		fmt.Fprintf(&program, "self.x%stems = this.%sb + self.%scount # see conf/%s.yaml\n", word, word, word, word)
	}
	got := carriedOf(t, &compact.Options{MaxCarried: 110}, "Change shop.total and nothing else.", program.String())
	if got["By the user"] != "shop.total" {
		t.Errorf("by the user: %q", got["By the user"])
	}
	for i := range 12 {
		if path := fmt.Sprintf("conf/%c.yaml", 'a'+i); !strings.Contains(got["In lists"]+got["In results"], path) {
			t.Errorf("%s is not carried: %v", path, got)
		}
	}
	if got := carriedOf(t, &compact.Options{MaxCarried: 500}, "Go on.", "see this.items"); got["In lists"] != "this.items" {
		t.Errorf("with room for it %v is carried", got)
	}
}

// The only file of a folder is carried before the tenth of another.
func TestCarriedFolders(t *testing.T) {
	var listing strings.Builder
	listing.WriteString("etc/alone/here.conf\n")
	for i := range 60 {
		fmt.Fprintf(&listing, "pkg/many/part%c%c.go\n", 'a'+i/26, 'a'+i%26)
	}
	got := carriedOf(t, &compact.Options{MaxCarried: 120}, "Go on.", listing.String())
	if !strings.Contains(got["In lists"], "etc/alone/here.conf") || !strings.Contains(got["In lists"], "pkg/many/partch.go") {
		t.Errorf("carried are %v", got)
	}
	if n := len(strings.Fields(got["In lists"])); n < 6 || n > 50 {
		t.Errorf("%d files are carried in 120 tokens: %v", n, got)
	}
}

// A larger window has room for more identifiers.
func TestMaxCarried(t *testing.T) {
	h := conversation(t, 400)
	for room, want := range map[int]int{0: 2_048, 24_000: 2_048, 64_000: 4_000, 200_000: 8_192} {
		cut := compact.Plan(h, &compact.Options{Room: room, Keep: compact.Keep{Turns: 1}})
		if cut.Nothing != "" {
			t.Fatalf("room %d: %s", room, cut)
		}
		if want = min(want, cut.Covered/4); cut.MaxCarried != want {
			t.Errorf("room %d: %d tokens of identifiers, want %d", room, cut.MaxCarried, want)
		}
	}
}
