package abstract

import "testing"

func TestOf(t *testing.T) {
	for overview, want := range map[string]string{
		"": "",
		"# Summary\n\n**One-sentence overview**: Tea: what to buy\n\n**Next**: milk": "Tea: what to buy",
		"# Summary\n\nThey talked.\n**Topic**: tea":                                  "tea",
		"# Summary\n\n  They talked.\nAnd ended.":                                    "They talked.",
		"**Empty**:\nThey talked.":                                                   "**Empty**:",
		"**a*b**: c":                                                                 "**a*b**: c",
		"****: c":                                                                    "****: c",
		"# Summary\n## Nothing\n":                                                    "",
	} {
		if got := Of(overview); got != want {
			t.Errorf("%q: got %q, want %q", overview, got, want)
		}
	}
}
