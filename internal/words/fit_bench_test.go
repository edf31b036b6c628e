package words_test

import (
	"strings"
	"testing"

	"github.com/convolog/convolog/internal/words"
)

func BenchmarkFit(b *testing.B) {
	texts := map[string]string{
		"ascii":    "The build fails in store.go: the lock is taken twice, once in Load and once in Append. Move it, then run the tests again. ",
		"english":  "The build fails in “store.go” – the lock is taken twice… once in Load and once in Append. Don’t move it 👍🏽, then run ✅ the tests again. ",
		"russian":  "Сборка падает в store.go: блокировка берётся дважды, один раз в Load и один раз в Append. Перенеси её и запусти тесты снова — ещё раз. ",
		"chinese":  "构建在 store.go 中失败：锁被获取了两次，一次在 Load，一次在 Append。移动它，然后再次运行测试，请再试一次。",
		"japanese": "ビルドが store.go で失敗します：ロックが２回取得されています。移動して、もう一度テストを実行してください。",
		"arabic":   "فشل البناء في store.go: تم أخذ القفل مرتين، مرة في Load ومرة في Append. انقله ثم أعد الاختبارات. ",
		"korean":   "빌드가 store.go에서 실패합니다: 잠금이 두 번 걸립니다. 옮긴 다음 테스트를 다시 실행하세요. ",
	}
	for _, name := range []string{"ascii", "english", "russian", "chinese", "japanese", "arabic", "korean"} {
		raw := []byte(strings.Repeat(texts[name], 100_000/len(texts[name])))
		for _, q := range []string{"needle4711", "иголка", "稀有词", "データベース", "بحثنا", "don't", "الذسك"} {
			query, err := words.Parse(q, false)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(name+"/"+q, func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				for b.Loop() {
					query.MayFit(raw)
				}
			})
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for _, q := range []string{"needle4711", "the lock in Append", "稀有词数据库"} {
		b.Run(q, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = words.Parse(q, true)
			}
		})
	}
}

func BenchmarkTerms(b *testing.B) {
	for _, q := range []string{strings.Repeat("The build fails in store.go: the lock is taken twice. ", 100), strings.Repeat("构建在 store.go 中失败：锁被获取了两次，", 100), strings.Repeat("Größe und Übung – die Prüfung fällt für Ärzte aus. ", 100)} {
		b.Run(q[:9], func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				words.Terms(q)
			}
		})
	}
}

func BenchmarkLook(b *testing.B) {
	for _, text := range []string{strings.Repeat("The build fails in store.go: the lock is taken twice. ", 100), strings.Repeat("构建在 store.go 中失败：锁被获取了两次，", 100), strings.Repeat("Größe und Übung – die Prüfung fällt für Ärzte aus, lock. ", 100)} {
		for _, q := range []string{"lock", "锁被", "größe", "the lock in Append 构建"} {
			query, _ := words.Parse(q, true)
			b.Run(text[:9]+"/"+q, func(b *testing.B) {
				b.ReportAllocs()
				list := []string{text}
				for b.Loop() {
					query.Look(list, words.MostOnce)
				}
			})
		}
	}
}
