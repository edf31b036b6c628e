package compact

import (
	"strings"

	"github.com/convolog/convolog/internal/lazy"
)

// How texts begin that are no summaries. The patterns are for the result of
// opening. They ask for more than an apology: for whom the sentence is about,
// and what that one cannot do, so that a summary may begin with "Sorry" and
// "We cannot" too.

var (
	acknowledged = lazy.New(`^(ok|okay|done|understood|sure|yes|no|noted|got it|acknowledged|certainly|of course|summary|none|null|nil|n/a|好的?|明白了?|хорошо|готово)[\W_]*$`)

	// goesOn is an answer to the summarizer's request, without what was asked for.
	goesOn = lazy.New(`^(ok|okay|understood|sure|sure thing|yes|noted|got it|acknowledged|certainly|of course|alright|all right|great|thanks|thank you)[,.!:;—-]+ ?` +
		`(i|i'll|i'm|i've|we|we'll|let me|let's|here|ready|continuing|proceeding)\b|` +
		`^(here's|here is|here are|below is|this is|the following is) (a|an|the|your|my) [^.:]{0,80}(summary|overview|recap)[^.:]{0,40}[:.]?\W*$|` +
		`^(i'm|i am) ready to (continue|go on|proceed|help|assist)\b|^how can i (help|assist)\b`)

	refused = lazy.New(`^` + sorry + `(i|we) ?` + cannot + `( (with )?(` + service + `)\b|,? (but|as|because|since)\b|[.!]|$)|` +
		`^` + sorry + `i (must|have to|need to|will have to) (decline|refuse)\b|` +
		`^` + sorry + `as an? (ai|artificial intelligence|large language model|language model)( language)?( model| assistant| system)?,? (i|we)\b|` +
		`^` + sorry + `(this|that|your|the) (request|conversation|content|message|text)s? (may |appears to |seems to )?(violates?|goes against|is against|breaches|conflicts with) [^.]{0,40}(polic|guideline|terms of)|` +
		`^(` + strings.Join(refusals, "|") + `)`)

	notFound = lazy.New(`^((it (seems|looks like|appears)|i'm afraid|i notice)( that)? )?` +
		`((there (is|are|was|were) (no|nothing)|there (isn't|aren't|wasn't) any) ?((prior|previous|earlier|actual) )?(conversation|chat|history|messages?|transcript|content|context|text)?( history)?( here)? ?(to summari|was|were|provided|available|here|yet|so far|\W*$)|` +
		`no (prior|previous|earlier) (history|conversation|messages?|context|summary)\W*$|no (prior|previous|earlier) (history|conversation|messages?|context) (to|was|is|were|available|provided|found|exists)|` +
		`no (conversation|chat|history|messages|transcript|content)( history)? (to summari|was|were|is|provided|available|found|yet|\W*$)|` +
		`(there is |i have |i see )?nothing (to|here to|available to|was (provided|given) to) summari|` +
		`the (conversation|history|transcript|chat)( history)? (is|was|appears|seems)( to be)? (empty|blank|missing)[\W_]*($|[.,;] )|` +
		`(a |the )?summary (is |was )?(unavailable|not available)|no summary\b|` +
		`((all|the) )?(previous|prior|earlier|older) (context|conversation|history|messages?|turns) ((was|were|is|are|has been|have been) )?(omitted|truncated|removed|cleared|dropped|lost|unavailable)\W*$|` +
		`(please|could you|can you|kindly)( please)? (provide|share|paste|send|give)( me)?( with)? (the|your|a|any|some|more|it) ?((text|conversation|chat|history|messages?|transcript|content|context|details|information)\b|\W*$)|` +
		`(i|you) (don't|do not|didn't|did not|haven't|have not) (see|have|find|provided?|given|shared?|included?) (any|access to|a|the) (prior |previous |earlier )?(conversation|chat|history|messages?|transcript|content|context|text)\b|` +
		`(i('ve| have) summari[sz]ed )(the|our|this|your) (conversation|chat|history|discussion|dialogue|messages|transcript)\b|the conversation (has been|was) summari[sz]ed|没有(任何)?(可|需要|对话|历史|内容)|нет (предыдущей )?(истории|сообщений))`)

	// fault is a message about a failure.
	fault = lazy.New(`^((http|error|status|exception|fatal)[ :]+){1,3}[45]\d\d(\W*$|:| (internal|bad|service|gateway|too many|unauthori|forbidden|not found))|` +
		`^[45]\d\d:? (internal server error|bad gateway|service unavailable|gateway time-?out|too many requests|bad request|unauthori[sz]ed|forbidden|not found)|` +
		`^(an )?(unexpected |unknown |internal )?(error|exception|failure)s? (occurred |happened )?(while |when |in |during )?(generating|creating|making|writing|producing|processing|calling)\b|` +
		`^failed to (generate|create|make|write|produce|summari[sz]e|call)\b|^(internal server error|bad gateway|service unavailable|gateway time-?out|rate limit(ed)? exceeded)\W*$`)
)

const (
	sorry = `(((i'm|i am) (very |so |really |truly )?sorry|i (sincerely )?apologi[sz]e|(my )?apologies|sorry|i('m| am) afraid|i regret( to (say|inform you))?|unfortunately|regrettably|` +
		`(thank you|thanks)[^.!]{0,80}[.!] ?(however|but|unfortunately)?)[,.:;!—-]* ?(but |however,? |that )*)?`
	cannot  = `('m| am)? ?(can't|cannot|can not|won't|will not|unable|not able|do not feel comfortable|don't feel comfortable)( to)?`
	service = `help|helping|assist|assisting|provide|providing|summari[sz]e|summari[sz]ing|comply|fulfil\w*|do (this|that|so)|create|write|produce|generate|process|continue|support|engage|discuss|respond|answer`
)

// refusals are those of other languages, as regular expressions.
var refusals = []string{
	// Chinese, Japanese, Korean
	`(很|非常|十分)?(抱歉|对不起|遗憾)?[，,。！! ]*(但是?|可是)?我?(无法|不能|没办法|没有办法|不可以)(提供|帮|协助|总结|概括|处理|回答|完成|满足|继续|讨论)`,
	`(大変)?(申し訳(ありません|ございません|ない)|すみません|恐れ入ります)(が|けど)?[、。,. ]`,
	`[^。]{0,30}(お手伝い|要約|対応|お答え|提供)(は|を|が)?(する(こと(は|が))?)?(でき(ません|かねます|ない)|いたしかねます)`,
	`[^.]{0,30}(도와드릴|도움을 드릴|요약할|제공할|답변(할|드릴)|처리할) 수 (없|가 없)`,
	// Russian
	`(извините|простите|прошу прощения|к сожалению)?[,.!]* ?(но )?(я )?не (могу|в состоянии|имею возможности) ([а-яё]+ ){0,4}?(помочь|помогать|обобщить|резюмировать|предоставить|выполнить|продолжить|обработать|ответить)`,
	// German, Dutch
	`((es )?tut mir (sehr )?leid|entschuldigung|leider)?[,.!]* ?(aber )?(dabei |damit |das |hierbei )?(ich kann|kann ich|ich darf|darf ich) ([^.,]{1,60} )?nicht (weiter)?(helfen|zusammenfassen|unterstützen|bearbeiten|erfüllen|bereitstellen|beantworten|fortsetzen)`,
	`(het spijt me|sorry|helaas)?[,.!]* ?(maar )?(daar |hier )?(kan ik|ik kan) ([^.,]{1,60} )?niet ((bij|mee|verder) )?(helpen|samenvatten|voldoen|verwerken|beantwoorden)`,
	// Spanish, Portuguese, Italian, French
	`(lo siento( mucho)?|disculpa|perd[óo]n|lamentablemente)?[,.!]* ?(pero )?no puedo (ayudar|asistir|resumir|proporcionar|cumplir|procesar|continuar|responder)`,
	`((me )?desculpe|lamento|sinto muito|infelizmente)?[,.!]* ?(mas )?(eu )?não (posso|consigo) (ajudar|auxiliar|resumir|fornecer|atender|processar|continuar|responder)`,
	`(mi dispiace|spiacente|purtroppo)?[,.!]* ?(ma )?non (posso|sono in grado di) (aiutar|assister|riassumer|fornir|elaborar|soddisfar|continuar|risponder)`,
	`((je suis )?(désolée?|navrée?)|malheureusement)?[,.!]* ?(mais )?je ne (peux|puis|suis) pas ((en mesure|capable) de |vous |t'|y |répondre favorablement|)*(aider|assister|résumer|fournir|traiter|répondre|continuer|accéder)`,
	// Polish, Turkish
	`(przepraszam|przykro mi|niestety)?[,.!]* ?(ale )?nie mogę ([a-ząćęłńóśźż]+ ){0,3}?(pomóc|podsumować|streścić|dostarczyć|spełnić|przetworzyć|odpowiedzieć)`,
	`(üzgünüm|maalesef|özür dilerim)?[,.!]* ?(ama |ancak )?[^.,]{0,60}(yardımcı olam|yardım edem|özetleyem|sağlayam|yanıtlayam)(am|ıyorum|iyorum)`,
}

// opening is how a text begins: lower case, without marks and headings around
// it, with one kind of apostrophe.
func opening(s string) string {
	s = strings.ToLower(s[:runeStart(s, min(len(s), 600))])
	s = strings.ReplaceAll(s, "’", "'")
	s = strings.Join(strings.Fields(s), " ")
	for {
		short := strings.TrimLeft(s, "#*_`\"'>-“”«[( ")
		short = strings.TrimPrefix(short, "summary:")
		short = strings.TrimPrefix(short, "summary**")
		if short == s {
			return s
		}
		s = short
	}
}
