package compact_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/transcript"
)

// A short summary is judged alike in every language: honest ones are accepted, refusals are
// not. The last rows are summaries of a conversation in another language.
func TestShortSummariesOfLanguages(t *testing.T) {
	trip := "We take the night train to Porto with Aunt Ruth.|The hotel in Faro has no lift, and Ruth cannot climb stairs.|Book 3 rooms for May 14 and pay with the card that ends in 4711.|The children want to see the lighthouse near Lagos.|Ask about breakfast before eight, the bus leaves early."
	for _, tt := range []struct{ language, talk, honest, bad string }{
		{
			"fr", "On refait la salle de bains cet été.|Le carreleur propose du grès gris, pas de bois.|Maman ne peut pas monter l'escalier, il faut une rampe.|Le devis du plombier dépasse le budget.|La peinture du couloir attendra l'automne.",
			"Travaux : carrelage gris, rampe pour l'escalier.|Le devis du plombier reste trop cher.", "Je ne peux pas vous aider.|Désolé, je ne peux pas faire cela.",
		},
		{
			"ru", "Мы строим баню на даче к осени.|Печник советует кирпич, а не металл.|Бабушке нельзя долго стоять, нужна широкая лавка.|Доски привезут во вторник, заплатить надо сразу.|Крышу покроем черепицей, если хватит денег.",
			"Баня: кирпич, широкая лавка.|Доски во вторник, крыша потом.", "Я не могу помочь с этим.|Извините, я не могу это сделать.",
		},
		{
			"ko", "이번 여름에 제주도로 가족 여행을 갑니다.|할머니는 계단을 못 오르시니 엘리베이터가 있는 호텔이 필요합니다.|렌터카는 빨간색 말고 흰색으로 예약해 주세요.|아이들은 수영장과 박물관을 보고 싶어 합니다.|비행기 표는 아직 사지 않았습니다.",
			"제주도 여행: 엘리베이터 있는 호텔.|흰색 렌터카, 비행기 표는 미정.", "죄송하지만 도와드릴 수 없습니다.|그건 할 수 없습니다.",
		},
		{
			"zh", "我们打算秋天装修厨房。|妈妈对油漆过敏，只能用水性漆。|橱柜要白色，台面不要大理石。|电工说插座不够，要加三个。|预算不能超过两万元。",
			"厨房装修：水性漆，白色橱柜。|插座加三个，预算两万。", "抱歉，我无法协助。|我不能这样做。",
		},
		{
			"th", "เราจะจัดงานแต่งงานที่เชียงใหม่เดือนธันวาคม|คุณยายแพ้ถั่ว ห้ามใส่ถั่วในอาหารทุกจาน|ดอกไม้ต้องเป็นสีขาวเท่านั้น ไม่เอากุหลาบ|ช่างภาพขอมัดจำห้าพันบาทก่อนวันศุกร์|โรงแรมมีห้องว่างแค่สิบสองห้อง",
			"งานแต่งงานเชียงใหม่ ดอกไม้สีขาว|คุณยายแพ้ถั่ว มัดจำช่างภาพ", "ขออภัย ฉันช่วยเรื่องนี้ไม่ได้|ฉันทำไม่ได้",
		},
		{
			"vi", "Chúng tôi sửa nhà bếp vào mùa thu này.|Bà ngoại dị ứng tôm, đừng đặt món có tôm.|Tủ bếp màu trắng, mặt bàn bằng gỗ sồi.|Thợ điện cần thêm ba ổ cắm gần cửa sổ.|Tiền cọc phải trả trước thứ sáu.",
			"Nhà bếp: tủ trắng, gỗ sồi.|Bà ngoại dị ứng tôm; ba ổ cắm.", "Xin lỗi, tôi không thể giúp việc đó.|Tôi không làm được.",
		},
		{
			"he", "אנחנו משפצים את המטבח בסתיו.|סבתא אלרגית לאגוזים, אין להזמין עוגת אגוזים.|הארונות יהיו לבנים והשיש אפור.|החשמלאי צריך עוד שלושה שקעים ליד החלון.|המקדמה לנגר עד יום שישי.",
			"שיפוץ המטבח: ארונות לבנים, שיש אפור.|סבתא אלרגית לאגוזים; שקעים ליד החלון.", "מצטער, אני לא יכול לעזור בזה.|לא אוכל לעשות זאת.",
		},
		{
			"ar", "سنجدد المطبخ في الخريف القادم.|جدتي تعاني حساسية من الفول السوداني.|الخزائن بيضاء وسطح الطاولة من الرخام الرمادي.|يحتاج الكهربائي ثلاثة مقابس قرب النافذة.|يجب دفع العربون قبل يوم الجمعة.",
			"تجديد المطبخ: خزائن بيضاء ورخام.|حساسية جدتي من الفول السوداني.", "عذرا، لا أستطيع المساعدة في ذلك.|لا يمكنني فعل هذا.",
		},
		{
			"hi", "हम शरद ऋतु में रसोई की मरम्मत करेंगे।|दादी को मूँगफली से एलर्जी है।|अलमारियाँ सफेद होंगी और पत्थर धूसर।|बिजली मिस्त्री को खिड़की के पास तीन सॉकेट चाहिए।|शुक्रवार से पहले अग्रिम राशि देनी है।",
			"रसोई की मरम्मत: सफेद अलमारियाँ।|दादी को मूँगफली से एलर्जी।", "क्षमा करें, मैं इसमें मदद नहीं कर सकता।|मैं यह नहीं कर सकता।",
		},
		{
			"tr", "Sonbaharda mutfağı yeniliyoruz.|Babaannemin fıstığa alerjisi var.|Dolaplar beyaz, tezgâh gri mermer olacak.|Elektrikçi pencerenin yanına üç priz istiyor.|Kapora cumadan önce ödenmeli.",
			"Mutfak: beyaz dolaplar, gri mermer tezgâh.|Fıstığa alerji var; üç priz.", "Üzgünüm, yardımcı olamam.|Bunu yapamam.",
		},
		{"de over en", trip, "Nachtzug nach Porto mit Tante Ruth.|Ruth steigt keine Treppen; Zahlung mit 4711.|Leuchtturm bei Lagos, Hotel in Faro.", "Es tut mir leid, dabei kann ich nicht helfen.|Das geht leider nicht."},
		{"ru over en", trip, "Поезд в Porto, отель в Faro.|Номера на 14 мая, карта 4711.", "Я не могу помочь с этим.|Извините, нельзя."},
		{"ja over en", trip, "Faroのホテル、Ruthは階段が無理。|部屋は5月14日、カード4711。", "申し訳ございませんが、対応できません。|できません。"},
		{"ko over en", trip, "Porto행 야간열차, Ruth 동행.|카드 4711, 14일 예약.", "죄송하지만 도와드릴 수 없습니다."},
		{"ar over en", trip, "قطار ليلي إلى Porto مع Ruth.|البطاقة 4711، يوم 14.", "عذرا، لا أستطيع المساعدة."},
		{"en over he", "רות רוצה לנסוע עם Nadav לאילת ב-14 במאי.|המלון Isrotel יקר, וכרטיס 4711 חסום.|הילדים רוצים לראות דגים.|אין לאכול אגוזים.|האוטובוס יוצא מוקדם.", "Trip with Nadav, card 4711 is blocked.|Isrotel is too dear for Nadav and them.", "I'm sorry, but I can't help with that.|I cannot do this."},
	} {
		t.Run(tt.language, func(t *testing.T) {
			var msgs []transcript.Message
			lines := strings.Split(tt.talk, "|")
			for n, i := 0, 0; n < 3_000; i++ {
				said := []transcript.Message{transcript.UserText(lines[i%len(lines)]), transcript.AssistantText("OK")}
				msgs, n = append(msgs, said...), n+estimate.Count("", nil, said)
			}
			for text := range strings.SplitSeq(tt.honest, "|") {
				_, err := compact.Either(says(text, nil)).Summarize(t.Context(), compact.Input{Messages: msgs, MaxTokens: 2_000})
				if err != nil {
					t.Errorf("honest, %q: %v", text, err)
				}
			}
			for text := range strings.SplitSeq(tt.bad, "|") {
				_, err := compact.Either(says(text, nil)).Summarize(t.Context(), compact.Input{Messages: msgs, MaxTokens: 2_000})
				if !errors.Is(err, compact.ErrRefused) {
					t.Errorf("bad, %q: %v", text, err)
				}
			}
		})
	}
}
