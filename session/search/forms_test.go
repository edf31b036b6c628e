package search_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// TestForms tries queries as people type them. Each finds a text, marks the
// match where a person sees it, and does not find the other text.
func TestForms(t *testing.T) {
	for _, tt := range []struct{ query, text, match, other string }{
		// Width, and the voice marks of half-width kana.
		{"ユーザー", "開始ﾕｰｻﾞｰ認証完了", "ﾕｰｻﾞｰ", "ユーサー"},
		{"ﾕｰｻﾞｰ", "ユーザー認証", "ユーザー", "ﾕｰｻｰ"},
		{"ﾊﾟｽﾜｰﾄﾞ", "パスワード変更", "パスワード", "ハスワート"},
		{"パスワード", "ﾊﾟｽﾜｰﾄﾞ変更", "ﾊﾟｽﾜｰﾄﾞ", "ﾊｽﾜｰﾄﾞ"},
		{"データ", "新しいﾃﾞｰﾀです", "ﾃﾞｰﾀ", "テータ"},
		{"カ", "ｶﾅ", "ｶ", "ｶﾞ"},
		{"カ", "カナ", "カ", "カ\u3099"},
		{"が", "か\u3099ない", "か\u3099", "か"},
		{"か\u3099", "がない", "が", "かない"},
		{"abc123", "ＡＢＣ１２３です", "ＡＢＣ１２３", "ＡＢＣ１２４"},
		{"ＡＢＣ", "see abc.", "abc", "abd"},
		{"＂then a＂", "b, then a.", "then a", "a then"},
		// Composed and decomposed letters.
		{"cafe\u0301", "café im Hafen", "café", "cafe im Hafen"},
		{"café", "cafe\u0301 au lait", "cafe\u0301", "cafe au lait"},
		{"CAFÉ", "ein cafe\u0301", "cafe\u0301", "cafè"},
		{"cafe", "the cafe", "cafe", "cafe\u0301"},
		{"größe", "Die GRO\u0308ßE", "GRO\u0308ßE", "grosse"},
		{"Ångström", "A\u030angstro\u0308m", "A\u030angstro\u0308m", "Angstrom"},
		{"\u212bngström", "ångström", "ångström", "angström"},
		{"việt", "Vie\u0302\u0323t Nam", "Vie\u0302\u0323t", "Viêt"},
		{"vie\u0323\u0302t", "Vi\u00ea\u0323t Nam", "Vi\u00ea\u0323t", "Viẹt"},
		{"ёлка", "Е\u0308ЛКА", "Е\u0308ЛКА", "елка"},
		{"стройка", "строи\u0306ка", "строи\u0306ка", "строика"},
		{"άνθρωπος", "α\u0301νθρωπος", "α\u0301νθρωπος", "ανθρωπος"},
		{"한글", "\u1112\u1161\u11ab\u1100\u1173\u11af 파일", "\u1112\u1161\u11ab\u1100\u1173\u11af", "하글"},
		{"\u1112\u1161\u11ab", "한글", "한", "하늘"},
		{"하", "하늘", "하", "\u1112\u1161\u11ab"},
		{"क\u093cलम", "\u0958लम", "\u0958लम", "कलम"},
		{"القرآن", "القرا\u0653ن", "القرا\u0653ن", "القران"},
		{"naïve*", "nai\u0308vely", "nai\u0308ve", "naively"},
		{"getCafé", "call getCafe\u0301()", "getCafe\u0301", "getCafe()"},
		{"“étude”", "une e\u0301tude", "e\u0301tude", "une etude"},
		// Apostrophes and hyphens.
		{"don't", "don’t stop", "don’t", "dont stop"},
		{"don’t", "don't stop", "don't", "dont"},
		{"l'été", "l\u2019e\u0301te\u0301 dernier", "l\u2019e\u0301te\u0301", "lete"},
		{"об'єкт", "об\u02bcєкт і", "об\u02bcєкт", "обєкт"},
		{"об’єкт", "об'єкт", "об'єкт", "об\"єкт"},
		{"rock'n'roll", "rock\u2018n\u2019roll", "rock\u2018n\u2019roll", "rock n roll"},
		{"well-known", "a well\u2011known fact", "well\u2011known", "well known"},
		{"e\u2010mail", "the e-mail", "e-mail", "email"},
		// Ligatures, superscripts, circles, styles of letters.
		{"file", "the ﬁle is here", "ﬁle", "the fle"},
		{"ﬁle", "the file", "file", "fi le"},
		{"office", "the oﬃce", "oﬃce", "the ofice"},
		{"x2", "x² + 1", "x²", "x³"},
		{"m²", "12 m2", "m2", "12 m3"},
		{"h2o", "H₂O", "H₂O", "HO"},
		{"1", "step ① of", "①", "step ② of"},
		{"③", "item 3", "3", "item 33"},
		{"hello", "𝐇𝐞𝐥𝐥𝐨 there", "𝐇𝐞𝐥𝐥𝐨", "𝐇𝐞𝐥𝐩"},
		{"kg", "5㎏ of it", "㎏", "5㎎ of it"},
		{"キロ", "5㌔", "㌔", "5㌘"},
		{"iv", "chapter Ⅳ", "Ⅳ", "chapter V"},
		{"tm", "™ only", "™", "® only"},
		// Invisible characters.
		{"password", "pass\u00adword reset", "pass\u00adword", "pass word"},
		{"pass\u00adword", "the password", "password", "pass-word"},
		{"user", "us\u200ber one", "us\u200ber", "us er"},
		{"us", "is it us?", "us", "us\u200ber"},
		{"token", "\ufefftoken: x", "token", "t\u00f8ken"},
		{"user\u200b", "the user.", "user", "users"},
		{"می\u200cخواهم", "میخواهم بروم", "میخواهم", "می خواهم"},
		{"میخواهم", "من می\u200cخواهم", "می\u200cخواهم", "خواهم"},
		{"שלום", "\u200fשלום\u200e עולם", "שלום\u200e", "שלומ"},
		// Points.
		{"سلام", "سَلَامٌ عليكم", "سَلَامٌ", "سلم"},
		{"سَلَام", "سلام عليكم", "سلام", "سلم"},
		{"كتاب", "كتـــاب", "كتـــاب", "كتب"},
		{"أحمد", "أَحْمَد", "أَحْمَد", "احمد"},
		{"سلام", "\ufeb3\ufefc\ufee1", "\ufeb3\ufefc\ufee1", "\ufeb3\ufee1"},
		{"שלום", "שָׁלוֹם עולם", "שָׁלוֹם", "שלם"},
		{"שָׁלוֹם", "שלום", "שלום", "שלם"},
		// Emoji.
		{"❤", "I ❤️ it", "❤️", "I ♥ it"},
		{"❤️", "I ❤ it", "❤", "I 💔 it"},
		{"👍", "gut 👍🏽", "👍🏽", "gut 👎🏽"},
		{"👍🏿", "gut👍gemacht", "👍", "gut"},
		{"🎉", "fertig🎉🎉", "🎉", "fertig"},
		{"👩‍💻", "fertig, 👩🏽‍💻!", "👩🏽\u200d", "fertig, 👨‍💻!"},
		{"🇩🇪", "aus 🇩🇪", "🇩🇪", "aus 🇩🇰"},
		{"数据👍", "数据库 👍", "数据", "数据库"},
		{"✓ done", "✓ all done", "✓", "all done"},
		// As before.
		{"ΣΊΣΥΦΟΣ", "ο σίσυφος", "σίσυφος", "ο σισυφος"},
		{"straße", "Straße", "Straße", "Strasse"},
		{"用户", "读取用户数据", "用户", "用戶"},
		{"ครับ", "สวัสดีครับ", "ครับ", "ครบ"},
	} {
		st := session.OpenDriver(memdriver.New(nil), nil)
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText(tt.text), transcript.UserText(tt.other))
		for _, ranked := range []bool{false, true} {
			var found []string
			for hit, err := range search.Session(t.Context(), s, search.Query{Text: tt.query, Ranked: ranked}) {
				require.NoError(t, err)
				found = append(found, hit.Excerpt)
				if !ranked {
					assert.Equal(t, tt.match, hit.Excerpt[hit.Start:hit.End], "%+q in %+q", tt.query, tt.text)
				}
			}
			if !ranked {
				assert.Equal(t, []string{tt.text}, found, "%+q", tt.query)
			}
			assert.Contains(t, found, tt.text, "%+q, ranked", tt.query)
		}
		storetest.Close(t, st)
	}
}
