package abstract

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
		require.Equal(t, want, Of(overview), overview)
	}
}
