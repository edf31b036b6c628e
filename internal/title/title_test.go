package title_test

import (
	"strings"
	"testing"

	"github.com/convolog/convolog/internal/title"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		" \n":                        "",
		"  Fix the\tparser \nplease": "Fix the parser",
		"<system-reminder>\nThe project uses tabs.\n</system-reminder>\nMake the totals round.": "Make the totals round.",
		"<system-reminder>\nThe project uses tabs.\n</system-reminder>":                         "",
		"<a>1</a>\n\n<b x='1'>\n2</b> Make it so":                                               "Make it so",
		"<a><a>1</a>2</a>Make it so":                                                            "Make it so",
		"<a><a>1</a>Make it so":                                                                 "<a><a>1</a>Make it so",
		"<img src='x'/> is broken":                                                              "is broken",
		"<div> does not centre":                                                                 "<div> does not centre",
		"<3 this":                                                                               "<3 this",
		"< b and a > c":                                                                         "< b and a > c",
		"<>":                                                                                    "<>",
		"[bug] login fails on Safari":                                                           "[bug] login fails on Safari",
		"[1,2,3] is this sorted?":                                                               "[1,2,3] is this sorted?",
		"[Request interrupted]\ngo on":                                                          "go on",
		"```go\npackage main\n```\nwhy does it not build?":                                      "why does it not build?",
		"````md\n```\nx\n```\n````\n\nis that right?":                                           "is that right?",
		"~~~\nx\n~~~\n":                                                                         "",
		"```go\npackage main\nfunc":                                                             "package main",
		"```go build``` fails":                                                                  "```go build``` fails",
		"# AGENTS.md instructions for /x\n\n<INSTRUCTIONS>\nUse tabs.\n</INSTRUCTIONS>\nhello": "hello",
		"# A heading\ntext":                  "# A heading",
		"\x1b[31mred\u202e\x07 alert":        "[31mred alert",
		"pass\u200bword\U000e0041 ❤️\u200d🔥": "password ❤️\u200d🔥",
		"نمی\u200cدانم":                      "نمی\u200cدانم",
		"#\n<a>":                             "#",
		"\xff":                               "\ufffd",
		strings.Repeat("词", 70):              strings.Repeat("词", 60) + "…",
		strings.Repeat("<a>", 100_000):       strings.Repeat("<a>", 20) + "…",
	} {
		if got := title.Of(text); got != want {
			t.Errorf("%.60q: got %q, want %q", text, got, want)
		}
	}
}

// The time for a long line of blocks grows with its length. If it grew with the
// square, this test would take an hour.
func TestOfBlocksInALine(t *testing.T) {
	if got := title.Of(strings.Repeat("<a></a>", 1_000_000) + "hello"); got != "hello" {
		t.Errorf("got %.60q", got)
	}
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"as it is":                      "as it is",
		"a\x1b[2J\x07b\u202ec\u2066d\n": "a[2Jbcd ",
		"a\u2028b\tc":                   "a b c",
		"\ufeffمی\u200cخواهم 👩\u200d💻": "می\u200cخواهم 👩\u200d💻",
		"\xff\x00": "\ufffd",
	} {
		if got := title.Clean(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
