package words_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/words"
)

func TestQuery(t *testing.T) {
	for _, tt := range []struct{ query, text, want string }{
		{"world", "Hello, WORLD!", "WORLD"},
		{"world", "worldly", ""},
		{"worl*", "the Worldly ones", "Worl"},
		{"user", "call getUserByID()", "User"},
		{"getuserbyid", "call getUserByID()", "getUserByID"},
		{"serb", "call getUserByID()", ""},
		{"server", "HTTPServer2Go", "Server"},
		{"2", "HTTPServer2Go", "2"},
		{"b/c.go", "in a/b/c.go:12", "b/c.go"},
		{"prod-eu-17", "see PROD-EU-17.", "PROD-EU-17"},
		{"17", "see prod-eu-17.", "17"},
		{"it's", "it's", "it's"},
		{"ÜBER", "Ärger über straße", "über"},
		{"ΣΊΣΥΦΟΣ", "ο σίσυφος", "σίσυφος"},
		{"full", "ＦＵＬＬ　width", "ＦＵＬＬ"},
		{"ＷＩＤＴＨ", "full width", "width"},
		{"データ", "ﾃｰタのデータ", "データ"},
		{"kelvin", "a \u212aelvin", "\u212aelvin"},
		{"据库", "数据库连接", "据库"},
		{"用go写", "用 Go 写的", "用"},
		{"สวัสดี", "ครับสวัสดีครับ", "สวัสดี"},
		{"데이터", "데이터베이스를", "데이터"},
		{"a b", "b, then a", "a"},
		{"a c", "b, then a", ""},
		{`"then a"`, "b, THEN\n  a.", "THEN\n  a"},
		{`"hen a"`, "b, then a", ""},
		{`a "b c`, "a b  c", "a"},
		{"привет", "ну, ПРИВЕТ!", "ПРИВЕТ"},
		{"e", "e\u0301", ""},
		{"株式会社", "㈱ではなく㍿です", "㍿"},
		{"会社", "㍿です", ""},
		{"株", "㍿です", ""},
		{"x y", "x\u00a0y", "x"},
		{`"a b"`, "a \u200b b", "a \u200b b"},
		{"👩", "👩🏽\u200d💻", "👩🏽\u200d"},
		{"🏽", "👩🏽", ""},
		{"🏽", "🏽", "🏽"},
		{"ᅡ", "가", ""},
	} {
		q, err := words.Parse(tt.query, false)
		require.NoError(t, err)
		f, ok := q.Look(t.Context(), []string{tt.text}, 0)
		got := ""
		if ok {
			got = tt.text[f.First[0].Start:f.First[0].End]
		}
		require.Equal(t, tt.want, got, "%q in %q", tt.query, tt.text)
	}
	for _, query := range []string{"", " ", `""`, "* !", `" "`} {
		_, err := words.Parse(query, false)
		require.ErrorIs(t, err, words.ErrEmpty, "%q", query)
	}
}

// A query of any words counts them, and runs of characters in pairs.
func TestQueryAny(t *testing.T) {
	q, err := words.Parse("the数据库 password the", true)
	require.NoError(t, err)
	require.Equal(t, 4, q.Items())
	f, ok := q.Look(t.Context(), []string{"The 据库 of", "the other 据库, breathe"}, 9)
	require.True(t, ok)
	require.Equal(t, []int{2, 0, 2, 0}, f.Counts)
	require.Equal(t, words.Match{Text: 0, Start: 4, End: 10}, f.First[2])
}

var spellings = flag.Int("spellings", 1_000, "how many random texts TestQueryLikeNaive compares")

// simple finds the matches of a query of one word, character by character.
func simple(word, text string) bool {
	folded := words.Fold(word)
	whole := words.Fold(text)
	for at := 0; at < len(text); at++ {
		if !utf8.RuneStart(text[at]) || !words.Boundary(text, at) {
			continue
		}
		for end := at; end <= len(text); end++ {
			if (end == len(text) || utf8.RuneStart(text[end])) && words.Boundary(text, end) && words.Fold(text[at:end]) == folded &&
				words.Fold(text[:at])+folded+words.Fold(text[end:]) == whole { // else a mark belongs to a character outside
				return true
			}
		}
	}
	return false
}

// The bytes of a line never rule out a match in its texts, however they are
// written, and a search finds the same matches as simple.
func FuzzQuery(f *testing.F) {
	f.Add("user", "getUserByID of a/b/c.go", byte(0))
	f.Add("據庫", "據庫ＡＢ é \u212a ſ", byte(3))
	f.Add("sk", "ſ\u212a Sk ｓＫ", byte(5))
	f.Add("ﬁle", "\ufb01le fi\u00adle", byte(1))
	f.Add("ベe\u0301", "ﾍﾞe\u0323\u0301 É", byte(6))
	f.Add("달👍", "\u1103\u1161\u11af👍🏽 שָׁ", byte(7))
	f.Add("a\\b", "x \"a\\b/c\" \u2028", byte(2))
	f.Fuzz(checkQuery)
}

// TestQueryLikeNaive is FuzzQuery with texts of characters that have several forms.
func TestQueryLikeNaive(t *testing.T) {
	parts := strings.Fields("a A ａ e é É ê ẹ ệ f i ﬁ ﬃ ² 2 ① 10 ⑩ 𝐚 ' ’ ʼ - ‑ ß ſ s k K Å å ő ά Σ ς и й カ ガ ｶ ﾞ ゛ 가 ᄀ ᅡ ᆨ ㄱ 数 金 ⾦ ㍿ 株 ا أ آ ـ ش ﺵ ש שׁ ו क क़ ก 👍 ❤ ❤️ 🇩 🇪 . / \" * ½ ™ ℃")
	for _, mark := range "\u0301\u0302\u0323\u0308\u030a\u3099\u0653\u0654\u064e\u05b8\u05c1\u093c\u0e34\u00ad\u200b\u200d\ufeff\U0001f3fd \u00a0\u3000\n\ufffd" {
		parts = append(parts, string(mark))
	}
	r := rand.New(rand.NewPCG(4, 3))
	random := func(most int) string {
		var sb strings.Builder
		for range 1 + r.IntN(most) {
			sb.WriteString(parts[r.IntN(len(parts))])
		}
		return sb.String()
	}
	for range *spellings {
		query := random(4)
		text := random(3) + query + random(3)
		if r.IntN(3) > 0 {
			text = random(3) + words.Fold(query) + random(3)
		}
		checkQuery(t, query, text, byte(r.IntN(256)))
		checkQuery(t, words.Fold(query), text, byte(r.IntN(256)))
	}
}

func checkQuery(t *testing.T, query, text string, how byte) {
	if !utf8.ValidString(text) || !utf8.ValidString(query) || len(text) > 500 {
		t.Skip()
	}
	raw := written(t, text, how)
	check := func(q *words.Query) {
		g, fits := q.Look(t.Context(), []string{"", text}, 0)
		if !fits {
			return
		}
		require.True(t, q.MayFit(raw), "%q has %q", raw, query)
		require.True(t, q.MayFit([]byte("{}\n"+string(raw)+"\n{}")))
		_, again := q.Look(t.Context(), []string{text}, 9)
		require.True(t, again)
		for _, m := range g.First {
			require.True(t, utf8.ValidString(text[m.Start:m.End]))
		}
	}
	for _, some := range []bool{false, true} {
		if q, err := words.Parse(query, some); err == nil {
			check(q)
		}
	}
	if q, err := words.Compile(query); err == nil {
		check(q)
	}
	if q, err := words.Compile("x?" + regexp.QuoteMeta(query) + "(y|z)*"); err == nil && query != "" && strings.Contains(text, query) {
		_, fits := q.Look(t.Context(), []string{text}, 0)
		require.True(t, fits)
		check(q)
	}
	folded := words.Fold(query)
	first, _ := utf8.DecodeRuneInString(folded)
	if strings.Join(strings.Fields(folded), " ") == folded && !strings.Contains(folded, `"`) && folded != "" &&
		!unicode.IsMark(first) {
		q, err := words.Parse(`"`+query+`"`, false)
		require.NoError(t, err)
		_, fits := q.Look(t.Context(), []string{text}, 0)
		if !strings.Contains(query, " ") {
			require.Equal(t, simple(query, text), fits, "%q in %q", query, text)
		}
		check(q)
	}
}

// written is a line with a text in it, in one of the ways that JSON has.
func written(t *testing.T, text string, how byte) []byte {
	var sb strings.Builder
	for i, r := range text {
		quoted, err := json.Marshal(string(r))
		require.NoError(t, err)
		switch {
		case (byte(i)^how)&3 == 3 && r < 0x10000:
			fmt.Fprintf(&sb, `\u%04X`, r)
		case r == '/' && how&4 != 0:
			sb.WriteString(`\/`)
		default:
			sb.Write(quoted[1 : len(quoted)-1])
		}
	}
	return []byte(`{"content":"` + sb.String() + `"}`)
}

// The time for a run of characters without width, or of marks, grows with its length, even
// if the query begins with one. If it grew with the square, this test would take hours.
func TestLongRuns(t *testing.T) {
	n := 200_000
	if testing.Short() {
		n /= 10
	}
	for _, mark := range []string{"\u00ad", "\u200b", "\u0301", "\u0344"} {
		for _, text := range []string{"cafe", "café", `"café x"`} {
			q, err := words.Parse(text, false)
			require.NoError(t, err)
			_, fits := q.Look(t.Context(), []string{strings.Repeat(mark, n) + " cafe\u0301 x"}, 0)
			require.Equal(t, text != "cafe", fits)
		}
	}
	for _, mark := range []string{"\u00ad", "\u0301", "\u0344", "\u3099", "\ufe0f", "\u064b", "\U0001f3fb", "\u1161", "\u11a8", "か\u3099"} {
		for _, text := range []string{"\"\u0301 x\"", "\u0301x", "\u3099カ", "\ufe0f\u0301", "\u064bx", "\U0001f3fbx", "\u1161x"} {
			q, err := words.Parse(text, false)
			if err != nil {
				continue // of characters that do not count
			}
			_, fits := q.Look(t.Context(), []string{strings.Repeat(mark, n) + " y"}, 0)
			require.False(t, fits, "%+q in %+q", text, mark)
		}
	}
	unsorted := "a" + strings.Repeat("\u0301", n) + strings.Repeat("\u0300", n)
	require.True(t, words.Fold(unsorted) == words.Fold(words.Fold(unsorted)))
	require.Equal(t, words.Fold("a\u0300\u0316"), words.Fold("a\u0316\u0300"))
}
