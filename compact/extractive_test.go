package compact_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

func extracted(t *testing.T, in compact.Input) string {
	t.Helper()
	text, err := compact.Extractive{}.Summarize(t.Context(), in)
	require.NoError(t, err)
	checkExtract(t, text, in.MaxTokens)
	return text
}

// checkExtract checks what holds for every extract.
func checkExtract(t *testing.T, text string, size int) {
	t.Helper()
	if size == 0 {
		size = 2048
	}
	if n := sizeOf(text); n > max(size, 48) {
		t.Errorf("%d tokens, want %d:\n%s", n, size, text)
	}
	if !utf8.ValidString(text) {
		t.Errorf("not UTF-8: %q", text)
	}
	if strings.TrimSpace(text) == "" || strings.TrimSpace(text) != text {
		t.Errorf("blank, or with space around it: %q", text)
	}
}

// items returns what stands below a heading.
func items(text, heading string) string {
	_, text, _ = strings.Cut(text, "\n"+heading)
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

func TestExtractiveSections(t *testing.T) {
	text := extracted(t, compact.Input{Messages: manyScripts(), MaxTokens: 4000})
	for heading, want := range map[string][]string{
		"## First request":          {"- Почини сборку в /srv/проект/Makefile, см. issue #4521"},
		"## The user said":          {"- 请看main.go文件，然后修复它 🎉\n  [assistant]: I have", "\n- 長い文章です", " runes left out ...]"},
		"## Mentioned":              {"- /srv/проект/Makefile\n", "- #4521\n", "- main.go\n", "- /home/u/a.go\n", "- 9f8e7d6c5b\n", "- https://example.com/pull/77\n", "- https://example.com/plan.pdf\n", "- internal/x/frob.go:17\n"},
		"## Errors of tools":        {"- run: exit status 1: undefined: Frobnicate"},
		"## Last answer":            {"- Fixed in commit 9f8e7d6c5b"},
		"## Calls without a result": {`- deploy_:_x__user {"to":"prod"}`},
	} {
		part := items(text, heading)
		for _, s := range want {
			if !strings.Contains(part+"\n", s) {
				t.Errorf("%s: no %q in %q", heading, s, part)
			}
		}
	}
	for _, no := range []string{"geheim", "not what the user said", "\n## Earlier summary"} {
		if strings.Contains(text, no) {
			t.Errorf("%q is in the summary", no)
		}
	}
	if again := extracted(t, compact.Input{Messages: manyScripts(), MaxTokens: 4000}); again != text {
		t.Error("the same input gives another summary")
	}
}

func TestExtractiveTexts(t *testing.T) {
	made := transcript.UserText(rebuild.Opening)
	for _, tt := range []struct {
		name     string
		in       compact.Input
		want, no string
	}{
		{"one message", compact.Input{Messages: []transcript.Message{transcript.UserText("Hi")}}, "Extract of 1 messages, made without a model.\n\n## First request\n- Hi", ""},
		{"no text", compact.Input{Messages: []transcript.Message{{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ImageBlock{}}}}}, "Extract of 1 messages, made without a model.", ""},
		{"a text of the fold", compact.Input{Messages: []transcript.Message{made, transcript.UserText("Hi")}}, "## First request\n- Hi", rebuild.Opening},
		{"only a previous summary", compact.Input{Previous: "## Goal\nTea."}, "## Earlier summary\n- ## Goal\n  Tea.", ""},
		{"a summary of another", compact.Input{Previous: "Tea.", Messages: []transcript.Message{transcript.UserText("Now coffee")}}, "## The user said\n- Now coffee", "First request"},
		{
			"an interrupted call",
			compact.Input{Messages: []transcript.Message{called("c", "sleep", `{}`), transcript.ToolError("c", rebuild.Interrupted)}},
			"## Calls without a result\n- sleep {}", "Errors",
		},
		{
			"an ID twice",
			compact.Input{Messages: []transcript.Message{called("c", "one", `{}`), transcript.ToolResult("c", "1"), called("c", "two", `{}`)}},
			"## Calls without a result\n- two {}", "one {}",
		},
		{
			"the last errors",
			compact.Input{Messages: []transcript.Message{transcript.ToolError("a", "e1"), transcript.ToolError("b", "e2"), transcript.ToolError("c", "e3"), transcript.ToolError("d", "")}},
			"## Errors of tools (1 more left out)\n- unknown: e2\n- unknown: e3\n- unknown: (no content)", "",
		},
		{"carriage returns", compact.Input{Messages: []transcript.Message{transcript.UserText("a\r\n## Last answer\r- b\n\n\nc")}}, "- a\n  ## Last answer\n  - b\n\n\n  c", ""},
	} {
		got := extracted(t, tt.in)
		if !strings.Contains(got, tt.want) || tt.no != "" && strings.Contains(got, tt.no) {
			t.Errorf("%s: %q, want %q and not %q", tt.name, got, tt.want, tt.no)
		}
		if again := extracted(t, compact.Input{Previous: got}); again != got {
			t.Errorf("%s: is not read as it was written: %q, want %q", tt.name, again, got)
		}
	}
}

func TestExtractiveSizes(t *testing.T) {
	for name, msgs := range map[string][]transcript.Message{
		"scripts": manyScripts(), "loop": toolLoop(100), "emoji": {transcript.UserText(strings.Repeat("🎉", 30_000))},
		"one line": {transcript.UserText(strings.Repeat("xé", 50_000))},
	} {
		last := ""
		for _, size := range []int{-3, 49, 100, 150, 500, 2048} {
			text := extracted(t, compact.Input{Messages: msgs, MaxTokens: size})
			if size >= 100 && !strings.Contains(text, "## First request") {
				t.Errorf("%s: nothing of the request in %d tokens:\n%s", name, size, text)
			}
			if len(text) < len(last)*3/4 {
				t.Errorf("%s: less text in %d tokens", name, size)
			}
			last = text
		}
	}
}

// The user's words come first when room is short, and of them the newest.
func TestExtractivePrefersUser(t *testing.T) {
	var msgs []transcript.Message
	for i := range 200 {
		msgs = append(msgs,
			transcript.UserText(fmt.Sprintf("Wish number %d is that this sentence is kept.", i)),
			transcript.AssistantText("Certainly. "+strings.Repeat("I will say more about this. ", 20)))
	}
	text := extracted(t, compact.Input{Messages: msgs, MaxTokens: 500})
	for _, want := range []string{"Wish number 0 ", "Wish number 199 ", "Wish number 198 ", "Wish number 190 ", " more left out)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A summary of a summary of a summary is one summary.
func TestExtractiveRepeated(t *testing.T) {
	const size = 1500
	text := ""
	most := 0
	for i := range 30 {
		msgs := []transcript.Message{
			transcript.UserText(fmt.Sprintf("Round %d: look at pkg/part%d/file.go and ticket OPS-%d.", i, i, 100+i)),
			called("c", "read", fmt.Sprintf(`{"path":"pkg/part%d/file.go"}`, i)),
			transcript.ToolResult("c", strings.Repeat("noise ", 500)),
			transcript.AssistantText(fmt.Sprintf("Answer %d", i)),
		}
		if i == 0 {
			msgs = append([]transcript.Message{transcript.UserText("Migrate /srv/billing to v2.7.1 without downtime.\n\n## Mentioned\n- a trap")}, msgs...)
		}
		text = extracted(t, compact.Input{Previous: text, Messages: msgs, MaxTokens: size})
		most = max(most, sizeOf(text))
		for _, want := range []string{
			"\n## First request\n- Migrate /srv/billing to v2.7.1 without downtime.\n\n  ## Mentioned\n  - a trap\n",
			fmt.Sprintf("\n- Round %d: look", i), "\n## Last answer\n- Answer " + fmt.Sprint(i),
			"\n- /srv/billing\n", "\n- v2.7.1\n", "\n- OPS-100\n", fmt.Sprintf("\n- pkg/part%d/file.go\n", i),
			fmt.Sprintf("Extract of %d messages,", 4*i+5),
		} {
			if !strings.Contains(text+"\n", want) {
				t.Fatalf("round %d: no %q in\n%s", i, want, text)
			}
		}
		for _, once := range []string{"Extract of", "\n## First request", "\n## Mentioned", "\n## The user said"} {
			if strings.Count(text, once) != 1 {
				t.Fatalf("round %d: %q is there %d times", i, once, strings.Count(text, once))
			}
		}
	}
	if !strings.Contains(items(text, "## The user said"), "Round 0: ") {
		t.Errorf("the first round is not there in %d of %d tokens:\n%s", most, size, text)
	}

	// With little room the oldest goes, and it is said how much.
	small := extracted(t, compact.Input{Previous: text, MaxTokens: 300})
	small = extracted(t, compact.Input{Previous: small, Messages: []transcript.Message{transcript.UserText("One more.")}, MaxTokens: 300})
	for _, want := range []string{"- Migrate /srv/billing", "- One more.", "\n## The user said (", " more left out)"} {
		if !strings.Contains(small, want) {
			t.Errorf("no %q in\n%s", want, small)
		}
	}
}

// The identifiers of the user outlive those in results.
func TestExtractiveIdentifiers(t *testing.T) {
	var noise strings.Builder
	for i := range 300 {
		fmt.Fprintf(&noise, "/var/log/noise%d.log ", i)
	}
	msgs := []transcript.Message{transcript.UserText("See ORD-1234567 in a.csv"), transcript.ToolResult("c", noise.String())}
	text, err := compact.Extractive{Identifiers: 5}.Summarize(t.Context(), compact.Input{Messages: msgs})
	require.NoError(t, err)
	if part := items(text, "## Mentioned"); !strings.HasPrefix(part, " (") || !strings.Contains(part, "- a.csv\n- ORD-1234567\n") || strings.Count(part, "\n- ") != 5 {
		t.Errorf("%q", part)
	}
	text, err = compact.Extractive{Identifiers: -1}.Summarize(t.Context(), compact.Input{Messages: msgs})
	if err != nil || strings.Contains(text, "\n- a.csv") {
		t.Errorf("without identifiers: %q, %v", text, err)
	}
}

// Texts that are taken for a path, a URL or an identifier, and texts that are
// not.
func TestExtractiveMentioned(t *testing.T) {
	for text, want := range map[string]string{
		"Either and/or 3.14 of e.g. N/A in 2026. Well... 12:30:45, 1/2, 20%": "",
		"See ./run.sh, ../a/b and (~/notes.md).":                             "~/notes.md|../a/b|./run.sh",
		`Open C:\Users\me\a.txt or src\x.cs`:                                 `src\x.cs|C:\Users\me\a.txt`,
		"at main.go:17:3, then `pkg/store.Open` and \"a_test.go\"":           "a_test.go|main.go:17:3",
		"https://example.com/a?b=c#d. And http://x:80/":                      "http://x:80/|https://example.com/a?b=c#d",
		"fixes #12, org/repo#34, GH-56 and PROJ-7":                           "PROJ-7|GH-56|org/repo#34|#12",
		"commit deadbee1f00d and 550e8400-e29b-41d4-a716-446655440000":       "550e8400-e29b-41d4-a716-446655440000|deadbee1f00d",
		"v1.2.3 or 10.0.0.1, order 48213377, call toolu_01AbC":               "toolu_01AbC|48213377|10.0.0.1|v1.2.3",
		"(see [it](https://en.example.org/wiki/Go_(game))) and DIR=/opt/x/y": "/opt/x/y|https://en.example.org/wiki/Go_(game)",
		"mail ann@example.com":                                               "ann@example.com",
		"请看main.go文件，然后打开/srv/x/y.go。然后 报告.pdf":                              "报告.pdf|/srv/x/y.go|main.go",
		"файл /дом/отчёт.txt и отчёт.pdf":                                    "отчёт.pdf|/дом/отчёт.txt",
	} {
		got := items(extracted(t, compact.Input{Messages: []transcript.Message{transcript.UserText(text)}}), "## Mentioned")
		got = strings.ReplaceAll(strings.TrimPrefix(strings.Trim(got, "\n"), "- "), "\n- ", "|")
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Of the text of another summarizer the end is kept.
func TestExtractiveEarlier(t *testing.T) {
	previous := "Oldest fact.\n" + strings.Repeat("A fact among many. ", 2000) + "\nNewest fact: the key is in vault/k9."
	text := ""
	for i := range 5 {
		text = extracted(t, compact.Input{Previous: previous, Messages: []transcript.Message{transcript.UserText(fmt.Sprint("next ", i))}, MaxTokens: 600})
		part := items(text, "## Earlier summary")
		if !strings.Contains(part, "Newest fact: the key is in vault/k9.") || strings.Contains(part, "Oldest") || strings.Count(part, "runes left out") != 1 {
			t.Fatalf("round %d: %q", i, part)
		}
		previous = text
	}
	// Text that somebody added to an extract is not lost.
	text = extracted(t, compact.Input{Previous: text + "\n\n[A note]\nremember the milk\n## No heading of ours\n- x", MaxTokens: 900})
	for _, want := range []string{"  [A note]\n  remember the milk\n  ## No heading of ours\n  - x", "vault/k9"} {
		if !strings.Contains(items(text, "## Earlier summary"), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestExtractiveErrors(t *testing.T) {
	if text, err := (compact.Extractive{}).Summarize(t.Context(), compact.Input{Previous: " "}); !errors.Is(err, compact.ErrEmpty) {
		t.Errorf("of nothing: %q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := compact.Input{Messages: manyScripts()}
	if text, err := (compact.Extractive{}).Summarize(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %q, %v", text, err)
	}
	if text, err := (compact.Extractive{Counter: costly{}}).Summarize(t.Context(), in); err == nil {
		t.Errorf("no room: %q", text)
	}
}

// costly counts more for a message than anybody allows.
type costly struct{}

func (costly) Count(string, []transcript.Tool, []transcript.Message) int { return 1 << 20 }

func ExampleExtractive() {
	text, err := compact.Extractive{}.Summarize(context.Background(), compact.Input{Messages: []transcript.Message{
		transcript.UserText("Why does the build fail?"),
		called("c", "run", `{"command":"make","dir":"/srv/app"}`),
		transcript.ToolError("c", "Makefile:7: missing separator"),
		transcript.AssistantText("Line 7 of the Makefile needs a tab."),
	}})
	fmt.Println(text, err)
	// Output:
	// Extract of 4 messages, made without a model.
	//
	// ## First request
	// - Why does the build fail?
	//
	// ## Mentioned
	// - /srv/app
	//
	// ## Errors of tools
	// - run: Makefile:7: missing separator
	//
	// ## Last answer
	// - Line 7 of the Makefile needs a tab. <nil>
}
