package guard

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/convolog/convolog/internal/lazy"
)

// figures are the sizes that an error names. Zero is one that it does not
// name.
type figures struct {
	prompt, limit, output int

	// total is prompt and output together.
	total int

	// atLeast says that prompt is a lower bound.
	atLeast bool
}

// number matches "200000", "200,000", "200 000" and "200K".
const number = `(?:\d{1,3}(?:[,._' \x{a0}\x{202f}]\d{3})+|\d+(?:\.\d+)? ?[km]|\d+)\b`

// A grammar is how the sizes of one sort are written.
type grammar struct {
	// In the source of a pattern, <p>, <l>, <o> and <t> stand for the number of
	// the prompt, the limit, the output and the total. The patterns are tried
	// in their order; the first that finds a size settles it. The words between
	// a size and its number are a verb, a preposition or nothing.
	patterns func() []*lazy.Regexp

	// foreign matches numbers of another sort, or is nil.
	foreign *lazy.Regexp
}

// figurePatterns returns the patterns with those sources, which are made when
// they are first asked for.
func figurePatterns(sources ...string) func() []*lazy.Regexp {
	return sync.OnceValue(func() []*lazy.Regexp {
		patterns := make([]*lazy.Regexp, len(sources))
		for i, s := range sources {
			for _, slot := range []string{"p", "l", "o", "t"} {
				s = strings.ReplaceAll(s, "<"+slot+">", "(?P<"+slot+">"+number+")")
			}
			patterns[i] = words(s)
		}
		return patterns
	})
}

// tokenSizes come from texts of which a rule knows that they are about tokens.
// The patterns that name several sizes come first, then those whose words leave
// the least doubt.
var tokenSizes = grammar{
	foreign: words(number + `[ -]?(?:bytes?|[kmg]i?b|characters?|chars|words|images?|pages|pdfs?|documents?|files?|messages|turns|tools|requests|items|inputs|times|pixels|m?s|milliseconds|seconds?|minutes?|hours?|days?)\b|` + number + ` ?%`),
	patterns: figurePatterns(
		// 24235 > 64001 - 1000: what the output may be.
		`\(<o> > <l> - <p>\)`,
		`<p> ?\+ ?<o> ?> ?<l>`,
		`n_keep:? ?<p> ?>=? ?n_ctx:? ?<l>`,
		`model token limit: <l> \(requested: <p>\)`,
		`given: <p> .?inputs.? tokens and <o> .?max_new_tokens`,
		`parameter=input_tokens, value=<p>`,
		`passed <p> input tokens and requested <o> output tokens`,
		`\b(?:prompt|input)[ _]tokens?\W{1,3}<p>\)? ?\+ ?max_\w*tokens\W{1,3}<o>\)? ?(?:>=?|exceeds?)[ \w]{1,40}?\W{1,3}<l>`,
		`\bcontext (?:length|size) of <p> tokens? (?:is )?(?:over|above|beyond|exceed\w*|(?:larger|longer|greater|more) than)[^.\d]{0,40}<l>`,
		`input and maximum output tokens \(<t>\)`,
		`\bprompt and prediction\) cannot exceed <l> - received <t>`,
		`\(<p> tokens?\) exceed\w*[^.\d]{0,40}\(<l> tokens?\)`,
		`\bus(?:ed|es|ing) <p>(?: tokens?)? (?:out )?of (?:the |a )?<l>`,
		`\(<p> ?/ ?<l>(?: tokens?)?\)|<p> ?/ ?<l> tokens?\b`,
		`<p>(?: (?:input |prompt )?tokens?)? ?>=? ?(?:(?:the )?(?:max\w*|limit|n_ctx)(?: of)?[ :=(]{1,2})?<l>`,

		// The prompt.
		`\bat least <p> (?:input |prompt )?tokens`,
		`\b<p> (?:input|prompt) tokens`,
		`\b(?:token count|number of (?:input |prompt )?tokens)(?: of| is|:|=)? ?\(?<p>`,
		`\bresulted in (?:over |about |at least )?<p>`,
		`\b(?:request|prompt|input|conversation|message|messages) (?:contains|has|have|is|was|are|of|with|uses)(?: about| approximately| at least)? ?<p> tokens`,
		`\b(?:prompt|input|request|inputs|requested tokens|sequence|decoder prompt)(?: tokens?| length| size)?(?: of| is|:|=)? ?\((?:length |len |about )?<p>`,
		`\b(?:prompt|input|request|inputs|requested|sequence|current|total)[ _](?:tokens?|length|size)(?: of| is|:|=)? ?<p>`,
		`\b(?:prompt|input|conversation) (?:has|contains|is) (?:about )?<p>`,
		`\btoo (?:long|large)[:,(] ?<p>`,
		`\btoo many (?:\w+ )?tokens:? ?\(?<p>`,
		`\bgiven: <p>`,
		`\bfirst <p> tokens`,
		`\btokens? \(<p>\) (?:has |have )?exceed`,
		`\b<p> tokens? (?:exceeds?|is longer|is greater|is more)`,
		`\b(?:you (?:sent|provided|passed|used|have)|got:?) (?:about )?<p>`,

		// The output.
		`\brequested <o> (?:output|completion) tokens`,
		`\bmax(?:imum)?_(?:new_|completion_|output_)?tokens\W*(?:is too large)?[^\w\d.]{0,6}<o>`,
		`is too large: <o>`,

		// The sum of both.
		`\btotal of (?:at least |about )?<t> tokens`,
		`\brequested (?:about |a total of |at least )?<t> tokens`,
		`\breceived <t>`,

		// The limit.
		`\bcontext (?:length|window|size|limit)(?: limit)?\)?(?: is| of|:|=)?(?: only| at most| up to)? ?\(?<l>`,
		`\b(?:maximum|max)(?: allowed| model| available)? (?:context|prompt|input|sequence|model|token|total)s?(?: window| length| size| limit| tokens?| token count)?\)?(?: is| of|:|=)?(?: only)? ?\(?<l>`,
		`\bcontext(?: is| of|:)(?: only| at most)? ?<l>`,
		`\btokens allowed:? ?\(?<l>`,
		`\btoken limit(?: is| of|:| :)? ?\(?<l>`,
		`\b(?:limit|maximum|window) (?:for|of) (?:this|the) model is <l>`,
		`\brange of input length should be \[\d+, ?<l>`,
		`\bmust have (?:less|fewer) than <l>`,
		`\bmust (?:be|not exceed)(?: <=| less than| fewer than| shorter than| smaller than| below| under| at most)? ?<l>`,
		`\bcannot exceed <l>`,
		`\b(?:supports?|accepts?|allows?|takes?|handles?)(?: \w+){0,3}? (?:only|up to|at most|a maximum of) <l>`,
		`\b(?:max_(?:model_len|seq_len|num_tokens|(?:prompt|input|context|total)_(?:tokens|length|len))|n_ctx|num_ctx)\W{0,3}<l>`,
		`\b(?:maximum|max)(?: number of tokens| size| length| tokens)(?: allowed)?(?: is| of|:|,)? ?\(?<l>`,
		`\b(?:maximum|max|limit)(?: is| of|:|,| to|=)?(?: only)? ?<l>`,
		`\b(?:maximum|max|limit) \(<l> tokens`,
		`(?:最大|上限|限制|最多|不能超过|不得超过)[^\d。，,\n]{0,16}<l>`,
		`(?:\b(?:the|an?|of|with|than|is|only|above|over|beyond|exceeds?)|[>(]) ?<l>[ -](?:tokens? )?(?:maximum|context|limit|max\b|token (?:limit|window|context))`,
		`\b<l>[ -]tokens? (?:maximum|context|limit|max\b|window)`,
		`\b(?:above|over|beyond|(?:more|longer|larger|greater) than) (?:the )?<l> tokens`,
		`\bexceeds? (?:the )?<l>`,
	),
}

// byteSizes are those of a body or of one item, in bytes or characters.
var byteSizes = grammar{patterns: figurePatterns(
	`<p> bytes? ?>=? ?<l>`,
	`<p> bytes? exceeds?[^.\d]{0,30}<l>`,
	`size <p>(?: bytes)? exceeds (?:the )?(?:maximum |max )?(?:limit |size )?(?:of |is )?<l>`,
	`length \(<p>\) exceeds the maximum allowed \(<l>`,
	`maxLength: <l>, actual: <p>`,
	`maximum length <l>, but got an? \w+ with length <p>`,
	`too many [\w ]*bytes: <p> > <l>`,
	`size \(<p>[^)]*\) exceeds[^\d.]{0,40}<l>`,
	`\b(?:limit|maximum|max)(?: allowed)?(?: size| length)?(?: is| of|:)? ?\(?<l> ?(?:bytes|characters|chars)`,
	`\b(?:must (?:be|not exceed)|cannot exceed)(?: (?:less|fewer|shorter|smaller) than| at most| under| below| <=)? <l> ?(?:bytes|characters|chars)\b`,
	`\b<l>[ -](?:bytes?|characters?|chars?) (?:limit|maximum)`,
	`\bmax(?:imum)?(?: number of)? \w+ (?:characters|chars|bytes)(?: is| of|:)? <l>`,
)}

// allowances are what one request asks of an allowance per minute.
var allowances = grammar{patterns: figurePatterns(
	`\blimit:? <l>,(?: used:? `+number+`,)? requested:? <p>`,
	`\brequested:? <p>,? (?:tokens,? )?(?:limit|max(?:imum)?):? <l>`,
)}

// excess is by how much a prompt is too long, which is no size by itself.
var excess = words(`\bexceed\w*[^.\n]{0,60}\bby (?:about |over |at least )?(` + number + `) tokens?\b`)

// names matches what has numbers that are never a size: a model ("gpt-4",
// "gemini 2.5"), a status, an attempt, and an excess.
var names = words(`\b[a-z_]\w*(?:[-./]\w+)+|\b[a-z_]+\d\w*|` +
	`\brequest[ _-]?id[ :=]{1,2}\w+|^\W*[45]\d\d(?::| [a-z])|\b(?:status|code|http|error)(?: code)?[ :=#(]{1,3}[1-5]\d\d\b|` +
	`\b(?:see )?error(?: code| no\.?)? #?\d{3,5}\b|\b(?:attempt|retry|try|turn|round|step|line|stream id)(?: no\.?| number)?[ :=#]{1,2}\d+(?: ?/ ?\d+| of \d+)?\b|` +
	`\bby (?:about |over |at least )?` + number + `|` + number + ` tokens? (?:over|above|beyond) (?:the |its )?(?:\w+ ){0,2}(?:limit|maximum|context)\b|\b\d+(?:\.\d{1,2})+(?:[^\dkm ]|$| [^km])`)

var digit = lazy.New(`\d`)

// hide takes the numbers out of what re matches, and leaves the words.
func hide(text string, re *lazy.Regexp) string {
	if re == nil {
		return text
	}
	return re.Get().ReplaceAllStringFunc(text, func(s string) string { return digit.Get().ReplaceAllString(s, "#") })
}

// singleRequest says without numbers that one request is more than the
// allowance.
var singleRequest = words(`\brequest (?:is )?too large\b[^\n]*\b(?:per[- ]min|tpm\b)`)

// The parts of a request, as in "6683 in the messages, 730 in the functions,
// and 800 in the completion".
var partPattern = lazy.New(`(?i)\b(` + number + `) (?:tokens )?(?:in|of|from|for) (?:the |your )?(?:(messages?|input messages|prompt|functions?|tools?|(?:text |tool |image |audio )?input)|completion|output|response|answer)\b`)

var lowerBound = lazy.New(`(?i)\b(?:at least|resulted in over|more than) ` + number + ` (?:input |prompt )?tokens`)

// ofBoth says that the total is of the prompt and of the output, so that the
// prompt alone is not known.
var ofBoth = words(`\bof input and maximum output tokens\b`)

// find reads the sizes that one text names.
func (g *grammar) find(text string) figures {
	over := 0
	if m := excess.Get().FindStringSubmatch(text); m != nil {
		over = parseNumber(m[1])
	}
	text = hide(hide(text, names), g.foreign)

	var f figures
	seen := map[string]bool{}
	for _, m := range partPattern.Get().FindAllStringSubmatch(text, 16) {
		noun := strings.ToLower(m[2])
		if seen[noun] {
			continue
		}
		seen[noun] = true
		if noun == "" {
			f.output = parseNumber(m[1])
		} else {
			f.prompt = addSizes(f.prompt, parseNumber(m[1]))
		}
	}
	parts := seen[""] && len(seen) > 1
	if !parts {
		f = figures{}
	}
	for _, re := range g.patterns() {
		if f.limit > 0 && f.prompt > 0 && (f.output > 0 || parts) {
			break
		}
		f.read(re.Get(), text)
	}
	if f.prompt == 0 && f.limit > 0 && over > 0 {
		f.prompt = addSizes(f.limit, over)
	}
	if f.prompt == f.total && ofBoth.Get().MatchString(text) {
		f.prompt = 0
	} else if f.prompt == 0 && f.total > 0 {
		f.prompt = f.total
		if f.output > 0 && f.output < f.total {
			f.prompt = f.total - f.output
		}
	}
	f.atLeast = f.prompt > 0 && lowerBound.Get().MatchString(text)
	return f
}

// anyNumber finds the numbers that [figures.compare] looks at.
var anyNumber = words(`(?:^|[^\w.-])(` + number + `)`)

// compare takes the sizes from what a prompt that is too long says by itself:
// of two numbers the greater one is the prompt and the smaller one the limit.
// It is for texts of which the patterns know one number or none, and does
// nothing where there are several that it might be.
func (f *figures) compare(text string) {
	if f.prompt == f.limit {
		f.prompt = 0 // one number that two patterns have read
	}
	if f.prompt > 0 && f.limit > 0 || f.output > 0 || f.total > 0 {
		return
	}
	const apart = 50 // more is no prompt that anyone sent
	text = hide(hide(text, names), tokenSizes.foreign)
	var found []int
	for _, m := range anyNumber.Get().FindAllStringSubmatch(text, 16) {
		n := parseNumber(m[1])
		if n < minLimit || n == f.prompt || n == f.limit || slices.Contains(found, n) {
			continue
		}
		if f.limit > 0 && (n < f.limit || n/apart > f.limit) || f.prompt > 0 && (n > f.prompt || f.prompt/apart > n) {
			continue
		}
		found = append(found, n)
	}
	slices.Sort(found)
	switch {
	case len(found) == 1 && f.limit > 0:
		f.prompt = found[0]
	case len(found) == 1 && f.prompt > 0:
		f.limit = found[0]
	case len(found) == 2 && f.limit == 0 && f.prompt == 0 && found[1]/apart <= found[0]:
		f.limit, f.prompt = found[0], found[1]
	}
}

// read adds what re finds in text and f does not have yet.
func (f *figures) read(re *regexp.Regexp, text string) {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return
	}
	for i, name := range re.SubexpNames() {
		switch n := parseNumber(m[i]); name {
		case "p":
			settle(&f.prompt, n)
		case "l":
			f.settleLimit(n)
		case "o":
			settle(&f.output, n)
		case "t":
			settle(&f.total, n)
		}
	}
}

// minLimit is the smallest limit that is believed. No model has such a window,
// so a smaller number is a misread one.
const minLimit = 256

func (f *figures) settleLimit(found int) {
	if found >= minLimit {
		settle(&f.limit, found)
	}
}

func settle(size *int, found int) {
	if *size == 0 {
		*size = found
	}
}

// merge takes from g what f does not say.
func (f *figures) merge(g figures) {
	if f.prompt == 0 {
		f.atLeast = g.atLeast
	}
	settle(&f.prompt, g.prompt)
	settle(&f.limit, g.limit)
	settle(&f.output, g.output)
	settle(&f.total, g.total)
}

// maxSize bounds a size, so that sums fit an int everywhere. No window and no
// body comes near it.
const maxSize = math.MaxInt32 / 2

func addSizes(a, b int) int { return min(a+b, maxSize) }

// parseNumber reads what number matches. A number too large to be a size is 0.
func parseNumber(s string) int {
	s = strings.TrimSpace(s)
	scale := 1.0
	switch {
	case strings.HasSuffix(s, "k"), strings.HasSuffix(s, "K"):
		scale = 1e3
	case strings.HasSuffix(s, "m"), strings.HasSuffix(s, "M"):
		scale = 1e6
	}
	if scale > 1 {
		x, err := strconv.ParseFloat(strings.TrimSpace(s[:len(s)-1]), 64)
		if err != nil || x*scale > maxSize {
			return 0
		}
		return int(math.Round(x * scale))
	}
	digits := strings.Map(func(r rune) rune {
		if r < '0' || r > '9' {
			return -1
		}
		return r
	}, s)
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > maxSize {
		return 0
	}
	return int(n)
}
