package guard

// overflowCodes are types and codes that say overflow by themselves. They come
// before everything but a cancellation.
var overflowCodes = map[string]Kind{
	"context_length_exceeded":          Tokens,
	"context_window_exceeded":          Tokens,
	"context_limit_exceeded":           Tokens,
	"contextwindowexceedederror":       Tokens,
	"contextwindowexceeded":            Tokens,
	"exceed_context_size_error":        Tokens,
	"exceed_context_size":              Tokens,
	"model_max_prompt_tokens_exceeded": Tokens,
	"max_prompt_tokens_exceeded":       Tokens,
	"tokens_limit_reached":             Tokens,
	"max_tokens_per_request":           Tokens,
	"message_length_exceeds_limit":     Tokens,
	"outofcontexterror":                Tokens,
	"prompt_too_long":                  Tokens,
	"input_too_long":                   Tokens,
	"context_too_long":                 Tokens,
	"context_overflow":                 Tokens,
	"content_length_exceeds_threshold": Tokens,
	"model_context_window_exceeded":    StopReason,
}

// minimaxTokens is a code that is trusted only together with its words, as
// numbers mean other things to other providers.
const minimaxTokens = "1039"

var tokenLimit = words(`\btoken limit\b`)

// bodyCodes say that the body is too large. A rate limit in the text comes
// before them, and so does a size in tokens.
var bodyCodes = map[string]bool{
	"request_too_large":        true,
	"request_entity_too_large": true,
	"payload_too_large":        true,
}

// What a prompt is called, and what the window is called.
const (
	promptNoun = `(?:prompt|inputs?|conversation|chat|messages|history|transcript|sequence)`
	window     = `(?:(?:context|ctx)[ _-]?(?:window|length|size|limit|budget)|(?:n|num)_ctx|max_(?:model|seq)_len|length limit (?:for|of) (?:this|the|your) (?:chat|conversation|model)|max_(?:prompt|input)_tokens|(?:model |input |prompt |context )?token limit|` +
		`(?:maximum|max|allowed) (?:allowed )?(?:number of )?(?:input |prompt |message |context |total )?tokens|max(?:imum)? (?:model |input |prompt |sequence )length|` +
		`(?:model|maximum|max|available|supported|allowed|configured|its)(?:'s)? context)`
)

// reasoning is tried before the refusals, because the words that follow in these
// errors are about the format of a request.
var reasoning = []textRule{{
	name: "reasoning",
	kind: Reasoning,
	match: words(`\bbound to a different conversation\b|\binvalid .?signature.? in .?(?:redacted_)?thinking.? block|` +
		`\bthinking.{0,3} or .{0,3}redacted_thinking.{0,3} blocks\b[^.\n]{0,60}\bcannot be modified\b`),
}}

// overflows are tried in this order after the refusals.
var overflows = []textRule{
	{
		name:  "stop_reason",
		kind:  StopReason,
		match: words(`\bmodel_context_window_exceeded\b`),
	},
	{
		name:  "code_in_text",
		kind:  Tokens,
		match: words(`\bcontext_(?:length|window)_exceeded\b|\bcontextwindowexceeded|\bexceed_context_size|\bmodel_max_prompt_tokens_exceeded\b|\btokens_limit_reached\b|\boutofcontexterror\b|\bcontent_length_exceeds_threshold\b`),
	},

	// Bodies, as far as they do not count tokens.
	{
		name: "body_too_large",
		kind: Bytes,
		match: words(`\brequest_too_large\b|\b(?:request|payload|body|content)(?: (?:entity|body|payload|content|size))* (?:is |was )?too (?:large|big)\b|\bentity too large\b|` +
			`\brequest exceeds the maximum (?:allowed )?(?:size|number of bytes|body)|\bbody (?:size )?(?:limit )?exceed`),
		unless: words(`\d tokens\b`),
	},
	{
		name:   "size_exceeds",
		kind:   Bytes,
		match:  words(`\b(?:request|payload|body|message|content|upload)(?: (?:payload|body|content|message|length))? size(?: of)?(?: \(?\d[\d,._]*(?: ?[a-z]+)?\)?)? (?:has )?exceed|\btotal bytes\b[^.\n]{0,60}\bexceed`),
		unless: words(`\d tokens\b|\bcontext size\b`),
	},
	{
		name: "characters",
		kind: Bytes,
		match: words(`\bstring value length \(\d+\) exceeds\b|\bexpected maxlength: \d{4,}, actual\b|\btoo many (?:total )?(?:text )?(?:bytes|characters)\b|` +
			`\bmax(?:imum)?(?: number of)? (?:inputs?|prompt|message|content|total) (?:characters|chars|bytes)\b|\b(?:request|payload|body|prompt|inputs?|messages?)\b[^.\n]{0,40}(?:\bexceed\w*\b[^.\n]{0,60}\d ?(?:bytes|characters|chars)\b|\d ?(?:bytes|characters|chars)\b[^.\n]{0,40}\bexceed|(?:\btoo (?:long|large)|\bmust be|\bmust not be)\b[^.\n]{0,40}\d ?(?:bytes|characters|chars)\b)`),
		unless: words(`\d tokens\b`),
	},

	// Texts that have numbers or a fixed form.
	{
		name: "sum_exceeds",
		kind: TokensPlusOutput,
		match: words(`\b(?:inputs?|prompt)\b[^.\n]{0,60}(?:\band|\+|\bplus) ?\W?max_\w*tokens\b[^.\n]{0,30}\b(?:exceed|must be|cannot)|\bsum of (?:the )?(?:prompt|input)\b[^.\n]{0,60}\b(?:exceed|larger|greater)|` +
			`\b(?:prompt|input)[ _]tokens?\W{1,3}\d[\d,]*\)? ?\+ ?max_\w*tokens\W{1,3}\d[\d,]*\)? ?(?:>|exceed)|\bmax_\w*tokens\b[^.\n]{0,40}\b(?:prompt|input|messages)\b[^.\n]{0,40}\bexceed|\bof input and maximum output tokens\b`),
	},
	{
		name:  "max_tokens_too_large_for_rest",
		kind:  TokensPlusOutput,
		match: words(`\bmax_\w*tokens\b[^.\n]{0,30}\btoo large\b.*\binput tokens\b`),
	},
	{
		name:  "maximum_of_input",
		kind:  Tokens,
		match: words(`\bmax(?:imum)? (?:length|size|number of tokens) (?:of|for|in) (?:the |your )?(?:inputs?|prompt|messages)\b|\b(?:(?:number|count|total) of tokens|token (?:number|count|total)) (?:in|of|for) (?:the |your |this )?(?:request|` + promptNoun + `)\b[^.\n]{0,30}\b(?:exceed|over\b|above\b|larger|greater|more than)`),
	},
	{
		name:  "maximum_context",
		kind:  Tokens,
		match: words(`\b(?:max(?:imum)?|model'?s|available|supported|configured)[ _](?:allowed |model |supported |available )?(?:context|prompt|input|sequence)(?:[ _](?:tokens?|window|length|size|limit))*(?: allowed)?(?: is|:| of|=)`),
		also:  words(`\b(?:exceed\w*|too (?:long|large|big|many|short)|(?:longer|larger|greater|more) than|over|above|beyond|reduce|shorten|truncat\w*|resulted|requested|received|got|given|contains|invalid '?inputs?|error)\b|>|\d{3}\D+(?:\d+\D+)*?\d{3}|\d[,.\x{a0}]\d{3}\D+\d+[,.\x{a0}]\d{3}`),
	},
	{
		name:  "too_large_for_model",
		kind:  Tokens,
		match: words(`\btoo (?:large|long) for (?:the |this |requested )?(?:\S+ )?(?:model|context)\b`),
	},
	{
		name:  "current_length",
		kind:  Tokens,
		match: words(`\bcurrent (?:length|token count|context) is \d[\d,]* while\b`),
	},
	{
		name: "inputs_must",
		kind: Tokens,
		match: words(`\b(?:inputs?|prompt|messages)\W{1,2}(?:tokens? )?[^.\n]{0,40}\bmust (?:have|be|not exceed)(?: <=| (?:less|fewer|shorter|smaller) than| at most| under| below)? \d[\d,]* tokens\b|` +
			`\b(?:prompt|input)[_ ]tokens?\b[^.\n]{0,30}\bmust\b[^.\n]{0,30}(?:max_seq_len|max_model_len|\bcontext\b)|\btokens?\b[^.\n]{0,80}\b(?:cannot|can't|can not|must not|may not|should not) exceed\b`),
	},
	{
		name:  "input_range",
		kind:  Tokens,
		match: words(`\brange of (?:input|prompt|messages) (?:length|tokens?) should be\b`),
	},
	{
		name:  "kept_tokens",
		kind:  Tokens,
		match: words(`\bn_keep\b|\btokens to keep from the initial prompt\b|\btrying to keep the first \d+ tokens\b`),
	},
	{
		name:  "supports_only",
		kind:  Tokens,
		match: words(`\bsupports? (?:only|up to|at most|a maximum of) \d[\d,.]* ?[km]?(?: tokens?)?(?: of)?[ -](?:token )?context\b|\b(?:supports?|accepts?|allows?|takes?|handles?) (?:only )?(?:prompts?|inputs?|requests|messages|conversations)\b[^.\n]{0,20} \d[\d,.]* ?[km]? ?tokens\b|\btoken count\b[^.\n]{0,40}\bsupports? (?:only |up to |at most )`),
	},
	{
		name:  "per_request",
		kind:  Tokens,
		match: words(`\brequested \d[\d,]* tokens?\b,?(?: but| and| while)?(?: the| its)? (?:max(?:imum)?|limit)\b[^.\n\d]{0,12}\d|\btokens?\b,? but \d[\d,]* (?:tokens )?(?:were|was|are) (?:given|sent|provided|requested|received)\b`),
	},
	{
		// What is left of the window for the output is below nothing.
		name:  "nothing_left",
		kind:  Tokens,
		match: words(`\bmax_\w*tokens\b[^.\n]{0,40}\bgot -\d`),
	},
	{
		name: "tokens_over_maximum",
		kind: Tokens,
		match: words(`\d tokens? ?> ?\d[\d,]* ?(?:maximum|max|limit|tokens)|\b(?:input|prompt|total)_tokens?\W{1,3}\d[\d,]* ?>=? ?(?:max_|limit|\d)|\bmax tokens of \d[\d,]* exceeded\b|` +
			`\b(?:tokens|token count|(?:prompt|input) length)(?: of| is)?[ :=(]{1,2}\d[\d,]*\)? ?(?:>=?|exceed\w*)[^.\n]{0,40}\d{3}|\d tokens? (?:over|above|beyond) (?:the |its )?(?:\w+ ){0,2}(?:limit|maximum|context)\b`),
	},
	{
		// A number of tokens or what is called so, a comparison, and what with.
		name: "compared",
		kind: Tokens,
		match: words(`(?:\d tokens?|\b(?:token count|(?:input|prompt|context|request)[ _]tokens?|tokens? (?:in|of) (?:the |your )?(?:request|` + promptNoun + `)))\b(?: ?\(?\d[\d,]*\)?)?(?:,? (?:which |that )?(?:is|are|was|were))?,? (?:which )?(?:exceeds?|exceeded|(?:greater|larger|longer|higher|more) than|over|above)\b[^.\n]{0,40}(?:\d{3}|\b(?:max|maximum|limit)\b)|` +
			`\b` + promptNoun + `(?: (?:is|are|was))? (?:over|above|beyond|past) (?:the|its|our|your) (?:\w+ ){0,2}(?:limit|budget|maximum)\b`),
	},
	{
		// The size of the prompt, and behind it what it is compared with.
		name: "measured",
		kind: Tokens,
		match: words(`\b(?:request|` + promptNoun + `)\b[^.\n\d]{0,40}\d[\d,]* (?:input |prompt )?tokens?\b(?:[^.\n]|\.\d){0,60}\b(?:above|over|beyond|exceed\w*|(?:more|longer|larger|greater) than|fit|at most|but|only|limit|maximum|max)\b[^.\n]{0,40}\d{3}|` +
			`\bcontext\b[^.\n]{0,30}\bused \d[\d,]* (?:tokens )?of \d`),
	},
	{
		// The words alone may be those of a quota.
		name:  "code 1039",
		kind:  Tokens,
		match: words(`\btoken limit\W{1,3}1039\b|\b1039\W{1,3}token limit\b`),
	},

	// Phrases.
	{
		name:  "too_long",
		kind:  Tokens,
		match: words(`\b` + promptNoun + `(?: (?:tokens?|length|text|size|history|context|\(\d[\d,.]* tokens\)))* (?:is |are |was |were |has become |became |got )?(?:(?:far|much|way|now|still|probably|simply) )?too (?:long|large|big)\b|\b(?:context|request) (?:length )?(?:is |was )?too (?:long|large)\b|\btoo (?:long|large|big)(?: an?| of an?)? (?:context|prompt|input|conversation|history)\b|\bmessage you submitted was too long\b`),
	},
	{
		name:  "exceeds_window",
		kind:  Tokens,
		match: words(`\b(?:exceed\w*|overflow\w*|surpass\w*|beyond|over|out of|longer than|larger than|greater than|more than|bigger than|fit (?:in|into|within)|room in)\b[^.\n]{0,60}\b` + window + `\b`),
	},
	{
		name:  "window_exceeded",
		kind:  Tokens,
		match: words(`\b(?:context(?:[ _-]?(?:window|length|size|limit))*|token limit|(?:input|prompt|context) tokens?(?: limit)?)(?: of \d[\d,.]* ?[km]?(?: tokens?)?)? (?:has been |is |was |were |will be )?(?:exceed|overflow|full\b|(?:limit )?reached\b|exhausted\b)|\bkv[ -]?cache\b[^.\n]{0,40}\b(?:full|exhausted|too small|not enough)\b`),
	},
	{
		name:  "prompt_exceeds",
		kind:  Tokens,
		match: words(`\b` + promptNoun + `\b(?:[ (_]*(?:tokens?|length|size|count|sequence|text|is|of|has|have|contains|with|number|total|been|\d[\d,._]*)\b\)?){0,6}\)? exceed\w*[^.\n]{0,60}(?:limit|allowed|length|window|token|capacity|\bmax(?:imum)?\W*$|\b\d[\d,]{2})`),
	},
	{
		name:  "longer_than",
		kind:  Tokens,
		match: words(`\b(?:longer|larger|greater|more|bigger) than\b[^.\n]{0,60}\b(?:max_seq_len|max_model_len|maximum (?:model|sequence|input|prompt|context|allowed)|model'?s (?:limit|maximum))`),
	},
	{
		name:  "too_many_tokens",
		kind:  Tokens,
		match: words(`\btoo many (?:input|prompt|context) tokens\b|\btoo many tokens(?: in| for|:| overall)|\b(?:contains|has|have|with) too many tokens\b`),
	},
	{
		name:  "shorten",
		kind:  Tokens,
		match: words(`\b(?:reduce|shorten|decrease) (?:the |your )?(?:(?:length|size|number) of )?(?:the |your )?(?:(?:chat |conversation )?(?:messages|history)|prompt|inputs?|input length|prompt length|conversation|context)\b|\bprovide a shorter (?:input|prompt)\b|\busing (?:a )?shorter (?:prompt|inputs?)\b`),
	},
	{
		// The whole text, as a text with more in it may be about a quota.
		name:  "token_limit",
		kind:  Tokens,
		match: words(`^\W*token limit\W*$`),
	},
	{
		name: "chinese",
		kind: Tokens,
		match: words(`(?:上下文|输入|輸入|提示[词詞]?|对话|對話|会话|會話|prompt|消息|訊息|请求内容|請求內容|问题|問題|文本)[^。\n]{0,24}(?:超出|超过|超過|超长|超長|过长|過長|超限|太长|太長)|(?:超出|超过|超過)[^。\n]{0,24}(?:上下文|最大输入|最大輸入|输入长度|輸入長度|长度限制|長度限制|token ?(?:限制|上限))|` +
			`上下文[^。\n]{0,16}(?:已达|已達|达到|達到|已满|已滿|不足|用尽|溢出)|请(?:压缩|缩短|精简|减少)[^。\n]{0,8}(?:上下文|对话|输入|提示)|` +
			`tokens?[^。\n]{0,16}(?:超出|超过|超過|超限|过长|過長)`),
		unless: words(`每分钟|每分鐘|分钟|每秒`),
	},
	{
		name:   "japanese_korean",
		kind:   Tokens,
		match:  words(`(?:コンテキスト|プロンプト|入力)[^。\n]{0,30}(?:超え|超過|長すぎ|上限に達)|(?:컨텍스트|프롬프트|입력)[^.\n]{0,30}(?:초과|너무 깁|너무 길)`),
		unless: words(`分あたり|毎分|분당|出力|출력`),
	},
	{
		name: "french_german_spanish",
		kind: Tokens,
		match: words(`(?:prompt|invite|entrée|requête|conversation|message|tokens?|jetons)\b[^.\n]{0,60}(?:dépass|excèd)[^.\n]{0,60}(?:contexte|jetons|tokens?|longueur maximale)|(?:contexte|prompt|entrée|conversation)[^.\n]{0,30}\btrop (?:long|grand)|(?:fenêtre|longueur|limite) (?:de|du) contexte[^.\n]{0,30}dépass|` +
			`(?:eingabe|prompt|anfrage|nachricht|unterhaltung|gespräch|tokens?)[^.\n]{0,60}(?:überschreite|übersteig)[^.\n]{0,60}(?:kontext|tokens?|eingabelänge)|(?:eingabe|prompt|kontext|unterhaltung|gespräch)[^.\n]{0,30}\bzu (?:lang|groß)|(?:kontextfenster|kontextlänge|kontextgröße)[^.\n]{0,60}überschr|` +
			`(?:entrada|prompt|mensajes?|solicitud|conversación|texto|tokens?)\b[^.\n]{0,60}(?:supera|exced|sobrepasa)[^.\n]{0,60}(?:contexto|tokens?|longitud máxima)|(?:entrada|prompt|contexto|conversación)[^.\n]{0,30}demasiado larg|(?:ventana|longitud|límite) de contexto[^.\n]{0,30}(?:superad|excedid)`),
		unless: words(`par (?:minute|jour|seconde)|de sortie|débit|pro (?:minute|tag|sekunde)|kontingent|ausgabe|por (?:minuto|día|segundo)|cuota|de salida`),
	},
}
