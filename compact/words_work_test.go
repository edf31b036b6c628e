package compact_test

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// wordsSeed is the seed of the conversations of TestUserWords. It was fixed
// before anything was tuned.
const wordsSeed = 20261127

// The further kinds of facts of a wordsWork; a recallWork holds the others.
const (
	inPaste  = "constraints inside a paste"
	inFile   = "constraints in a file of instructions"
	anOption = "options of a one-word answer"
)

// tongue holds texts in a language. Templates have one %s, for the subject;
// facts have two, the second for a number.
type tongue struct {
	things                                           []string
	chat, constraint, correction, deferred, decision []string
	question                                         string // four %s
	answer, report                                   []string
	paste                                            []string // the sentences of a paste
	stop                                             string   // between sentences
}

var tongues = map[string]tongue{
	"en": {
		things: strings.Split("invoice ledger harbour kettle orchard passport mirror saddle violin lantern compass anchor blanket chimney cupboard curtain drawer engine fountain garage hammer hinge iron jacket kitchen ladder magnet needle oven pillow quilt ribbon shelf tunnel umbrella vase wagon window yard zipper bridge candle dish elevator fence glove", " "),
		chat: []string{
			"Can you look at the %s again and tell me what is missing?", "Please write a short text about the %s.", "How long would the %s take if two people worked on it?",
			"I talked to the others about the %s yesterday.", "Thanks, that helps. Go on with the %s.", "What do you think of the %s so far?", "Make a list of everything that belongs to the %s.",
			"The %s looks fine to me now.", "Could the %s be done in another way?", "Let us go through the %s step by step.",
		},
		constraint: []string{"Never move the %s before %s is signed.", "The %s must not cost more than %s.", "Whatever happens, nobody but Ruth opens the %s %s.", "Keep the %s away from room %s at all times."},
		correction: []string{"No, the %s is number %s, I was wrong before.", "Correction: the %s belongs to lot %s.", "Sorry, for the %s it is %s and nothing else."},
		deferred:   []string{"Once the rest is finished, send the %s to counter %s.", "Remind me at the end to weigh the %s, order %s.", "Later we still have to repaint the %s of hall %s."},
		decision:   []string{"We have agreed on the %s from supplier %s.", "It is settled: the %s goes to Lisbon on day %s.", "I choose the %s, model %s."},
		question:   "Which way should I take: A) the %s, B) the %s, C) the %s, or D) the %s?",
		answer:     []string{"I have looked at the %s and it is nearly complete.", "About the %s there are two opinions, and both can be defended.", "The %s needs a little more time than planned.", "Here is what I found out about the %s."},
		report:     []string{"The %s was checked twice.", "Nobody complained about the %s.", "The %s was brought back in good order."},
		paste:      []string{"Minutes of the meeting about the %s.", "The %s was discussed at length.", "Some found the %s too heavy.", "It was late when the %s came up.", "A report on the %s will follow."},
		stop:       " ",
	},
	"de": {
		things: strings.Split("Rechnung Werkbank Laterne Brunnen Geige Sattel Kessel Obstgarten Reisepass Spiegel Kompass Anker Decke Kamin Schrank Vorhang Schublade Motor Garage Hammer Scharnier Jacke Leiter Magnet Nadel Ofen Kissen Regal Tunnel Schirm Vase Wagen Fenster Hof Reißverschluss Brücke Kerze Schale Aufzug Zaun Handschuh Tinte Koffer Pinsel Treppe", " "),
		chat: []string{
			"Kannst du dir das mit %s noch einmal ansehen und sagen, was fehlt?", "Schreib bitte einen kurzen Text über %s.", "Wie lange würde %s dauern, wenn zwei Leute daran arbeiten?",
			"Ich habe gestern mit den anderen über %s gesprochen.", "Danke, das hilft. Mach mit %s weiter.", "Was hältst du bisher von %s?", "Mach eine Liste von allem, was zu %s gehört.",
			"%s sieht jetzt gut aus, finde ich.", "Ginge %s auch anders?", "Gehen wir %s Schritt für Schritt durch.",
		},
		constraint: []string{"Auf keinen Fall %s bewegen, bevor %s unterschrieben ist.", "%s darf nicht mehr als %s kosten.", "Niemand außer Ruth öffnet %s %s.", "%s bleibt immer weg von Raum %s."},
		correction: []string{"Nein, %s hat die Nummer %s, ich lag falsch.", "Korrektur: %s gehört zu Los %s.", "Entschuldige, bei %s ist es %s und nichts anderes."},
		deferred:   []string{"Wenn der Rest fertig ist, schick %s an Schalter %s.", "Erinnere mich am Ende daran, %s zu wiegen, Auftrag %s.", "Später müssen wir noch %s in Halle %s neu streichen."},
		decision:   []string{"Wir haben uns auf %s vom Lieferanten %s geeinigt.", "Es steht fest: %s geht am Tag %s nach Lissabon.", "Ich nehme %s, Modell %s."},
		question:   "Welchen Weg soll ich nehmen: A) %s, B) %s, C) %s oder D) %s?",
		answer:     []string{"Ich habe mir %s angesehen, es ist fast vollständig.", "Zu %s gibt es zwei Meinungen, und beide lassen sich vertreten.", "%s braucht etwas mehr Zeit als geplant.", "Das habe ich über %s herausgefunden."},
		report:     []string{"%s wurde zweimal geprüft.", "Niemand hat sich über %s beschwert.", "%s kam in gutem Zustand zurück."},
		paste:      []string{"Protokoll der Sitzung über %s.", "%s wurde lange besprochen.", "Einige fanden %s zu schwer.", "Es war spät, als %s an die Reihe kam.", "Ein Bericht über %s folgt."},
		stop:       " ",
	},
	"zh": {
		things: strings.Split("发票 账本 港口 水壶 果园 护照 镜子 马鞍 小提琴 灯笼 指南针 船锚 毯子 烟囱 橱柜 窗帘 抽屉 发动机 喷泉 车库 锤子 铰链 外套 厨房 梯子 磁铁 针线 烤箱 枕头 丝带 书架 隧道 雨伞 花瓶 马车 院子 拉链 桥梁 蜡烛 盘子 电梯 篱笆 手套 墨水 箱子", " "),
		chat: []string{
			"你能再看一下%s，告诉我缺什么吗？", "请写一段关于%s的短文。", "如果两个人做，%s要多久？", "我昨天和其他人谈了%s。", "谢谢，有帮助。继续做%s。",
			"到目前为止你觉得%s怎么样？", "把属于%s的东西都列出来。", "我看%s现在没问题了。", "%s能不能换个做法？", "我们一步一步看%s吧。",
		},
		constraint: []string{"在%s签字之前绝对不要移动%s。", "%s的费用不得超过%s。", "不管怎样，除了小林谁也不能打开%s%s。", "%s始终不能放进%s号房间。"},
		correction: []string{"不对，%s的编号是%s，我之前说错了。", "更正：%s属于%s批。", "抱歉，%s是%s，不是别的。"},
		deferred:   []string{"其余的做完以后，把%s送到%s号柜台。", "最后提醒我称一下%s，订单%s。", "以后我们还要重新油漆%s，在%s号厅。"},
		decision:   []string{"我们已经同意用%s，供应商是%s。", "定了：%s在第%s天运往里斯本。", "我选%s，型号%s。"},
		question:   "我该选哪一种：A）%s，B）%s，C）%s，还是D）%s？",
		answer:     []string{"我看过%s了，差不多完成了。", "关于%s有两种意见，都说得通。", "%s比计划需要更多时间。", "这是我查到的关于%s的情况。"},
		report:     []string{"%s检查了两遍。", "没有人抱怨%s。", "%s完好地送回来了。"},
		paste:      []string{"关于%s的会议记录。", "大家讨论了很久%s。", "有人觉得%s太重。", "谈到%s时已经很晚了。", "关于%s的报告随后送来。"},
	},
	"ja": {
		things: strings.Split("請求書 帳簿 港 やかん 果樹園 旅券 鏡 鞍 バイオリン 提灯 羅針盤 錨 毛布 煙突 食器棚 カーテン 引き出し エンジン 噴水 車庫 金槌 蝶番 上着 台所 梯子 磁石 縫い針 オーブン 枕 リボン 本棚 トンネル 傘 花瓶 馬車 中庭 ファスナー 橋 ろうそく 皿 昇降機 垣根 手袋 インク 鞄", " "),
		chat: []string{
			"%sをもう一度見て、足りないものを教えてくれますか？", "%sについて短い文章を書いてください。", "二人でやると%sはどのくらいかかりますか？", "昨日みんなと%sの話をしました。", "ありがとう、助かります。%sを続けてください。",
			"今のところ%sをどう思いますか？", "%sに関係するものを全部並べてください。", "%sはもう大丈夫だと思います。", "%sは別のやり方でできますか？", "%sを一つずつ見ていきましょう。",
		},
		constraint: []string{"%sは%sの署名が済むまで絶対に動かさないでください。", "%sの費用は%sを超えてはいけません。", "何があっても、林さん以外は%s%sを開けないこと。", "%sはいつも%s号室から離しておくこと。"},
		correction: []string{"いいえ、前のは間違いで、%sの番号は%sです。", "訂正します、%sは%s番の組です。", "すみません、%sは%sで、ほかではありません。"},
		deferred:   []string{"残りが終わったら、%sを%s番の窓口に送ってください。", "最後に%sの重さを量ることを思い出させて、注文%sです。", "あとで%sを塗り直す必要があります、%s番の部屋です。"},
		decision:   []string{"%sは仕入先%sに決めました。", "決まりです、%sは%s日目にリスボンへ送ります。", "%sの型番%sを選びます。"},
		question:   "どれにしますか：A）%s、B）%s、C）%s、それともD）%sですか？",
		answer:     []string{"%sを見ましたが、ほぼ完成しています。", "%sについては二つの意見があり、どちらも成り立ちます。", "%sは予定より少し時間がかかります。", "%sについて分かったことです。"},
		report:     []string{"%sは二回確認しました。", "%sに苦情はありませんでした。", "%sは無事に戻りました。"},
		paste:      []string{"%sについての会議の記録です。", "%sは長く話し合われました。", "%sは重すぎるという人もいました。", "%sの話になったときは遅い時間でした。", "%sの報告は後で届きます。"},
	},
}

// wordsWork makes up a conversation in one language. The user writes share of all
// tokens; the rest are answers and, for a coder, results of tools.
// The same seed gives the same conversation.
type wordsWork struct {
	*rand.Rand
	tongue
	share     float64
	coder     bool
	user, all int // tokens so far
	n         int // numbers given out
	facts     []recallFact
	latest    map[string]int // corrected thing -> the fact with its latest value
	stale     map[int]bool   // facts that later ones replaced
	due       int            // answers with calls still to come in the turn
	options   bool           // the next text of the user is one word
	rules     int            // the fact of the instruction file; -1 for none
}

func newWordsWork(seed uint64, lang string, share float64, coder bool) *wordsWork {
	return &wordsWork{Rand: rand.New(rand.NewPCG(seed, uint64(share*1000))), tongue: tongues[lang], share: share, coder: coder, latest: map[string]int{}, stale: map[int]bool{}, rules: -1}
}

func (w *wordsWork) one(n int) bool { return w.IntN(n) == 0 }

func (w *wordsWork) of(list []string) string { return list[w.IntN(len(list))] }

func (w *wordsWork) number() string { w.n++; return fmt.Sprint(w.n*7 + 100) }

func (w *wordsWork) told(kind, text string) string {
	w.facts = append(w.facts, recallFact{kind, text})
	return text
}

func (w *wordsWork) say(list []string) string { return fmt.Sprintf(w.of(list), w.of(w.things)) }

// many returns n sentences of a list.
func (w *wordsWork) many(n int, list []string) string {
	said := make([]string, n)
	for i := range said {
		said[i] = w.say(list)
	}
	return strings.Join(said, w.stop)
}

// next returns the next append.
func (w *wordsWork) next() (items []transcript.Item) {
	switch {
	case w.due > 0:
		w.due--
		items = w.step()
	case w.due == 0:
		w.due--
		text := w.many(1+w.IntN(4), w.answer)
		if w.talks() {
			text += "\n" + w.many(40, w.answer)
		}
		if w.one(8) {
			options := []any{w.of(w.things), w.of(w.things) + " " + w.number(), w.of(w.things), w.of(w.things)}
			w.told(anOption, fmt.Sprint(options[1]))
			text, w.options = text+"\n\n"+fmt.Sprintf(w.question, options...), true
		}
		items = []transcript.Item{transcript.AssistantText(text)}
	case !w.options && w.talks():
		text := w.say(w.chat)
		w.user += sizeOf(text)
		w.due, items = 0, []transcript.Item{transcript.UserText(text)}
	default:
		text := w.request()
		w.user += sizeOf(text)
		if w.due = 0; w.coder { // as many calls as needed
			w.due = 1 + max(0, int((float64(w.user)/w.share-float64(w.all))/900))
		}
		items = []transcript.Item{transcript.UserText(text)}
	}
	for _, item := range items {
		if m, ok := item.(transcript.Message); ok {
			w.all += estimate.Count("", nil, []transcript.Message{m})
		}
	}
	return items
}

// talks reports whether the assistant must write more, to keep the user's words
// within their share.
func (w *wordsWork) talks() bool {
	return !w.coder && w.share*float64(w.all) < float64(w.user)
}

// request is a text of the user that begins a turn.
func (w *wordsWork) request() string {
	if w.options {
		w.options = false
		return "B"
	}
	said := []string{w.say(w.chat)}
	for range w.IntN(3) {
		said = append(said, w.say(w.chat))
	}
	fact := func(kind string, list []string) string {
		return w.told(kind, fmt.Sprintf(w.of(list), w.of(w.things), w.number()))
	}
	switch w.IntN(12) {
	case 0:
		said = append(said, fact(aConstraint, w.constraint))
	case 1, 2: // about half of all things are corrected more than once
		thing := w.things[w.IntN(6)]
		if old, ok := w.latest[thing]; ok {
			w.stale[old] = true
		}
		w.latest[thing] = len(w.facts)
		said = append(said, w.told(aCorrection, fmt.Sprintf(w.correction[len(thing)%len(w.correction)], thing, w.number())))
	case 3:
		said = append(said, fact(aDeferred, w.deferred))
	case 4:
		said = append(said, fact(aDecision, w.decision))
	}
	w.Shuffle(len(said), func(i, j int) { said[i], said[j] = said[j], said[i] })
	text := strings.Join(said, w.stop)
	if w.one(25) {
		lines := make([]string, 15+w.IntN(25))
		for i := range lines {
			lines[i] = w.many(2, w.paste)
		}
		lines[len(lines)/4+w.IntN(len(lines)/2)] = fact(inPaste, w.constraint)
		text += "\n" + strings.Join(lines, "\n")
	}
	return text
}

// step is an answer with a call and its result.
func (w *wordsWork) step() []transcript.Item {
	id := "call" + w.number()
	if w.one(60) || w.rules < 0 {
		if w.rules >= 0 {
			w.stale[w.rules] = true
		}
		w.rules = len(w.facts)
		rule := w.told(inFile, fmt.Sprintf(w.of(w.constraint), w.of(w.things), w.number()))
		return []transcript.Item{called(id, "read", `{"path":"AGENTS.md"}`), transcript.ToolResult(id, "# Agents\n\n- "+w.say(w.report)+"\n- "+rule+"\n- "+w.say(w.report)+"\n")}
	}
	path := fmt.Sprintf("src/part%d/file%s.go", w.IntN(5), w.number())
	return []transcript.Item{called(id, "read", `{"path":"`+path+`"}`), transcript.ToolResult(id, w.many(10+w.IntN(60), w.report))}
}
