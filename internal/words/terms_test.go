package words_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/words"
)

func TestTerms(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		" -- !":                   "",
		"Prefers TABS, over 4.":   "prefers tabs over 4",
		"数据库用Go":                  "数据 据库 库用 go",
		"Größe, größe":            "größe größe",
		"in a/b/c.go (getUser)":   "in a/b/c.go getuser",
		"Ｆｕｌｌ width":              "full width",
		"ひらがな は":                  "ひら らが がな は",
		"non\u00a0breaking\tword": "non breaking word",
	} {
		require.Equal(t, want, strings.Join(words.Terms(text), " "), text)
	}
}
