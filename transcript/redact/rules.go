package redact

import (
	"strings"
	"sync"

	"github.com/convolog/convolog/internal/lazy"
)

// A rule finds secrets by the text around them.
type rule struct {
	// A text that lacks part, or every word of marks, matches nothing. Both are in lower
	// case.
	marks, part string
	re          *lazy.Regexp
	// secret decides about the last group of a match. If it is nil the first three groups
	// are two parts of a name and the text after them, see [found].
	secret func(string) bool
}

func always(string) bool { return true }

// word1 and gap are an argument and the space before it, in a command or in an array of
// arguments.
const (
	word1 = `([^\s"',;|&-][^\s"']*)`
	gap   = `[\s"',=]+`
)

// command returns the rule for a flag of commands, which may go on after a backslash at the
// end of a line. The last group of flag is the password.
func command(marks, names, flag string) rule {
	return rule{marks, "-", lazy.New(`\b(?:` + names + `)\b(?:[^\n\\]|\\\n?)*?[\s"']` + flag), isArgument}
}

const nameMarks = "pass pwd psk secret token key credential kennwort wachtwoord lösenord adgangskode salasana contrase senha parola hasło haslo heslo jelszó şifre kata mật " +
	"пароль κωδικός סיסמה كلمة पासवर्ड 密码 密碼 口令 パスワード 暗証番号 비밀번호 암호"

// rules are applied in this order.
var rules = sync.OnceValue(func() []rule {
	return []rule{
		// URLs and the like: passwords, and signatures of a query.
		{":// @tcp( @unix(", "", lazy.New(`[A-Za-z][A-Za-z0-9+.-]*://[^\s/:@"'<>]*:([^\s/@"'<>]+)@|:([^\s:@"'/]+)@(?:tcp|unix)\(`), func(s string) bool { return len(s) > 5 || strings.Trim(s, digits) != "" }},
		{"://", "", lazy.New(`[A-Za-z][A-Za-z0-9+.-]*://([A-Za-z0-9_.-]{20,})@`), random},
		{"sig x-goog x-amz", "", lazy.New(`(?i)[?&;](?:x-(?:amz|goog)-(?:signature|security-token|credential)|sig|signature)=([^&\s"'<>\\]{16,})`), always},
		// Headers.
		{"cookie", "", lazy.New(`(?i)\bset-cookie2?\\?["']?\s*[:=]\s*\\?["']?[^\s=;"'\\]+=([^;"'\\\r\n]+)|\bcookies?\\?["']?(?::\s*\\?["']?|\s*=\s*\\?["'])[^\s=;"'\\,]+=([^"'\\\r\n]+)`), isCookie},
		{"curl", "", lazy.New(`\bcurl\b[^\n]*?[\s"'](?:-b|--cookie)` + gap + `[^\s=;"'\\]+=([^"'\\\r\n]+)`), isCookie},
		{"bearer basic authorization", "", lazy.New(`(?i)\b(?:bearer|basic|authorization\\?["']?\s*[:=]\s*\\?["']?[\w-]+)[ \t]+['"]?([A-Za-z0-9._~/=-][A-Za-z0-9._~+/=-]{11,})`), func(s string) bool { return random(s) && !setting.Get().MatchString(s) }},
		{"authorization", "", lazy.New(`(?i)\bauthorization\\?["']?\s*[:=][ \t]*\\?["']?([A-Za-z0-9._~+/=-]{20,})`), func(s string) bool { return hasDigit(s) && !code.Get().MatchString(s) }},
		{"auth", "", lazy.New(`(?i)(?:\b|_)auth\\?["']?\s*[=:]\s*\\?["']?([a-z0-9+/]{8,}={0,2})`), isLogin},
		// Commands.
		{"-a --auth", "http", lazy.New(`\bhttps?\s[^\n]*?(?:-a|--auth)` + gap + `[^\s:"']+:([^\s"']+)`), isArgument}, // HTTPie
		command("curl wget", `curl|wget`, `(?:-u|--user|--proxy-user|-U)[\s"',=]*[^\s:"',]*:["']?([^\s"',]+)`),
		command("mysql mariadb", `mysql[a-z_]*|mariadb[a-z_-]*`, `-p["']?([^\s"',]+)`),
		command("mongo", `mongo[a-z]*`, `-p[\s"',]*`+word1),
		command("sshpass", `sshpass`, `-p[\s"',]*`+word1),
		command("login", `login`, `-p`+gap+word1),
		command("redis-cli", `redis-cli`, `(?:-a|--pass)`+gap+word1),
		command("ldap", `ldap[a-z]+`, `-w`+gap+word1),
		command("sqlcmd bcp isql zip _pub _sub ipmitool", `sqlcmd|bcp|isql|tsql|zip|unzip|[a-z]+_(?:pub|sub)|ipmitool`, `-P[\s"',]*`+word1),
		command("7z", `7z[a-z]?`, `-p([^\s"',]+)`),
		command("smb rpcclient cifs", `smbclient|rpcclient|smbmap`, `-U`+gap+`[^\s%"']+%([^\s"',]+)`),
		command("pass:", `openssl`, `-pass(?:in|out)?`+gap+`pass:([^\s"',]+)`),
		command("storepass keypass", `keytool|jarsigner`, `-(?:src|dest)?(?:store|key)pass`+gap+word1),
		command("htpasswd", `htpasswd`, `-[a-zA-Z]*b[a-zA-Z]*`+gap+`[^\s"',]+`+gap+`[^\s"',]+`+gap+word1),
		command("ssh-keygen", `ssh-keygen`, `-[NP]`+gap+word1),
		{"net", "/user:", lazy.New(`(?i)\bnet\s+use\b[^\n]*?\s/user:\S+\s+([^\s/"'*][^\s"']*)`), isArgument},
		{"<<<", "", lazy.New(`(?:sudo\s+-S|--password-stdin|passwd\s+--stdin)[^\n]*<<<\s*["']?([^\s"']+)`), isArgument},
		{"env set", "", lazy.New(`(?im)^[ \t]*(?:env|set\s+-[a-z]+|setenv|setx)\s+[a-z0-9_]*(?:` + passNames + `|` + keyNames + `)(?:_(?:key|id|value|base))?\d*\s+["']?([^\s"'=]+)`), isArgument},
		{"echo", "", lazy.New(`\becho\s+(?:-n\s+)?["']?(?:[\w.-]+:([^\s"'|]+)["']?\s*\|\s*(?:sudo\s+)?chpasswd|([^\s"'|]+)["']?\s*\|[^\n|]*(?:sudo\s+-S|--password-stdin|passwd\s+--stdin))`), isArgument},
		{"securestring", "", lazy.New(`(?i)\bConvertTo-SecureString\s+(?:-String\s+)?["']([^"'\n]+)["']`), isArgument},
		{"aws_secret", "", lazy.New(`(?i)aws_secret_access_key[\s"',]+([A-Za-z0-9/+]{40})\b`), always},
		{"key", "==", lazy.New(`(?i)\bkey\d*\b[^\n]{0,24}[\s"'=:]([a-z0-9+/]{86}==)`), always},                                      // of Azure
		{"machine default login", "password", lazy.New(`\b(?:machine\s+\S+|default)\s+login\s+\S+\s+password\s+(\S+)`), isArgument}, // netrc
		{":543 :6432 :*", "", lazy.New(`(?m)^[\w.*-]+:(?:543\d|6432|\*):[\w.*-]+:[\w.*-]+:(\S{4,})[ \t\r]*$`), isArgument},          // pgpass
		// Settings: of devices, of databases, and hashes of passwords.
		{"community", "snmp", lazy.New(`\bsnmp-server\s+community\s+(\S+)`), isArgument},
		{"username enable", "", lazy.New(`(?m)^[ \t]*(?:username\s+\S+[^\n]*?|enable)\s+(?:secret|password)\s+(?:\d+\s+)?(\S+)[ \t]*$`), hasDigit},
		{"wifi:", "", lazy.New(`\bWIFI:[^\n]*?;P:((?:[^;\\\n]|\\.)+);`), always},
		{"pwd", "={", lazy.New(`(?i)\bpwd=\{([^}\n]+)\}`), always},
		{"jdbc:oracle sqlplus sqlldr expdp impdp", "", lazy.New(`(?:jdbc:oracle:[a-z0-9]+:|\b(?:sqlplus|sqlldr|expdp|impdp)\s+(?:-\S+\s+)*)[^\s/"']+/([^\s@"']+)@`), isArgument},
		{"identified role user login", "", lazy.New(`(?i)\b(?:identified\s+(?:with\s+\S+\s+)?by|(?:role|user|login)\s[^;"'\n]*\bpassword)\s+\\?["']([^"'\n\\]+)`), isArgument},
		{"$1$ $2a$ $2b$ $2y$ $5$ $6$ $7$ $y$ $argon2", "", lazy.New(`\$(?:[1567y]|2[aby]|argon2[a-z]*)\$([./A-Za-z0-9$=,+-]{20,})`), always},
		{"phrase words mnemonic", "", lazy.New(`(?i)\b(?:(?:seed|recovery)[ _-](?:phrase|words)|mnemonic)\\?["']?\s*[:=]\s*\\?["']?((?:[a-z]{3,8}\s+){11,23}[a-z]{3,8})\b`), always},
		// Names with a value: in XML, in rows of tables, in pairs, and in assignments.
		{nameMarks, "</", lazy.New(`(?i)<(?:(?:property|entry|param)\s+(?:name|key)=["']|[\w-]+:)?` + names + `((?:[_-]?(?:key|value))?["']?(?:\s[^<>]*)?>)\s*([^<>\s][^<>]*?)\s*<`), nil},
		{"<pass", "</", lazy.New(`(?i)<()(pass)((?:\s[^<>]*)?>)\s*([^<>\s][^<>]*?)\s*<`), nil},
		{nameMarks, "|", lazy.New(`(?i)\|[ \t*` + "`" + `]*` + names + `([ \t*` + "`" + `]*\|[ \t*` + "`" + `]*)([^|\s*` + "`" + `]+)`), nil},
		{nameMarks, "val", lazy.New(`(?i)\b(?:name|key|header|variable|parameter)\\?["']?\s*[:=]\s*\\?["']?` + names + `(\d*\\?["']?(?:\s*,?\s*\\?["']?(?:default)?_?val(?:ue)?\\?["']?\s*[:=]\s*))` + value), nil},
		{nameMarks, "", lazy.New(`(?i)` + names + `((?:[_-](?:key|id|value|base))*\d*(?:[ \t]+(?:for|of|del?|da|do|für|van|для|от)[ \t][^\n:=]{1,40}?(?::[ \t]*|` + is + `)|` + assign + `|\\?["']?[ \t,]+))` + value), nil},
		{nameMarks, "\" {", lazy.New(`(?i)\b(?:variable|output)\s+"` + names + `(\d*"\s*\{\s*(?:default|value)\s*=\s*)` + value), nil},
		{nameMarks, "(", lazy.New(`(?i)\b(?:define|putenv|setenv|setproperty|set|put|append|fill|type)\(\s*["'][#.]?` + names + `(["']\s*(?:,)\s*)` + value), nil},
		{"pass", "", lazy.New(`(?i)((?:^|[^a-z0-9])[a-z0-9_.-]*[_.-]|--?|\\?["'])(pass)(\\?["']\s*[=:]\s*|=|[:\s]\s*)` + value), nil},
		{"pass", "", lazy.New(`(?m)^([ \t-]*)([Pp]ass)(\s*[:=]\s*)` + value + `[,;]?[ \t\r]*$`), nil},
		{"pass", "", lazy.New(`(?i)()(\b[a-z0-9]*pass)(=)` + value), nil},
	}
})

// maxName is the length of the longest value that is tried as a name itself.
const maxName = 200

// nextField is the next field of a form: the value before it ends there.
var nextField = lazy.New(`^&(?:amp;)?[A-Za-z][A-Za-z0-9_.-]*=`)

// extended returns the end of an unquoted value in text[from:to] and beyond: it goes past
// '&' unless another field begins there.
func extended(text string, from, to int) int {
	for to < len(text) && to-from < maxName && text[to] == '&' && !nextField.Get().MatchString(text[to:min(to+64, len(text))]) {
		to++
		for to < len(text) && !strings.ContainsRune(" \t\r\n,;\"'`)}]\\&", rune(text[to])) {
			to++
		}
	}
	return to
}

// isCookie reports whether the values of cookies can be secrets.
func isCookie(s string) bool {
	return len(s) >= 6 && !placeholder.Get().MatchString(s) && !word.Get().MatchString(s)
}

// maskRules masks the secrets that the rules find.
func maskRules(text string) string {
	if strings.Contains(text, "-----BEGIN") {
		text = privateKey.Get().ReplaceAllString(text, mask)
	}
	low := strings.ToLower(text)
	for _, r := range rules() {
		if strings.Contains(low, r.part) && hasAny(low, r.marks) {
			if done := r.mask(text, low); done != text {
				text, low = done, strings.ToLower(done)
			}
		}
	}
	return maskNext(maskBlocks(text))
}

// mask masks the secrets in lines with a mark and in the lines after them, up to one that
// does not end with a backslash. Most lines lack a mark; matching them would take long.
// low is the text in lower case.
func (r rule) mask(text, low string) string {
	var out strings.Builder
	done, from, at, near := 0, -1, 0, false
	for line := range strings.Lines(text) {
		var lowLine string
		lowLine, low, _ = strings.Cut(low, "\n")
		switch marked := hasAny(lowLine, r.marks); {
		case marked && from < 0:
			from, near = at, true
		case marked || near:
			near = marked || strings.HasSuffix(line, "\\\n")
		case from >= 0:
			out.WriteString(text[done:from])
			out.WriteString(r.maskLines(text[from:at]))
			done, from = at, -1
		}
		at += len(line)
	}
	if from < 0 {
		return out.String() + text[done:]
	}
	return out.String() + text[done:from] + r.maskLines(text[from:])
}

func (r rule) maskLines(text string) string {
	re := r.re.Get()
	var out strings.Builder
	done := 0
	for at := 0; at < len(text); {
		m := re.FindStringSubmatchIndex(text[at:])
		if m == nil {
			break
		}
		last := len(m) - 2
		for m[last] < 0 { // the group of another alternative
			last -= 2
		}
		from, to := at+m[last], at+m[last+1]
		if r.secret == nil && last == len(m)-2 {
			for to = extended(text, from, to); to > from+1 && text[to-1] == '.'; to-- {
				continue // a full stop
			}
		}
		end := max(at+m[1], to)
		if !r.isSecret(text[at:], text[from:to], text[end:], m, last) {
			at = max(from, at+m[0]+1) // the value may be the name of another
			if to-from > maxName {
				at = to
			}
			continue
		}
		out.WriteString(text[done:from])
		out.WriteString(mask)
		done, at = to, end
	}
	return out.String() + text[done:]
}

// isSecret decides about a match in text, whose group at last is the value.
func (r rule) isSecret(text, value, rest string, m []int, last int) bool {
	if r.secret != nil {
		return !strings.Contains(value, masked) && r.secret(value)
	}
	f := found{
		before: strings.TrimLeft(text[m[2]:m[3]], " \t\r\n\"'([{,;=&?"), name: text[m[4]:m[5]], between: text[m[6]:m[7]],
		inside: value, next: rest[:min(len(rest), 1)], line: text[strings.LastIndexByte(text[:m[0]], '\n')+1 : m[0]],
	}
	if r.part == "(" && last < len(m)-2 { // define('DB_PASSWORD', 'x')
		f.between = "=>"
	}
	f.quoted = last < len(m)-2 || strings.HasSuffix(f.between, ">")
	return f.secret()
}

var (
	// privateKey is a private key, and not its first line alone in quotes. One without an end
	// reaches to the end of the text, so that a text cut inside a key shows none of it.
	privateKey = lazy.New(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?:$|(?:[\sA-Za-z0-9+/]|\\+[nr]|[^A-Za-z0-9]{1,24}[A-Za-z0-9+/=]{40}).*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$))`)
	// block is the first line of a block scalar of YAML.
	block = lazy.New(`(?i)^[ \t-]*[a-z0-9_.-]*(?:` + passNames + `|` + keyNames + `)\s*:\s*[|>][+-]?[0-9]?\s*$`)
	// next is the last line of a text, after a name: when the text is complete, that line
	// may be the value.
	next = lazy.New(`(?i)\b(?:name|key|variable|parameter)["']?\s*[:=]\s*["']?` + names + `["']?,?[ \t]*\n(\S{10,})\s*$`)
)

// maskBlocks masks the block scalars of YAML.
func maskBlocks(text string) string {
	if !strings.Contains(text, ": |") && !strings.Contains(text, ": >") {
		return text
	}
	var out strings.Builder
	lines := strings.SplitAfter(text, "\n")
	last := len(lines) - 1
	for last > 0 && strings.TrimSpace(lines[last]) == "" {
		last--
	}
	cut := drawn(lines[last])
	for i := 0; i < len(lines); i++ {
		out.WriteString(lines[i])
		if !strings.ContainsAny(lines[i], "|>") || !block.Get().MatchString(lines[i]) || i+1 == len(lines) || strings.TrimSpace(lines[i+1]) == "" {
			continue
		}
		indent := lines[i+1][:len(lines[i+1])-len(strings.TrimLeft(lines[i+1], " \t"))]
		end := i + 2
		for end < len(lines) && indent != "" && strings.HasPrefix(lines[end], indent) {
			end++
		}
		next := end
		for cut && next < last && strings.TrimSpace(lines[next]) == "" {
			next++
		}
		if cut && next == last {
			end = len(lines)
		}
		out.WriteString(indent + mask)
		if strings.HasSuffix(lines[end-1], "\n") || lines[end-1] == "" {
			out.WriteString("\n")
		}
		i = end - 1
	}
	return out.String()
}

// drawn reports whether the last line of a text is one random word. Directly after a block
// it may be a further line of the block, where the text was cut.
func drawn(rest string) bool {
	rest = strings.TrimSpace(rest)
	return len(rest) < 32 && random(rest) && !strings.ContainsAny(rest, " \t\n")
}

// maskNext masks the last line of a text if it follows a name.
func maskNext(text string) string {
	from := max(0, len(text)-200)
	m := next.Get().FindStringSubmatchIndex(text[from:])
	if m == nil || !drawn(text[from+m[6]:]) {
		return text
	}
	return text[:from+m[6]] + mask + text[from+m[7]:]
}
