// Package secret masks what must not be handed on: passwords in URLs, keys
// whose shape is known, and values that are named password, token or secret. A
// hash or a UUID alone is none.
package secret

import (
	"strings"

	"github.com/convolog/convolog/internal/lazy"
)

// Mask is what stands for a secret.
const Mask = "[masked]"

// In returns a text with its secrets masked, and the text itself if there are
// none. What is masked stays so: In(In(s)) is In(s).
func In(s string) string {
	if strings.Contains(s, "://") {
		s = inURL.Get().ReplaceAllString(s, "${1}"+Mask+"@")
	}
	if strings.Contains(s, "-----BEGIN") {
		s = block.Get().ReplaceAllString(s, Mask)
	}
	if hasAny(s, keyMarks) {
		s = key.Get().ReplaceAllString(s, Mask)
	}
	if hasAny(strings.ToLower(s), names) {
		s = named.Get().ReplaceAllStringFunc(s, maskValue)
	}
	return s
}

// A text without any of these has nothing that key and named match: most texts
// cost no more than this.
var (
	keyMarks = []string{"sk-", "k_live_", "k_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "AKIA", "ASIA", "AIza", "ya29.", "hf_", "npm_", "pypi-", "SG.", "eyJ"}
	names    = []string{"passw", "passphrase", "pwd", "secret", "token", "key", "credential", "bearer", "basic"}
)

func hasAny(s string, words []string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

var (
	inURL = lazy.New(`([A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:)[^\s/@"'<>]+@`)

	block = lazy.New(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`)

	key = lazy.New(`\b(` + strings.Join([]string{
		`sk-[A-Za-z0-9_-]{16,}`,                                      // Anthropic, OpenAI and others
		`(sk|rk|pk)_(live|test)_[A-Za-z0-9]{16,}`,                    // Stripe
		`gh[pousr]_[A-Za-z0-9]{20,}`,                                 // GitHub
		`github_pat_[A-Za-z0-9_]{20,}`,                               //
		`glpat-[A-Za-z0-9_-]{16,}`,                                   // GitLab
		`xox[abposr]-[A-Za-z0-9-]{10,}`,                              // Slack
		`(AKIA|ASIA)[A-Z0-9]{16}\b`,                                  // AWS
		`AIza[A-Za-z0-9_-]{30,}`,                                     // Google
		`ya29\.[A-Za-z0-9_-]{20,}`,                                   //
		`hf_[A-Za-z0-9]{20,}`,                                        // Hugging Face
		`npm_[A-Za-z0-9]{20,}`,                                       //
		`pypi-[A-Za-z0-9_-]{20,}`,                                    //
		`SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`,                 // SendGrid
		`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`, // JSON Web Tokens
	}, "|") + `)`)

	// named is a name, what is between it and its value, and the value: in
	// quotes, or up to the next space.
	named = lazy.New(`(?i)((?:passwords?|passwd|passphrase|pwd|secrets?|token|api[_-]?key|access[_-]?key|private[_-]?key|credentials?)` +
		`(?:[_-](?:key|id|value|hash))?["']?` + `(?:\s*(?:=>|:=|[=:])\s*|\s+is\s+)|\bbearer\s+|\bbasic\s+)` +
		"(\"[^\"\n]*\"|'[^'\n]*'|[^\\s,;\"'`)}\\]]+)")
)

// maskValue masks the value of a match of named. A word that follows is, Bearer
// or Basic in a sentence is none: a secret has a digit, or is in quotes.
func maskValue(match string) string {
	parts := named.Get().FindStringSubmatch(match)
	name, value := parts[1], parts[2]
	inside := strings.Trim(value, `"'`)
	quote := value[:(len(value)-len(inside))/2]
	switch last := name[len(strings.TrimRight(name, " \t\n"))-1]; {
	case strings.HasPrefix(value, Mask), value == Mask[:len(Mask)-1], inside == "", len(inside) < 3:
		return match
	case last != '=' && last != ':' && last != '>' && quote == "" && !strings.ContainsAny(inside, "0123456789"):
		return match
	case quote == "" && strings.Trim(inside, "0123456789.,%") == "" && len(inside) < 6: // a count
		return match
	case placeholder.Get().MatchString(inside):
		return match
	}
	return name + quote + Mask + quote
}

// placeholder is a value that says that there is none, or where it is.
var placeholder = lazy.New(`(?i)^(null|nil|none|true|false|undefined|string|\*+|x+|<.*|\$.*|os\..*|process\..*|env\..*|your.*|\[masked.*)$`)
