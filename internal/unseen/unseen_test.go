package unseen_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/unseen"
)

func shown(text string) string {
	return unseen.Replace(text, func(r rune) string { return fmt.Sprintf("<%x>", r) })
}

func TestReplace(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"a\x1b[31m\n\u009b":                "a<1b>[31m<a><9b>",
		"pay\u202eecila":                   "pay<202e>ecila",
		"pass\u200bword":                   "pass<200b>word",
		"a\u200db \u200c":                  "a<200d>b <200c>",
		"\ufeffa\u00adb\u2060":             "<feff>a<ad>b<2060>",
		"hi\U000e0001\U000e0049\U000e006d": "hi<e0001><e0049><e006d>",
		"a\ufe01b\U000e0101":               "a<fe01>b<e0101>",
		"👍\U000e0101\u200d\u200d":          "👍<e0101><200d><200d>",
		"\u3164\u115f\u034f\u17b4":         "<3164><115f><34f><17b4>",
		"می\u200cخواهم\u200c\u200c":        "می\u200cخواهم\u200c<200c>",
		"ا\u200f":                          "ا<200f>",
		"🏴\U000e0073\U000e0065\U000e006c\U000e006c\U000e0061\U000e006c\U000e006c": "🏴<e0073><e0065><e006c><e006c><e0061><e006c><e006c>",
	} {
		require.Equal(t, want, shown(text), "%+q", text)
	}
}

// Kept are texts that are as their writers type them.
var kept = []string{
	"plain", "Zoë ünïcode e\u0301", "词语 葛\U000e0100飾", "日本語ｶﾞ", "👩\u200d👩\u200d👧\u200d👦 👩🏽\u200d🚀 ❤️\u200d🔥 🏳️\u200d🌈 🙂\u200d↔️ 🇫🇷", "1️⃣ ‼️ ℹ️ ↔️ ☺︎",
	"🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f", "نمی\u200cدانم کِتابِ\u200cمن", "क्\u200dष श्\u200cर", "ന്\u200d", "ශ්\u200dරී", "র\u200d্যাম",
	"ភាសា\u200bខ្មែរ", "ภาษา\u200bไทย", "ᠮᠣᠩᠭᠣᠯ\u180eᠠ", "\u0600\u06f1 \u06dd", "שָׁלוֹם", "한국어",
}

func TestKept(t *testing.T) {
	for _, text := range kept {
		require.Equal(t, text, shown(text), "%+q", text)
	}
	// A run of joiners can hide a number: at most one is kept.
	for _, text := range []string{"👩", "ن", "ภ", "क्"} {
		require.GreaterOrEqual(t, strings.Count(shown(text+strings.Repeat("\u200d", 100)+text), "<200d>"), 99, text)
	}
}
