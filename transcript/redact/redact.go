// Package redact masks secrets: passwords in URLs, assignments and commands, private
// keys, cookies, signatures of URLs, and keys and tokens whose shape their providers
// publish.
//
// [Secrets] is a ready hook for the Redact filter of package session:
//
//	store, err := session.Open(dir, &session.Options{Filters: []session.Filter{session.Redact(redact.Secrets)}})
//
// [Entries] passes the texts of entries to a hook. A hook that calls Secrets and then
// looks for secrets of the application, account numbers for example, is an ordinary
// function of the same type.
//
// # Limits
//
// Secrets knows shapes and names; docs/BENCHMARKS.md has measurements. It misses:
//
//	numbers in JSON             {"password":8374620193}
//	names and IDs               owners, session keys, tools, calls, idempotency keys
//	media, base64               base64 of a text; 512 or more letters of base64
//	splits                      a token with a line break, or in two blocks
//	disguises                   URL-encoded names; invisible letters inside a token
//	words of keys               {"secret":"umbrella-stand"}
//	arguments by place          bcrypt.hash("swordfish1")
//	words in a sentence         "the password is swordfish", "the password to prod X1"
//	words after a colon         "password: umbrella", but for names such as DB_PASSWORD
//	parts of a command          "-u bob:swordfish" without the name of the program
//	columns                     a table that names its columns in the first row
//	hashes                      hexadecimal keys without a name
//	personal numbers            cards, accounts, PINs, codes of a few digits
//	pass phrases, odd tokens    SMTP_PASS="abcd efgh ijkl mnop"; Vault's s.abc... without a name
//	other languages             names of passwords in more than the languages in names.go
package redact

import (
	"context"

	"github.com/convolog/convolog/internal/jsontext"
)

// Decisions:
//
// Entries walks the JSON of a line, not the fields of a body, so no member slips
// through: originals of imports, "ext", members of later versions. Names are excluded.
// A masked answer is stored without its reasoning, so no rule on signatures is needed.
//
// A text that is JSON is walked as the input of a call is, so its numbers, names and
// spaces stay, and it stays JSON. The rules for texts see only fragments of JSON.

// Secrets replaces each secret in a text by "[masked]". A text without secrets is
// unchanged. A name before a secret, and the quotes around it, stay. A JSON object
// or array stays one. Masking twice is the same as masking once. The context is
// not used. Secrets is safe for several goroutines.
func Secrets(_ context.Context, text string) string {
	if data := []byte(text); (jsontext.IsObject(data) || jsontext.IsArray(data)) && jsontext.Valid(data) {
		r := redaction{hook: func(s string) string { return Secrets(context.Background(), s) }}
		return string(r.redact(data, ofInput))
	}
	return maskRules(maskShapes(text))
}
