package redact

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
)

// mask replaces a secret.
const mask = "[masked]"

// masked is a part of mask. Values end before a bracket.
const masked = "[masked"

// passNames are the names of passwords, which may look like any word: in English,
// German, Dutch, Swedish, Danish, Finnish, French, Spanish, Portuguese, Italian, Polish,
// Czech, Hungarian, Turkish, Indonesian, Vietnamese, Russian, Ukrainian, Greek, Hebrew,
// Arabic, Hindi, Chinese, Japanese and Korean.
const passNames = `passwords?|passwd|passphrase|passcode|psk|passwort|kennwort|pwd|wachtwoord|lösenord|adgangskode|salasana` +
	`|mots?[ _-]?de[ _-]?passe|contrase(?:ñ|n)a|palavra[ _-]passe|senha|parola d'ordine|parola|hasło|haslo|heslo|jelszó|şifre|kata sandi|mật khẩu` +
	`|пароль|κωδικός|סיסמה|كلمة (?:المرور|السر)|पासवर्ड|密码|密碼|口令|パスワード|暗証番号|비밀번호|암호`

// keyNames are the names of drawn secrets.
const keyNames = `secrets?|token|(?:api|app|access|private|account|signing|encryption|master|shared|auth|session|storage|license|webhook)[ _-]?key|credentials?`

// names matches the name of a secret in two groups: its beginning, and the word.
const names = `([a-z0-9_.-]*)(` + passNames + `|` + keyNames + `)`

// value matches the value after a name, quoted or up to the next sign. A backslash takes
// the next letter with it, so a mask never ends inside of an escape.
const value = `(?:\\"((?:[^"\\\n]|\\\\|\\[^"\n])*)(?:\\"|$)|"((?:[^"\\\n]|\\.)*)(?:"|$)|'((?:[^'\\\n]|\\.)*)(?:'|$)|((?:[^\s,;"'` + "`" + `)}\]\\&」』”]|\\[^\snrt"'])+))`

// is is the verb between a name and its value.
const is = `\s+(?:is|ist|lautet|es|est|è|é|jest|это)\s+`

// assign is between a name and its value.
const assign = `(?:\\?["'])?\]?(?:\s*(?:=>|:=|[=:：])\s*(?:\{(?:[^{}]{0,80},)?\s*\\?["']?value\\?["']?\s*:\s*)?` +
	`|` + is + `|\s*(?:是|为|為|は|는|은)\s*[「『“]?)`

// A found is a name with a value.
type found struct {
	before  string // the beginning of the name: DB_ of DB_PASSWORD
	name    string
	between string
	inside  string // the value, without its quotes
	quoted  bool
	line    string // the text before the name, in its line
	next    string // the letter after the value
}

// phraseName matches the names whose values may look like words.
var phraseName = lazy.New(`(?i)^(?:pass|` + passNames + `)`)

// secret reports whether the value is a secret, and not a word, code, or a
// reference to a secret.
func (f found) secret() bool {
	v := f.inside
	phrase := phraseName.Get().MatchString(f.name)
	assigned := strings.ContainsAny(f.between, "=:：|>")
	flag := !assigned && strings.Trim(f.between, digits+"\\\"', \t") == ""
	isNumber := strings.Trim(v, digits+".,%") == ""
	switch {
	case len(v) < 3, strings.Contains(v, masked), placeholder.Get().MatchString(v):
		return false
	case !f.quoted && strings.Contains(f.between, "\n") && (strings.Contains(f.between, "=") || setting.Get().MatchString(v)):
		return false // the name has no value
	case strings.EqualFold(f.name, "token") && paging.Get().MatchString(f.before):
		return false
	case flag && strings.HasPrefix(f.before, "-"):
		return !strings.HasPrefix(v, "-") && (random(v) || phrase && !word.Get().MatchString(v))
	case flag:
		return false
	case !assigned: // in a sentence
		return hasDigit(v) && !isNumber && (phrase || len(v) >= 8) && !strings.HasSuffix(v, "?") && strings.IndexFunc(v, func(c rune) bool { return c >= utf8.RuneSelf }) < 0
	case isNumber:
		return phrase && len(v) >= 6
	case f.quoted && strings.ContainsAny(v, " \t"): // several words
		return hasDigit(v) && !prose.Get().MatchString(v)
	case f.quoted && phrase:
		return !word.Get().MatchString(v)
	case f.quoted:
		return random(v)
	case code.Get().MatchString(v):
		return false
	case phrase:
		return hasDigit(v) && len(v) > 4 || random(v) || strings.ContainsAny(strings.TrimRight(v, "?"), "!@#%^&*?~") || f.isShell() && !word.Get().MatchString(v) || f.isChosen()
	}
	return random(v) && !constant.Get().MatchString(v) || f.isShell() && !identifier.Get().MatchString(v)
}

// isShell reports whether the name is written like a variable of a shell, and the value
// directly follows it, or is the rest of a line of settings.
func (f found) isShell() bool {
	name := f.before + f.name
	return name == strings.ToUpper(name) && (f.between == "=" && (f.before != "" || phraseName.Get().MatchString(name)) ||
		strings.HasSuffix(f.before, "_") && strings.HasSuffix(strings.TrimSpace(f.between), ":") && len(f.inside) >= 8 && (f.next == "" || strings.Contains("\r\n", f.next)))
}

// isChosen reports whether a value of letters alone was chosen as a password: several
// words in one, the padding of base64, or the value of a form or in a line of values.
func (f found) isChosen() bool {
	if len(f.inside) < 6 || word.Get().MatchString(f.inside) || strings.Contains(strings.ToLower(f.inside), "pass") {
		return false
	}
	return strings.HasSuffix(f.inside, "=") || len(f.inside) >= 20 && turns(f.inside) >= 3 ||
		f.between == "=" && f.next != "" && strings.Contains(" \"'", f.next) && strings.Contains(f.line, "=") ||
		strings.HasSuffix(f.between, "=") && turns(f.inside) == 0 && (f.next == "" || strings.Contains("&;\r\n", f.next) || strings.HasSuffix(f.line, ";"))
}

const digits = "0123456789"

func hasDigit(s string) bool { return strings.ContainsAny(s, digits) }

// random reports whether a value was drawn by chance and not chosen as a name:
// it has digits among its letters, or both cases in no order.
func random(s string) bool {
	if len(s) < 8 || strings.ContainsAny(s, " \t") {
		return hasDigit(s) && len(s) >= 6
	}
	return hasDigit(s) || len(s) >= 12 && turns(s)*5 >= len(s)
}

// turns counts the upper-case letters that follow a lower-case one.
func turns(s string) (n int) {
	for i := 1; i < len(s); i++ {
		if s[i-1] >= 'a' && s[i-1] <= 'z' && s[i] >= 'A' && s[i] <= 'Z' {
			n++
		}
	}
	return n
}

// isLogin reports whether a value is the base64 of user:password.
func isLogin(s string) bool {
	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(s, "="))
	return err == nil && strings.Contains(string(data), ":")
}

// isArgument reports whether a value of a flag is a password, rather than a port, a
// number of a user, a path, a reference or a word for one.
func isArgument(s string) bool {
	return strings.Trim(s, digits+":.-/") != "" && !strings.HasPrefix(s, "/") && !placeholder.Get().MatchString(s) && !word.Get().MatchString(s)
}

var (
	// placeholder matches values that mark a missing secret or its place.
	placeholder = lazy.New(`(?i)^(?:0x[0-9a-f]{1,16}|null|nil|none|true|false|undefined|string|\*+|x+|\.+|<.*|\$.*|%[a-z#+(].*|\{.*|@.*|&.*|os\..*|process\..*|env\..*|your.*|my[_-].*|arn:.*|(?-i:(?:/[a-z0-9_.-]+){2,})|example.*|changeme|redacted.*|!(?:vault|secret|ref|sub|env.*|getatt|include)|\[.*)$`)
	// word matches words that replace a password.
	word = lazy.New(`(?i)^(?:` + passNames + `|pass|secrets?|tokens?|text|str|bool|value|input|user|name|field|hidden|required|mandatory|optional|unchanged|disabled|options?|flags?|arguments?|and|for|from|with|when|instead|can|must|should|will|prompt|default|empty|invalid|incorrect|missing|wrong|expired|changed|reset|deleted|bcrypt|argon2|scrypt|sha\d+|md5|[a-z]+[_.:-]?(?:password|passwd|secret|token|key)s?)$`)
	// prose is a sentence.
	prose = lazy.New(`^[A-Z]?[a-z']+ [a-z']+ [a-z']+`)
	// code is an expression of a program, and no value.
	code = lazy.New(`[({\[<]|^[A-Za-z_][A-Za-z0-9_]*(?:(?:\.|->|::)[A-Za-z_][A-Za-z0-9_]*)+[.:]?$|^[a-z]+(?:_(?:[a-z0-9]*[a-z][a-z0-9]*|[0-9]))+$|^[&*][A-Za-z_.]+$|^/[a-z_.-]*(?:/|$)`)
	// setting is the beginning of a setting.
	setting = lazy.New(`^[A-Za-z_][A-Za-z0-9_.-]*(?::|=[^=])`)
	// identifier is a name of a program.
	identifier = lazy.New(`^[a-z_]+$`)
	// constant is a name of a constant.
	constant = lazy.New(`^[A-Z_]+[0-9]{0,2}$`)
	// paging matches names of tokens that lead to the next page.
	paging = lazy.New(`(?i)(?:page|next|continuation|sync|cursor|resume|pagination|csrf|xsrf|jsonweb|tik|start|max|delta)[_.-]?$`)
)

// hasAny reports whether s contains one of the words of a list, with one space between
// them: most texts are short names of members, and splitting the list takes longer than
// the search.
func hasAny(s, words string) bool {
	for more := true; more; {
		var w string
		if w, words, more = strings.Cut(words, " "); strings.Contains(s, w) {
			return true
		}
	}
	return false
}
