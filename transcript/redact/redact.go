// Package redact masks secrets: passwords in URLs and assignments, private keys,
// and keys and tokens whose shape their providers publish.
//
// [Secrets] is a ready hook for the Redact filter of package session:
//
//	store, err := session.Open(dir, &session.Options{Filters: []session.Filter{session.Redact(redact.Secrets)}})
//
// [Entries] passes the texts of entries to a hook.
//
// It knows shapes and names. It misses a password that looks like a word in a
// sentence, and a hash used as a key; docs/BENCHMARKS.md has measurements. A hook
// that calls Secrets and then looks for secrets of the application, account numbers
// for example, is an ordinary function of the same type.
package redact

import (
	"context"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
)

// Decisions:
//
// Entries walks the JSON of a line, not the fields of a body, so no member slips
// through: originals of imports, "ext", members of later versions. Names are excluded.
// A masked answer is stored without its reasoning, so no rule on signatures is needed.

// mask replaces a secret.
const mask = "[masked]"

// Secrets replaces each secret in a text by "[masked]", and returns the text
// itself without any. A name before a secret, and the quotes around it, stay.
// Masking twice is the same as masking once. The context is not used. Secrets is
// safe for several goroutines.
func Secrets(_ context.Context, text string) string {
	if strings.Contains(text, "://") {
		text = inURL.Get().ReplaceAllString(text, "${1}"+mask+"@")
	}
	if strings.Contains(text, "-----BEGIN") {
		text = block.Get().ReplaceAllString(text, mask)
	}
	if hasAny(text, keyMarks) {
		text = key.Get().ReplaceAllStringFunc(text, maskKey)
	}
	if hasAny(strings.ToLower(text), nameMarks) {
		text = maskNamed(text)
	}
	return text
}

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

	// block is a private key. One without an end reaches to the end of the text, so
	// that a text which is cut inside of one shows nothing of it.
	block = lazy.New(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`)

	// key matches keys and tokens with a recognizable shape.
	key = lazy.New(`\b(?:` + strings.Join([]string{
		`sk-[A-Za-z0-9_-]{16,}`, // Anthropic, OpenAI and others
		`(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,}`,                                         // Stripe
		`gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,}`,                                                    // GitHub
		`gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|soat|oas)-[A-Za-z0-9_-]{16,}`,                                           // GitLab
		`xox[abceoprs]-[A-Za-z0-9-]{10,}|xapp-[0-9]-[A-Za-z0-9-]{10,}`,                                               // Slack
		`hooks\.slack\.com/services/T[A-Z0-9]+/B[A-Z0-9]+/[A-Za-z0-9]{20,}`,                                          //
		`(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b`,                                                                      // AWS
		`AIza[A-Za-z0-9_-]{35}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{28}|1//0[A-Za-z0-9_-]{30,}`,             // Google
		`hf_[A-Za-z0-9]{30,}|r8_[A-Za-z0-9]{36,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{40,}|pplx-[A-Za-z0-9]{40,}`,    // Hugging Face and others with models
		`npm_[A-Za-z0-9]{36}\b|pypi-[A-Za-z0-9_-]{50,}|rubygems_[0-9a-f]{48}|dckr_pat_[A-Za-z0-9_-]{20,}`,            // registries
		`SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|key-[0-9a-f]{32}\b|[0-9a-f]{32}-us[0-9]{1,2}\b|SK[0-9a-f]{32}\b`, // SendGrid, Mailgun, Mailchimp, Twilio
		`do[opr]_v1_[0-9a-f]{64}|dapi[0-9a-f]{32}\b|hv[sbr]\.[A-Za-z0-9_-]{24,}|glsa_[A-Za-z0-9]{32}_[0-9a-f]{8}`,    // DigitalOcean, Databricks, Vault, Grafana
		`shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}`,                                       // Shopify, Square
		`lin_api_[A-Za-z0-9]{32,}|ntn_[A-Za-z0-9]{40,}|ATATT3[A-Za-z0-9_=-]{50,}|PMAK-[0-9a-f]{24}-[0-9a-f]{34}`,     // Linear, Notion, Atlassian, Postman
		`[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b`,                                                                          // Telegram
		`AGE-SECRET-KEY-1[0-9A-Z]{58}`,                                                                               // age
		`eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`,                                            // JSON Web Tokens
	}, "|") + `)`)
)

// keyMarks has a part of everything that key matches: most texts have none and
// cost no more than this.
var keyMarks = []string{
	"sk-", "k_live_", "k_test_", "whsec_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "glsoat-", "gloas-", "xox", "xapp-", "hooks.slack.com", "AKIA", "ASIA", "ABIA", "ACCA",
	"AIza", "ya29.", "GOCSPX-", "1//0", "hf_", "r8_", "gsk_", "xai-", "pplx-", "npm_", "pypi-", "rubygems_", "dckr_pat_", "SG.", "key-", "-us", "SK", "_v1_", "dapi",
	"hvs.", "hvb.", "hvr.", "shpat_", "shpca_", "shppa_", "shpss_", "sq0", "lin_api_", "ntn_", "ATATT3", "PMAK-", ":AA", "AGE-SECRET-KEY-", "eyJ",
}

// maskKey masks a match of key. A match that begins with sk- and has no digit is a
// name, of a class in a style sheet for example.
func maskKey(match string) string {
	if strings.HasPrefix(match, "sk-") && !hasDigit(match) {
		return match
	}
	return mask
}
