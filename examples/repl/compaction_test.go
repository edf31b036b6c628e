package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
)

// smallConfig is testConfig with a window of 6,000 tokens, for a model that
// answers by a rule; nil is the script. There is a file of twice that size.
func smallConfig(t *testing.T, dir string, rule guardtest.Rule) config {
	t.Helper()
	c := testConfig(t, dir)
	c.window = 6000
	if rule == nil {
		rule = reply
	}
	c.offline = &guardtest.Model{Window: c.window, Answer: rule}
	var big strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&big, "line %d of a big file\n", i)
	}
	require.NoError(t, os.WriteFile(filepath.Join(c.work, "big.txt"), []byte(big.String()), 0o600))
	return c
}

// history returns the output of /history.
func history(t *testing.T, c config) string {
	t.Helper()
	_, text, _ := strings.Cut(driveConfig(t, c, "/history", "/quit"), "  Session: ")
	text, _, ok := strings.Cut(text, "\n[main:cli:user] > ")
	require.True(t, ok)
	require.Contains(t, text, "[user] ")
	return text
}

// forSummaries answers requests for a summary by a rule.
func forSummaries(rule guardtest.Rule) guardtest.Rule {
	return guardtest.When(func(r guardtest.Request) bool { return len(r.Tools) == 0 }, rule, reply)
}

// A long conversation in a small window never stops: results are clipped, the
// history is compacted after a turn, and a restart shows the same.
func TestSmallWindow(t *testing.T) {
	for _, summarizer := range []string{"extract", "model"} {
		t.Run(summarizer, func(t *testing.T) {
			c := smallConfig(t, t.TempDir(), nil)
			c.summarizer = summarizer
			out := driveConfig(t, c, "remember the number 41", "read big.txt", "/context", "read big.txt again", "read big.txt", "what now", "/context")
			contains(t, out,
				"[tool]    read_file", "[guard]   ~", " by estimate leave no room for an answer in a window of 6,000\n",
				"[guard]   long tool results shortened: prompt ~", "This is what I found:",
				"Context usage: ~", " / 6,000 tokens", "Compaction: by /compact, and after a turn above 4,500 tokens\n", "Plan:       summarise 5 messages (~",
				"[compact] summarising ", " messages -> summary (", "You said \"what now\"", "[Previous conversation summary]",
				"Context usage: ~")
			for line := range strings.SplitSeq(out, "\n") {
				if strings.Count(line, "[guard]")+strings.Count(line, "[compact]")+strings.Count(line, "[tool]") > 1 {
					t.Errorf("two events on one line: %s", line)
				}
			}
			if n := c.offline.Stats().Overflows; n > 0 {
				t.Errorf("%d requests were too long", n)
			}
			before := history(t, c)
			require.Equal(t, before, history(t, smallConfig(t, filepath.Dir(c.dir), nil)))
			require.Contains(t, before, "[Previous conversation summary]")
		})
	}
}

func TestCompactCommand(t *testing.T) {
	c := smallConfig(t, t.TempDir(), nil)
	out := driveConfig(t, c, "hello", "/compact", "/compact 1", "/compact x", "/compact 0", "read big.txt", "bye")
	contains(t, out,
		"Too few messages to compact (~", "tokens): all of the history is to be kept.",
		"Too few messages to compact (~", "Usage: /compact", "Usage: /compact", "[guard]")
	out = driveConfig(t, c, "/compact 1", "/compact 1", "what did I say")
	contains(t, out,
		"[compact] summarising 6 messages (~", "tokens), keeping ~", "tokens...\n",
		"[compact] 6 messages -> summary (", "chars): history ~", "tokens\n",
		"Too few messages to compact (~",
		"You said \"what did I say\"")
	if a, b := history(t, c), history(t, c); a != b || !strings.Contains(a, "[Previous conversation summary]") {
		t.Errorf("histories after a compaction:\n%s\nand\n%s", a, b)
	}
	contains(t, driveConfig(t, c), "Restored: 4 previous turns")
}

// A model that fails to summarise is replaced; if all fail nothing is changed.
func TestSummarizerFails(t *testing.T) {
	dir := t.TempDir()
	c := smallConfig(t, dir, forSummaries(guardtest.Always(guardtest.Unauthorized())))
	c.summarizer = "model"
	driveConfig(t, c, "one", "two")
	before := history(t, c)
	out := driveConfig(t, c, "/compact 1")
	contains(t, out, "[compact] summarising 2 messages", "[compact] no summary from the model, extracting one: ", "401",
		"[compact] failed, nothing was changed: the summary is not smaller")
	require.Equal(t, before, history(t, c))
	out = driveConfig(t, c, strings.Repeat("three ", 500), "four", "/compact 1")
	contains(t, out, "[compact] no summary from the model, extracting one: ", "[compact] 6 messages -> summary")
}

// An interrupt ends a compaction without effect.
func TestInterruptCompaction(t *testing.T) {
	asked := make(chan struct{})
	c := smallConfig(t, t.TempDir(), forSummaries(func(guardtest.Request) guardtest.Answer {
		close(asked)
		return guardtest.StallAfter(0, guardtest.Answer{})
	}))
	c.summarizer = "model"
	driveConfig(t, c, "one", "two", "three")
	before := history(t, c)

	interrupts := make(chan os.Signal, 1)
	in, typed := io.Pipe()
	out := &watched{texts: make(chan string, 1000)}
	done := make(chan error, 1)
	go func() { done <- run(t.Context(), c, in, out, interrupts) }()
	_, err := io.WriteString(typed, "/compact 1\n")
	require.NoError(t, err)
	<-asked
	interrupts <- os.Interrupt
	out.await(t, "[compact] cancelled; nothing was changed\n")
	require.NoError(t, typed.Close())
	require.NoError(t, <-done)
	require.Equal(t, before, history(t, c))
}

// An overflow in the middle of an answer is also cured; the text shown so far
// is declared void, and is not kept.
func TestOverflowInAnswer(t *testing.T) {
	dir := t.TempDir()
	driveConfig(t, smallConfig(t, dir, nil), strings.Repeat("one ", 2500), strings.Repeat("two ", 1500))
	half := guardtest.FailAfter(6, "invalid_request_error", "prompt is too long: 6500 tokens > 6000 maximum",
		guardtest.Say("This is an answer that is cut before it ends, and so it does not count at all."))
	c := smallConfig(t, dir, guardtest.Start(reply, half))
	out := driveConfig(t, c, "three")
	contains(t, out, "This is an answer",
		"\n  [guard]   the model refused 6,500 tokens, its limit is 6,000 (~",
		"\n  [compact] summarising ", "\n  [compact] ", " -> summary",
		"\n  [guard]   asking again with ~", " tokens, attempt 2; the answer above was cut and does not count\n",
		`You said "`)
	require.NotContains(t, history(t, c), "This is an answer")
}

// A message that alone is too long cannot be sent, but can be taken back.
func TestMessageTooLong(t *testing.T) {
	c := smallConfig(t, t.TempDir(), nil)
	out := driveConfig(t, c, "hello", strings.Repeat("word ", 10_000), "/rewind", "again")
	contains(t, out, "by estimate leave no room", "the model refused ", "[guard]   given up, there is nothing left to shorten; /rewind takes the turn back\n",
		"Rewound 1 turn(s); 1 left", `You said "again". Earlier messages of yours that I remember: 1; the first was "hello".`)
}

// An answer that is cut at the output limit is reported as cut.
func TestOutputLimit(t *testing.T) {
	c := smallConfig(t, t.TempDir(), guardtest.Start(reply, guardtest.Say(strings.Repeat("and so on ", 1000))))
	contains(t, driveConfig(t, c, "hello", "more"),
		"\n  [model]   the answer was cut at its limit of 1,500 tokens\n", `You said "more"`)
}

func TestFlags(t *testing.T) {
	for _, change := range []func(*config){
		func(c *config) { c.summarizer = "nobody" },
		func(c *config) { c.window = -1 },
		func(c *config) { c.key = "" },
		func(c *config) { c.work = filepath.Join(c.work, "none") },
	} {
		c := testConfig(t, t.TempDir())
		change(&c)
		if err := run(t.Context(), c, strings.NewReader(""), io.Discard, nil); err == nil {
			t.Errorf("no error with %+v", c)
		}
	}
}
