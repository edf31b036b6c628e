package words_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/words"
)

func terms(text string) string {
	var list []string
	words.All(text, func(t words.Term) bool {
		s := t.Text
		if t.Part {
			s = "+" + s
		}
		list = append(list, s)
		return true
	})
	return strings.Join(list, " ")
}

func TestAll(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"Hello, World!":                 "hello world",
		"getUserByID()":                 "getuserbyid +get +user +by +id",
		"HTTPServer2Go":                 "httpserver2go +http +server +2 +go",
		"a/b/c.go":                      "a/b/c.go +a +b +c +go",
		"see prod-eu-17.":               "see prod-eu-17 +prod +eu +17",
		"user_name = x":                 "user_name +user +name x",
		"it's":                          "it s",
		"Ärger ÜBER straße":             "ärger über straße",
		"ΣΊΣΥΦΟΣ σίσυφος":               "σίσυφοσ σίσυφοσ",
		"ＦＵＬＬ　width１２":                  "full width12 +width +12",
		"数据库连接":                         "数据 +据库 +库连 +连接",
		"中":                             "中",
		"用 Go 写的":                       "用 go 写的",
		"データベース":                        "デー +ータ +タベ +ベー +ース",
		"สวัสดี":                        "สวั +วัส +สดี",
		"데이터 베이스":                       "데이 +이터 베이 +이스",
		"a.b. c":                        "a.b +a +b c",
		"--flag":                        "flag",
		"2026-11-22T08:00":              "2026-11-22t08:00 +2026 +11 +22t08 +22 +t +08 +00",
		strings.Repeat("x", 200):        "",
		strings.Repeat("ab-", 60) + "c": strings.TrimSpace("ab " + strings.Repeat("+ab ", 59) + "+c"),
	} {
		require.Equal(t, want, terms(text), "%q", text)
	}
}

// Terms are where they say, folded, and no longer than what is compared.
func FuzzAll(f *testing.F) {
	f.Add("getUserByID of a/b/c.go in 数据库 ＡＢ é")
	f.Fuzz(func(t *testing.T, text string) {
		last := 0
		words.All(text, func(term words.Term) bool {
			require.Less(t, term.Start, term.End)
			require.LessOrEqual(t, term.End, len(text))
			require.Equal(t, term.Text, string(words.Fold(nil, text[term.Start:term.End])))
			require.NotEmpty(t, term.Text)
			if !term.Part {
				require.GreaterOrEqual(t, term.Start, last)
				last = term.Start
			}
			return true
		})
		if folded := string(words.Fold(nil, text)); utf8.ValidString(text) {
			require.Equal(t, folded, string(words.Fold(nil, folded)))
		}
	})
}
