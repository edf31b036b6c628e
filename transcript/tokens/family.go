package tokens

import (
	"strconv"
	"strings"
)

// A Family is the models that count alike.
type Family uint8

// The families. Texts are weighed by the tokens of a family's vocabulary. The
// vocabularies of Claude are not public: its two families are o200k with factors. The
// factors from 4.7 on were fitted to measurements of third parties, the ratios between
// the counts of 4.7 and 4.6 for fourteen kinds of text, on top of the last public
// vocabulary. The estimate differs from them by 7 % on average: by 5 % at most for English
// and for code in C, Go and TypeScript, 6 to 10 % too high for Python and JSON and 7 to 11
// % too low for logs of git and transcripts, 18 % too low for German, 23 % too high for
// hexadecimal digits. Grok, Kimi and GLM are estimated as the families that third
// parties found close for English; their vocabularies were not at hand.
//
// The estimate for an unknown model aims between the mean of the public
// vocabularies in use and the largest. For an agent's conversation it is 7 to 13 %
// above the counts of o200k, cl100k, llama and deepseek, and 5 % below the count of
// gemini. For a single short text it is too low more often: by more than 5 % for 20
// % of the pairs of a text and a vocabulary. That is on purpose. A low estimate
// costs at most one request that the provider refuses without a bill; a guard
// learns from the figures in the refusal. A high one wastes part of the window in
// every request until usage is reported, and clips and compacts histories too
// early: to aim at the largest was 28 % too high for o200k.
const (
	Default  Family = iota // the text as O200k, images as the largest of the families
	O200k                  // GPT-4o and later, o1 and later, Codex, and Grok
	Cl100k                 // GPT-4, GPT-3.5
	Claude                 // to 4.6: o200k and 12 %
	ClaudeX                // from 4.7 on: o200k and 65 % for Latin words, 5 % for other scripts, 7 % for the rest
	Gemini                 // and Gemma
	DeepSeek               // V3 and later, Kimi and GLM
	Llama                  // 3
	Cautious               // for an unknown model, see above

	// Only [For] returns these.
	qwen
	mistral
	llamaFour
)

type rule struct {
	weights         *weights
	percent         weight // of each part of a weight
	toolsBeforehand int    // tokens of the text a provider puts before the tools
	imageOf         func(width, height int) int
}

var asFitted = weight{latin: 100, scripted: 100, plain: 100}

var rules = [...]rule{
	Default:  {&o200k, asFitted, 0, imageLargest},
	O200k:    {&o200k, asFitted, 0, imageTiles},
	Cl100k:   {&cl100k, asFitted, 0, imageTiles},
	Claude:   {&o200k, weight{latin: 112, scripted: 112, plain: 112}, claudeTools, imageClaude},
	ClaudeX:  {&o200k, weight{latin: 165, scripted: 105, plain: 107}, claudeTools, imageClaudeX},
	Gemini:   {&gemini, asFitted, 0, imageGemini},
	DeepSeek: {&deepseek, asFitted, 0, imageLargest},
	Llama:    {&llama, asFitted, 0, imageLargest},
	Cautious: {&cautious, asFitted, claudeTools, imageLargest},

	qwen:      {&qwen3, asFitted, 0, imageLargest},
	mistral:   {&tekken, asFitted, 0, imageLargest},
	llamaFour: {&llama4, asFitted, 0, imageLargest},
}

func (f Family) rule() *rule {
	if int(f) >= len(rules) {
		f = Cautious
	}
	return &rules[f]
}

func familyOf(model string) Family {
	model = strings.ToLower(model)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(model, p) {
				return true
			}
		}
		return false
	}
	switch {
	case model == "":
		return Default
	case has("claude"):
		return claudeFamily(model)
	case has("gpt-4o", "gpt-4.", "gpt-5", "gpt-6", "gpt-oss", "chatgpt", "codex-", "grok"):
		return O200k
	case has("gpt-4", "gpt-3"):
		return Cl100k
	case has("gemini", "gemma"):
		return Gemini
	case has("deepseek", "kimi", "moonshot", "glm"):
		return DeepSeek
	case has("llama-3", "llama3"):
		return Llama
	case has("llama-4", "llama4"):
		return llamaFour
	case has("qwen", "qwq"):
		return qwen
	case has("mistral", "mixtral", "ministral", "magistral", "codestral", "devstral", "pixtral"):
		return mistral
	}
	name := model[strings.LastIndexByte(model, '/')+1:]
	if len(name) > 1 && name[0] == 'o' && name[1] >= '1' && name[1] <= '9' {
		return O200k
	}
	return Cautious
}

// claudeFamily goes by the version, which is the first one or two numbers of
// the name: claude-3-5-sonnet, claude-opus-4-20250514. Without numbers it takes
// the model for a late one.
func claudeFamily(model string) Family {
	var version []int
	_, model, _ = strings.Cut(model, "claude")
	for part := range strings.FieldsFuncSeq(model, func(r rune) bool { return r < '0' || r > '9' }) {
		if n, err := strconv.Atoi(part); err == nil && n < 100 && len(version) < 2 {
			version = append(version, n)
			continue
		}
		break
	}
	version = append(version, 0, 0)
	if v := version[0]; v > 0 && (v < 4 || v == 4 && version[1] < 7) {
		return Claude
	}
	return ClaudeX
}
