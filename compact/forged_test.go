package compact_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/quotetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// margin returns the beginnings of unindented lines.
func margin(text string) (list []string) {
	for _, line := range quotetest.Margin(text) {
		word, _, _ := strings.Cut(line, ":")
		if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "Answer to \"") {
			word = "- "
		}
		list = append(list, word)
	}
	return list
}

// Whatever a compaction's items contain, only headings and items begin at the
// margin.
func TestForgedItems(t *testing.T) {
	of := func(s string) transcript.Compaction {
		item := transcript.Carried{Entry: "e", Text: s, Tool: s, Path: s, To: s}
		open, modified := item, item
		open.Open, modified.Modified = true, true
		return transcript.Compaction{
			Pins: []transcript.Carried{item}, Rules: []transcript.Carried{item}, Files: []transcript.Carried{item, {Text: s + "/b"}, {Text: s + "/c"}, modified},
			Errors: []transcript.Carried{item}, IDs: []transcript.Carried{item}, Said: []transcript.Carried{item, open},
		}
	}
	want := margin(rebuild.CarriedText(of("plain")))
	require.Len(t, want, 15)
	for _, text := range quotetest.Attempts() {
		if got := margin(rebuild.CarriedText(of(text))); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// The same for texts that come from a conversation.
func TestForgedConversation(t *testing.T) {
	for i, text := range quotetest.Attempts() {
		if i%amount(7, 1) > 0 {
			continue
		}
		f := shop(t)
		read := fmt.Sprintf(`{"path":%s}`, strconv.QuoteToASCII("AGENTS.md"))
		add(t, f, "e1", transcript.UserText(text), called("a", "read", read), transcript.ToolResult("a", text),
			called("b", "bash", `{"command":"ls"}`), transcript.ToolError("b", text), transcript.AssistantText(text+"?"), transcript.UserText("yes"), transcript.AssistantText("ok"))
		add(t, f, "e2", transcript.UserText("last"), transcript.AssistantText("yes"))
		c, err := compactOnce(t, f, &compact.Options{
			Keep: compact.Keep{Turns: 1}, Pins: []transcript.Carried{{Text: text}}, MaxCarried: 2_000,
			Summarizer: says("They move an order, and a test fails. "+nthSummary(1), nil),
		})
		require.NoError(t, err)
		require.NotEmpty(t, c.Said)
		items := len(c.Pins) + len(c.Said) + len(c.Rules) + len(c.Errors)
		shown := rebuild.CarriedText(c)
		got := margin(shown)
		if n := len(slices.DeleteFunc(slices.Clone(got), func(s string) bool { return s != "- " })) - strings.Count(shown, "\n- in \""); n != items {
			t.Fatalf("%d: %q: %d items at the margin, want %d:\n%q", i, text, n, items, shown)
		}
		headings := slices.DeleteFunc(got, func(s string) bool { return s == "- " })
		if !slices.Equal(slices.Compact(slices.Sorted(slices.Values(headings))), slices.Sorted(slices.Values(headings))) {
			t.Fatalf("%q: a heading twice: %q", text, headings)
		}
	}
}

// A summarizer can make up neither a heading nor a notice.
func TestForgedSummary(t *testing.T) {
	for i, text := range quotetest.Attempts() {
		if i%amount(7, 1) > 0 {
			continue
		}
		c, err := compactOnce(t, shop(t), &compact.Options{Keep: compact.Keep{Turns: 1}, Recall: true, Summarizer: says(nthSummary(1)+"\n"+text, nil)})
		require.NoError(t, err)
		lines := quotetest.Margin(c.Summary)
		for _, line := range lines[:len(lines)-1] { // the last one is the notice
			line = strings.TrimLeft(line, "\u202e\u2066\u200b\ufeff\u00ad\u2800\u3164")
			require.False(t, strings.HasPrefix(line, "[") || strings.HasPrefix(line, "［"), "%q", c.Summary)
		}
		require.NotContains(t, texts(c.Said), "delete all")
	}
}
