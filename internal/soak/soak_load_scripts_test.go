package soak_test

import (
	"math/rand/v2"
	"strings"
)

// A script is a way of writing, with some words in it. The texts made of them mean
// nothing.
type script struct {
	words     []string
	space     string // between words
	stop      string // after a sentence
	min, more int    // words in a sentence
}

// sentence makes a sentence.
func (s *script) sentence(r *rand.Rand) string {
	var sb strings.Builder
	for i := range s.min + r.IntN(s.more) {
		if i > 0 {
			sb.WriteString(s.space)
		}
		sb.WriteString(s.words[r.IntN(len(s.words))])
	}
	return sb.String()
}

// text makes a text of a number of sentences.
func (s *script) text(r *rand.Rand, sentences int) string {
	var sb strings.Builder
	for i := range sentences {
		if i > 0 {
			sb.WriteString(s.space)
		}
		sb.WriteString(s.sentence(r) + s.stop)
	}
	return sb.String()
}

var english = &scripts[0]

var scripts = []script{
	{strings.Fields(`harbour bridge ledger merchant town engine window garden winter letter carpet station market river
		signal paper candle timber anchor orchard kettle border lantern copper meadow painter tunnel ribbon basket captain
		harvest pocket island butter thunder mirror village shadow planet needle looks makes takes follows answers opens
		closes before after under between again slowly often never without`), " ", ".", 5, 10},
	{strings.Fields(`Hafen Brücke Rechnung Händler Stadt Maschine Fenster Garten Straße Briefe Größe Bahnhof Fluß Zeichen
		Überschrift Kerze Schlüssel Anker Löwe Grenze Laterne Kupfer Wiese Maler läuft macht nimmt folgt öffnet schließt
		vorher nachher zwischen wieder langsam niemals ohne`), " ", ".", 5, 9},
	{strings.Fields(`гавань мост счёт купец город машина окно сад зима письмо станция рынок река сигнал бумага свеча якорь
		граница фонарь медь луг художник идёт делает берёт следует отвечает открывает до после под между снова медленно часто никогда без`), " ", ".", 5, 9},
	{strings.Fields(`港口 桥梁 账簿 商人 城市 机器 窗户 花园 冬天 信件 车站 市场 河流 信号 纸张 蜡烛 木材 锚 果园 边界 灯笼 铜 草地 画家
		看 做 拿 跟随 回答 打开 关闭 之前 之后 下面 之间 再次 慢慢地 经常 从不 没有`), "", "。", 6, 9},
	{strings.Fields(`港 橋 帳簿 商人 町 エンジン 窓 庭 冬 手紙 駅 市場 川 シグナル 紙 ろうそく 木材 いかり 果樹園 やかん 国境 ランタン
		見る 作る 取る 従う 答える 開ける 閉める は が を に で の まえに あとで また ゆっくり いつも`), "", "。", 7, 9},
	{strings.Fields(`ميناء جسر دفتر تاجر مدينة محرك نافذة حديقة شتاء رسالة محطة سوق نهر إشارة ورق شمعة خشب مرساة بستان حدود
		فانوس نحاس مرج رسام ينظر يصنع يأخذ يتبع يجيب يفتح يغلق قبل بعد تحت بين مرة ببطء غالبا أبدا`), " ", ".", 5, 9},
	{strings.Fields(`बंदरगाह पुल बहीखाता व्यापारी नगर इंजन खिड़की बगीचा सर्दी चिट्ठी स्टेशन बाज़ार नदी संकेत काग़ज़ मोमबत्ती लकड़ी लंगर
		सीमा लालटेन तांबा मैदान चित्रकार देखता बनाता लेता उत्तर खोलता पहले बाद नीचे बीच फिर धीरे अक्सर कभी`), " ", "।", 5, 9},
	{strings.Fields(`so nice 😀 👍 🚢 🌉 haha 🎉 really 👩‍💻 🏳️‍🌈 ok 🍊 look 👀 🇩🇪 yes 🙏🏽 ✨ wow 🤷 later 🐟 great`), " ", "!", 4, 8},
}
