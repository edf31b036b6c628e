package redact

import (
	"strings"

	"github.com/convolog/convolog/internal/lazy"
)

// nameMarks are parts of the names that named looks for, in lower case.
var nameMarks = []string{"passw", "passphrase", "pwd", "secret", "token", "key", "credential", "bearer", "basic "}

// named is a name, a separator and a value: in quotes, or up to the next space.
// The name can be a flag of a command line, or the beginning of a header.
var named = lazy.New(`(?i)` +
	`([a-z0-9_.-]*)(passwords?|passwd|passphrase|pwd|secrets?|token|(?:api|access|private|account|signing|encryption|master|shared|auth)[_-]?key|credentials?)` +
	`((?:[_-](?:key|id|value))?(?:\\?["'])?(?:\s*(?:=>|:=|[=:])\s*|\s+is\s+)|[ \t]+)` +
	"(\\\\?\"[^\"\n]*\"?|'[^'\n]*'?|[^\\s,;\"'`)}\\]]+)" +
	"|()\\b(bearer|basic)([ \t]+)(['\"]?[A-Za-z0-9._~+/=-]{12,})")

func maskNamed(text string) string {
	re := named.Get()
	var out strings.Builder
	done := 0
	for at := 0; at < len(text); {
		m := re.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		if m[2] < 0 { // the second form
			m = append(m[:2:2], m[10:]...)
		}
		value := strings.TrimPrefix(text[at+m[8]:at+m[9]], `\`)
		f := found{
			before: text[at+m[2] : at+m[3]], name: strings.ToLower(text[at+m[4] : at+m[5]]), between: text[at+m[6] : at+m[7]],
			value: value, inside: strings.Trim(value, `"'`+`\`),
		}
		end := at + m[9]
		open := strings.ContainsAny(value[:1], `"'`) && value[len(value)-1] != value[0] && end < len(text)
		if open || !f.secret() {
			at = max(at+m[8], at+1) // the value may be the name of another
			continue
		}
		from := end - len(value)
		from += len(value) - len(strings.TrimLeft(value, `"'`))
		out.WriteString(text[done:from])
		out.WriteString(mask)
		done = from + len(f.inside)
		at = end
	}
	if done == 0 {
		return text
	}
	out.WriteString(text[done:])
	return out.String()
}

// found is a match of named.
type found struct {
	before  string // what the name begins with: db_ of db_password
	name    string // in lower case
	between string
	value   string // with its quotes
	inside  string // without them
}

// secret reports whether the value is a secret, and not a word, code, or a
// reference to a secret.
func (f found) secret() bool {
	quoted := f.value != f.inside
	assigned := strings.ContainsAny(f.between, "=:")
	phrase := strings.HasPrefix(f.name, "pass") || f.name == "pwd"
	switch {
	case len(f.inside) < 3, strings.HasPrefix(f.inside, mask[:len(mask)-1]), placeholder.Get().MatchString(f.inside):
		return false
	case f.name == "token" && paging.Get().MatchString(f.before):
		return false
	case f.name == "bearer", f.name == "basic":
		return random(f.inside)
	case !assigned && strings.TrimSpace(f.between) == "": // a flag of a command
		return strings.HasPrefix(f.before, "--") && (phrase || random(f.inside)) && !strings.HasPrefix(f.inside, "-")
	case !assigned: // in a sentence
		return hasDigit(f.inside) && strings.Trim(f.inside, digits+".,%") != ""
	case strings.Trim(f.inside, digits+".,%") == "": // a number
		return phrase && len(f.inside) >= 6
	case quoted && strings.ContainsAny(f.inside, " \t"): // several words
		return hasDigit(f.inside) && !prose.Get().MatchString(f.inside)
	case quoted && phrase:
		return !word.Get().MatchString(f.inside)
	case quoted:
		return random(f.inside)
	case code.Get().MatchString(f.inside):
		return false
	case phrase:
		return hasDigit(f.inside) || strings.ContainsAny(f.inside, "!@#%^&*?~") || isShell(f.before, f.between)
	}
	return random(f.inside) || isShell(f.before, f.between) && !identifier.Get().MatchString(f.inside)
}

const digits = "0123456789"

func hasDigit(s string) bool { return strings.ContainsAny(s, digits) }

// random reports whether a value was drawn by chance and not chosen as a name:
// it has digits among its letters, or both cases in no order.
func random(s string) bool {
	if len(s) < 8 || strings.ContainsAny(s, " \t") {
		return hasDigit(s) && len(s) >= 6
	}
	if hasDigit(s) {
		return true
	}
	turns := 0 // from a lower-case letter to an upper-case one
	for i := 1; i < len(s); i++ {
		if s[i-1] >= 'a' && s[i-1] <= 'z' && s[i] >= 'A' && s[i] <= 'Z' {
			turns++
		}
	}
	return len(s) >= 12 && turns*5 >= len(s)
}

// isShell reports whether a name is written like a variable of a shell, directly
// followed by the value.
func isShell(before, between string) bool {
	return between == "=" && before != "" && before == strings.ToUpper(before)
}

var (
	// placeholder matches values that mark a missing secret or its place.
	placeholder = lazy.New(`(?i)^(?:0x[0-9a-f]{1,16}|null|nil|none|true|false|undefined|string|\*+|x+|\.+|<.*|\$.*|%[a-z(].*|\{.*|@.*|&.*|os\..*|process\..*|env\..*|your.*|my[_-].*|example.*|changeme|redacted.*|\[.*)$`)
	// word matches words in the place of a password.
	word = lazy.New(`(?i)^(?:passwords?|passwd|passphrase|pwd|secrets?|tokens?|text|hidden|required|optional|invalid|missing|wrong|bcrypt|argon2|scrypt|sha\d+|md5|[a-z]+[_.:-]?(?:password|passwd|secret|token|key)s?)$`)
	// prose is a sentence.
	prose = lazy.New(`^[A-Z]?[a-z']+ [a-z']+ [a-z']+`)
	// code is an expression of a program, and no value.
	code = lazy.New(`[({\[<]|^[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::)[A-Za-z_][A-Za-z0-9_]*)+[.:]?$|^[a-z]+(?:_[a-z0-9]+)+$|^[&*][A-Za-z_.]+$|^/[a-z_.-]*(?:/|$)`)
	// identifier is a name of a program.
	identifier = lazy.New(`^[a-z_]+$`)
	// paging matches names of tokens that lead to the next page.
	paging = lazy.New(`(?i)(?:page|next|continuation|sync|cursor|resume|pagination|csrf|xsrf|start|max|delta)[_.-]?$`)
)
