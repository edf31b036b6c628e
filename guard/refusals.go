package guard

import "github.com/convolog/convolog/internal/lazy"

// A textRule decides by the words of an error.
type textRule struct {
	name   string
	kind   Kind
	match  *lazy.Regexp
	also   *lazy.Regexp // what must be in the text besides; nil: nothing
	unless *lazy.Regexp // nil: without exception
}

func (r *textRule) matches(text string) bool {
	return r.match.Get().MatchString(text) && (r.also == nil || r.also.Get().MatchString(text)) && (r.unless == nil || !r.unless.Get().MatchString(text))
}

// words returns a pattern that takes small and capital letters for the same.
func words(pattern string) *lazy.Regexp { return lazy.New("(?i)" + pattern) }

// refusedCodes are types and codes of errors that are no overflow, whatever
// their text says, with the name of the rule.
var refusedCodes = map[string]string{
	"rate_limit_error":            "rate_limit",
	"rate_limit_exceeded":         "rate_limit",
	"rate_limit_reached_error":    "rate_limit",
	"ratelimitreached":            "rate_limit",
	"ratelimiterror":              "rate_limit",
	"too_many_requests":           "rate_limit",
	"toomanyrequestsexception":    "rate_limit",
	"throttlingexception":         "rate_limit",
	"throttling":                  "rate_limit",
	"resource_exhausted":          "rate_limit",
	"overloaded_error":            "rate_limit",
	"engine_overloaded_error":     "rate_limit",
	"serviceunavailableexception": "rate_limit",

	"insufficient_quota":            "quota",
	"exceeded_current_quota_error":  "quota",
	"billing_error":                 "quota",
	"billing_hard_limit_reached":    "quota",
	"servicequotaexceededexception": "quota",
	"usage_limit_reached":           "quota",
	"quota_exceeded":                "quota",

	"authentication_error":         "auth",
	"invalid_authentication_error": "auth",
	"unauthenticated":              "auth",
	"permission_error":             "auth",
	"permission_denied":            "auth",
	"invalid_api_key":              "auth",
	"invalid_token":                "auth",
	"token_expired":                "auth",
	"accessdeniedexception":        "auth",
	"expiredtokenexception":        "auth",
	"unrecognizedclientexception":  "auth",

	"not_found_error":           "not_found",
	"model_not_found":           "not_found",
	"resourcenotfoundexception": "not_found",

	"timeout_error":         "timeout",
	"deadline_exceeded":     "timeout",
	"modeltimeoutexception": "timeout",

	"content_filter":           "policy",
	"content_policy_violation": "policy",
}

// Names of rules that [Media] tells apart.
const (
	longText   = "long_text"
	mediaCount = "media_count"
)

// counted is what a request has a number of, without its tokens.
const counted = `(?:turns|rounds|iterations|steps|tools|functions|calls|requests|messages|inputs|items|choices|candidates|blocks|sessions|connections|attempts|retries|batches|stop sequences)`

// refusals are tried before the matches, in this order. Most of them speak of
// tokens or of a context, which is why a list of words is not enough.
var refusals = []textRule{
	{
		name:  "canceled",
		match: words(`\bcontext cancell?(?:ed|ation)\b|\b(?:operation|request) (?:was )?(?:cancell?ed|aborted)\b`),
	},
	{
		name:  "timeout",
		match: words(`\bdeadline exceeded\b|\bclient\.timeout\b|\btimed[- ]out\b|\bi/o timeout\b|\bgateway time-?out\b|\btimeout (?:exceeded|while|awaiting|waiting)\b`),
	},
	{
		name: "quota",
		match: words(`\bquota\b|\benqueued\b|\b(?:billing|insufficient|account) (?:\w+ )?balance\b|\b(?:more|insufficient|enough|of|add|remaining) credits?\b|\bcan only afford\b|` +
			`\bupgrade to a paid\b|\b(?:daily|weekly|monthly|hourly|5-hour|usage|spend(?:ing)?) (?:\w+ ){0,2}limit|\b(?:tokens?|requests?) (?:per|a|this) (?:day|week|month)\b|\bpayment required\b|` +
			`余额|欠费|配额|额度|套餐|今日|每日`),
	},
	{
		name: "rate_limit",
		match: words(`\brate[- _]?limit|\bthrottl|\btoo many requests\b|\bper[- ](?:min(?:ute)?|second|hour|day)\b|/min\b|\b[tr]p[mds]\b|` +
			`\bresource[ _]?(?:has been |is )?exhausted\b|\boverloaded\b|\b(?:at|over|insufficient|no) capacity\b|\b(?:server|service|model|engine) is (?:currently |too )?(?:busy|unavailable)\b|` +
			`\b(?:temporarily|service) unavailable\b|\bplease (?:wait|slow down)\b|\b(?:re)?try (?:again )?(?:later|after|in (?:about )?\d)|\btoo many concurrent\b|` +
			`限流|频率|速率|并发|过于频繁|稍后`),
	},
	{
		// Limits of an account, after the rate limits that name a tier.
		name: "account",
		match: words(`\b(?:api|access|virtual)[- _]?keys?\b|\b(?:your|this|the) (?:\w+ )?(?:key|account|subscription|plan|tier|organi[sz]ation|workspace|wallet)\b|` +
			`\b(?:free|paid|pro|trial|pricing|usage|token) (?:tier|plan|account)\b|\b(?:user|customer|tenant|team|project) (?:\S+ )?(?:(?:has|have) )?(?:exceed|reached|hit|used|over)|` +
			`\b(?:today|tomorrow)\b|\btop[- ]up\b|\b(?:input|request|response|total)_tokens_limit\b|\bupgrade to (?:\w+ )?(?:pro|plus|max|premium|paid|team|enterprise)\b|` +
			`\b(?:user|customer|tenant|team|project|organi[sz]ation|workspace)(?:'s)? tokens?\b`),
		unless: words(`\bcontext\b|\b(?:prompt|input|conversation|request) (?:\w+ )?too (?:long|large)\b|\bfor (?:this|the|your|requested) model\b`),
	},
	{
		name: "auth",
		match: words(`\b(?:expired|invalid|missing|revoked|malformed|incorrect|bad) (?:(?:access|auth\w*|oauth|api|bearer|refresh|id|security|session|jwt|csrf|github|copilot) )?(?:token\b|credentials?\b|x?-?api[- ]?key\b)|` +
			`\b(?:token|credentials?|api[- ]?key)\b[^.\n\d]{0,40}\b(?:expired|revoked|invalid|not valid|missing|malformed|incorrect)\b|\binvalid authentication\b|\bnot authenticated\b|\bpermission denied\b|\baccess denied\b|` +
			`令牌|鉴权|认证失败`),
		unless: words(`\btoken (?:count|limit|length|size)\b|\btokens\b`),
	},
	{
		name: "entitlement",
		match: words(`\bextra usage\b|\blong context (?:\w+ )?(?:beta|requests?)\b|\b(?:not|isn't) (?:yet )?(?:available|enabled|included|supported) (?:for|in|on|with) (?:this|your) (?:subscription|account|plan|tier|organization)\b|` +
			`\b(?:requires?|upgrade (?:to|your)) (?:an? |the )?(?:\w+ )?(?:plan|subscription|tier)\b`),
	},
	{
		// The window of the model that is configured, before any request.
		name:   "window_too_small",
		match:  words(`\bcontext (?:window|length|size) (?:is |of \d+ (?:tokens )?is )?(?:too small|below)\b|\bminimum (?:required )?context\b`),
		unless: words(`\b(?:prompt|input|messages|conversation|history)\b`),
	},
	{
		// The options of a server or of a request, before any prompt.
		name: "configuration",
		match: words(`\b(?:num_ctx|n_ctx|(?:original_)?max_position_embeddings|max_model_len|max[ _]seq[ _]len)\b\W{0,3}(?:\d[\d,]*\)? )?(?:is (?:larger|greater|higher)|exceeds?\b)|\bmax(?:imum)?[ _](?:model|seq)[ _]len\w*\b[^\n]{0,80}\b(?:larger|greater|more) than\b[^\n]{0,80}\bkv[ -]?cache\b|` +
			`\bto be stored in (?:the )?kv[ -]?cache\b`),
		unless: words(`\b(?:prompt|input|messages|conversation|history)\b`),
	},
	{
		// A limit that is mentioned in an error about a model or a parameter.
		name:   "parameter",
		match:  words(`\bdeprecated\b|\b(?:unknown|unsupported|invalid|no such) (?:beta )?(?:model|header|parameter|argument|field|option)\b|\bmodel (?:\S+ )?(?:not found|does not exist|is not available)\b|exceeded\W{0,2} is not (?:an?|allowed|valid|supported|permitted)\b`),
		unless: words(`\b(?:prompt|inputs?|messages|conversation|request|you|your)\b[^.\n]{0,60}(?:\b(?:exceed\w*|over|longer|larger|greater|more than|too (?:long|large|many)|requested|resulted|contains|has)\b|>)|\brange of (?:input|prompt)|\b(?:too (?:long|large) for|exceed\w* (?:the |this )?model)\b|\bwindow exceed|\btoken limit\b`),
	},
	{
		// Prompts that are not of a conversation.
		name:   "other_prompt",
		match:  words(`\b(?:image|video|speech|audio|music|negative)(?: generation)? (?:prompt|input)s?\b|\bfor (?:the |an? |this )?(?:image|video|speech|audio|music) (?:generator|generation|model)\b|\btoo (?:long|large|short|small) to (?:cache\b|be (?:cached|an?)\b)|\btokens? in (?:the |a |your )?stop\b`),
		unless: words(`\binput tokens\b|\bcontext (?:length|window|size|limit)\b`),
	},
	{
		name: "tool_output",
		match: words(`\b(?:tool|file|page|command|search|function|mcp)\b[^.\n]{0,80}\(\d[\d,.]* tokens\) exceeds\b|\buse (?:pagination|offset and limit)\b|` +
			`\b(?:tool|command|function)(?: (?:call|execution))?(?: ['"` + "`" + `][^'"\n` + "`" + `]{1,64}['"` + "`" + `])? (?:failed|error)\b|\b(?:tool|command|function) (?:output|response|result)s?\b[^.\n]{0,60}\b(?:exceed|too (?:long|large))`),
	},
	{
		name: "output_cap",
		match: words(`\b(?:completion|output|response) tokens?\b[^.\n]{0,20}\b(?:maximum|limit)\b|\bsupports? at most \d[\d,]* (?:completion|output) tokens\b|` +
			`\bmaximum (?:allowed )?(?:number of )?(?:output|completion) tokens\b|\bmaximum tokens you requested\b|` +
			`\bmax(?:imum)?_?(?:completion|output|new|response)?_?tokens?\b(?:to_?sample\b)?[^.\n]{0,60}\b(?:too (?:large|high|big)|exceed\w*|must be|should be|cannot be|greater|larger|higher|range|at most|not supported|invalid|>)|` +
			`\bmaxoutputtokens\b|\bmax_?tokens?_?to_?sample\b|\b(?:valid )?range of max_\w*tokens\b|\binvalid max_\w*tokens\b|\bmax_\w*tokens?: \d+ > \d+|\bis not less or equal to\b|` +
			`\bmodel output limit was reached\b|\btoo many tokens for (?:the |a )?(?:completion|output|response)\b|\bmax(?:imum)?[ _]?(?:response|output|completion)[ _]?length\b|\b(?:response|output|completion|answer|reply|generation)(?: (?:text|length|size))? (?:has |would |is )?(?:exceed\w*|too long|longer than)\b|\b(?:(?:thinking|reasoning)[ _]budget|budget_tokens)\b[^.\n]{0,40}\b(?:exceed\w*|must|less|greater|larger|maximum|range|invalid)|\bexceed\w* the \d[\d,]* output tokens?\b|\boutput token (?:maximum|limit)\b|` +
			`max_\w*tokens?[^。\n]{0,8}(?:超出|超过|应|必须|范围)|(?:最大输出|输出长度|输出 ?tokens?|回复长度|生成长度|最大輸出|輸出長度)[^。\n]{0,16}(?:超|过长|過長|大于|大於)`),
		unless: words(`\binput tokens\b|\binput length\b|\binputs.? tokens\b|\bmaximum context length\b|\bcontext (?:limit|length|window)\b[^.\n]{0,8}\d|` +
			`\b(?:prompt|inputs?|messages)\b[^.\n]{0,40}(?:\band\b|\bor\b|\bplus\b|\+) ?\W?(?:the |your |requested |maximum )*(?:max_\w*tokens|output|completion|response|prediction)|(?:\band|\bplus|\+) (?:the |your )?(?:prompt|inputs?|messages)\b|` +
			`\bprompt (?:tokens?|length)\b|\blength of (?:the |your )?(?:prompt|inputs?|messages)\b|\bprompt \(\d|\bgot -\d|\bof input and maximum output\b|\bin the messages\b|\bprompt and prediction\b|输入|輸入|上下文`),
	},
	{
		// How many there are, of what is not tokens.
		name: "count",
		match: words(`\b(?:maximum|max|limit)(?: number)? of (?:\w+ ){0,2}` + counted + `\b|\bnumber of (?:\w+ )?` + counted + ` (?:has |have )?(?:exceed|is too|must|cannot)|\b(?:too many|(?:exceed\w*|more than|at most|up to|maximum of|max) (?:the )?(?:maximum (?:of )?|limit (?:of )?)?\d[\d,]*) (?:\w+ )?` + counted + `\b|` +
			`\b(?:exceed\w*|over|larger than|greater than)\b[^.\n]{0,30}\bbatch size\b|\bphysical batch size\b|` +
			`(?:轮数|轮次|条数|次数|个数|数量|輪數|次數|數量)[^。\n]{0,12}(?:超|达|達|过多|過多)`),
		unless: words(`\btokens?\b|\bcontext\b|上下文|图|圖|文件|附件`),
	},
	{
		// The limits of other protocols and of what tools read.
		name: "other_text",
		match: words(`\b(?:tool|function|command|search) (?:inputs?|arguments?|query)\b|\bfile\W{1,2}content\b|\b(?:tls|ssl|x509|http2|grpc|websocket|smtp|kafka|nats|amqp|redis|sql|bufio|scanner|handshake)\b|` +
			`\b(?:line|query|url|uri|path|file ?name|header|cookie|argument list|frame|packet|identifier|subject|commit message)s?(?: (?:fields?|length|size))? (?:is |was |of length \d+ )?(?:too (?:long|large|big)|exceed)`),
		unless: words(`\bprompt\b|\btokens\b|\bcontext (?:length|window|size|limit)\b`),
	},
	{
		// A text of the history that is too long by itself: a tool result, a
		// pasted file.
		name:  longText,
		kind:  Item,
		match: words(`'(?:[\w.\[\]]*\.)?(?:content(?:\[\d+\](?:\.text)?)?|text|output|arguments|input|instructions|prompt)': string too long\b`),
	},
	{
		name:   mediaCount,
		kind:   Item,
		match:  words(`\b(?:too many|maximum (?:of|number of)|more than|at most|up to|exceed\w*)\b(?: (?:the )?(?:limit of |maximum of )?\d[\d,]*)? (?:images?(?:\(s\))?|pdfs?|documents|attachments|media)\b|\b\d[\d,]* (?:images|pdfs|documents|attachments)\b[^.\n]{0,30}\b(?:maximum|max|limit)\b`),
		unless: words(`\btokens?\b|\bcontext\b|\bpayload\b|\brequest size\b|\bentity\b`),
	},
	{
		name: "media",
		kind: Item,
		match: words(`\b(?:images?|photos?|pictures?|pdfs?|documents?|audio|video|media|attachments?|file size)\b[^.\n]{0,80}\b(?:exceed\w*|too (?:large|big|long|many)|larger than|greater than|over the)\b|` +
			`\b(?:too many|maximum (?:of|number of)|more than|at most|up to|exceed\w*)\b(?: (?:the )?(?:limit of |maximum of )?\d[\d,]*)? (?:images?|pdfs?|pages|documents|pdf pages|attachments|media)\b|` +
			`(?:图片|图像|圖片|文件|附件|音频|视频)[^。\n]{0,20}(?:超过|超出|超限|过大|过多|太大|超過|過大)`),
		unless: words(`\btokens?\b|\bcontext\b|\bpayload\b|\brequest size\b|\bentity\b`),
	},
	{
		name:   "item_limit",
		match:  words(`\b(?:string|array|list|object|name|id|description) (?:is )?too (?:long|short|large)\b|\bexpected an? (?:string|array) with (?:maximum|minimum) length\b|\bwith a length of \d+\b|\btoo many (?:tools|functions|messages|items|stop sequences)\b`),
		unless: words(`\btoo many messages\b.*\bcontext\b`),
	},
}
