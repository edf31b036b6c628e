package compact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits: longer texts are scanned in part, longer words are ignored.
const (
	maxScanned    = 64 << 10 // bytes from either end of a text
	maxIdentifier = 200      // bytes
)

// isPathArgument reports whether a whole argument is one path.
func isPathArgument(s string) bool {
	if len(s) > maxIdentifier || strings.TrimSpace(s) != s || strings.ContainsFunc(s, unicode.IsControl) {
		return false
	}
	if strings.Contains(s, "  ") || strings.Contains(s, "://") {
		return false
	}
	return strings.HasPrefix(s, "/") && strings.Count(s, "/") > 1 && !strings.Contains(s, " /") ||
		!strings.Contains(s, " ") && strings.Contains(s, "/") && isPath(s)
}

// identifiers returns what in a text is to be kept letter by letter.
func identifiers(s string) []string {
	if len(s) > 2*maxScanned {
		s = s[:runeStart(s, maxScanned)] + " " + s[runeStart(s, len(s)-maxScanned):]
	}
	var list []string
	for word := range strings.FieldsFuncSeq(s, isSpace) {
		if len(word) < 3 {
			continue
		}
		if url, ok := findURL(word); ok {
			list = append(list, url)
		}
		if strings.Contains(word, "://") {
			continue // one that is too long is not taken in parts
		}
		for word := range strings.FieldsFuncSeq(word, isDelimiter) {
			if id, ok := identifier(word); ok {
				list = append(list, id)
			} else if strings.ContainsFunc(word, isIdeograph) {
				list = append(list, inSentence(word)...)
			}
		}
	}
	return list
}

// inSentence returns what is to be kept in a sentence of a script without
// spaces.
func inSentence(s string) []string {
	var list []string
	for run := range strings.FieldsFuncSeq(s, isIdeograph) {
		if id, ok := identifier(run); ok {
			list = append(list, id)
		}
	}
	return list
}

// findURL returns the URL in a word. It may have brackets, but does not end
// with one that a sentence has around it.
func findURL(word string) (string, bool) {
	at := strings.Index(word, "://")
	if at < 0 {
		return "", false
	}
	start := len(strings.TrimRightFunc(word[:at], isOfScheme))
	url := word[start:]
	for {
		short := strings.TrimRight(url, ".,:;!?*|]}")
		if strings.HasSuffix(short, ")") && strings.Count(short, ")") > strings.Count(short, "(") {
			short = strings.TrimSuffix(short, ")")
		}
		if short == url {
			break
		}
		url = short
	}
	return url, start < at && len(url) > at-start+3 && len(url) <= maxIdentifier
}

// isSpace says what ends a word that may be a URL.
func isSpace(r rune) bool {
	if r < unicode.MaxLatin1 {
		return r <= ' ' || strings.ContainsRune("\"'`<>\u0085\u00a0", r)
	}
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.IsPunct(r) || r == unicode.ReplacementChar
}

// isDelimiter says what ends any other word too.
func isDelimiter(r rune) bool { return strings.ContainsRune("()[]{},;|*=", r) }

func isIdeograph(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// identifier returns a word without what a sentence puts around it, if it is
// one that is to be kept.
func identifier(word string) (string, bool) {
	word = strings.TrimRight(word, ".:!?-")
	word = strings.TrimLeft(word, ":!?-")
	if len(word) < 3 || len(word) > maxIdentifier {
		return "", false
	}
	if strings.ContainsAny(word, `/\`) {
		return word, isPath(word) && !mixed(word)
	}
	return word, isFileName(word) && !mixed(word) || isNumbered(word)
}

// mixed reports whether a word has more than an identifier: it is from a script
// without spaces and ends in the middle of a sentence, or begins there.
func mixed(word string) bool {
	first, _ := utf8.DecodeRuneInString(word)
	last, _ := utf8.DecodeLastRuneInString(word)
	if isIdeograph(last) || !isIdeograph(first) {
		return isIdeograph(last)
	}
	for run := range strings.FieldsFuncSeq(word, isIdeograph) {
		if _, ok := identifier(run); ok {
			return true
		}
	}
	return false
}

// isPath reports whether a word with slashes is a path: one from a root, one
// with an extension, or one of three names. "and/or" is none.
func isPath(s string) bool {
	if !strings.ContainsFunc(s, unicode.IsLetter) {
		return false
	}
	for _, root := range []string{"/", "./", "../", "~/", `\\`} {
		if strings.HasPrefix(s, root) {
			return len(s) > len(root)+1
		}
	}
	if len(s) > 3 && s[1] == ':' && (s[2] == '\\' || s[2] == '/') {
		return true
	}
	if strings.Contains(s, "///") {
		return false
	}
	name := s[strings.LastIndexAny(s, `/\`)+1:]
	return isFileName(name) || strings.Count(s, "/")+strings.Count(s, `\`) > 1 || strings.Contains(name, "#")
}

// isFileName reports whether a word has an extension, or is a domain.
func isFileName(s string) bool {
	if i := strings.IndexByte(s, ':'); i > 0 && isDigits(strings.ReplaceAll(s[i+1:], ":", "")) {
		s = s[:i] // with the number of a line
	}
	stem, ext := "", ""
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		stem, ext = s[:i], s[i+1:]
	}
	if len(stem) < 2 && len(ext) < 2 || stem == "" || len(ext) == 0 || len(ext) > 6 || strings.Contains(s, "..") {
		return false
	}
	for i := range len(ext) {
		if c := ext[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9' || i == 0) {
			return false
		}
	}
	return true
}

// isNumbered reports whether a word is an issue number, a hash, a UUID, a
// version, an address or another name with numbers in it.
func isNumbered(s string) bool {
	digits, letters := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
			digits++
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			letters++
		case !strings.ContainsRune("#-_.@+:", rune(c)):
			return false
		}
	}
	if _, number, ok := strings.Cut(s, "#"); ok {
		return isDigits(number)
	}
	if at := strings.IndexByte(s, '@'); at > 0 {
		return strings.Contains(s[at:], ".") || digits > 0
	}
	if strings.Count(s, ":") > 1 {
		return false // a time
	}
	dash := strings.IndexByte(s, '-')
	switch {
	case dash > 0 && strings.ToUpper(s[:dash]) == s[:dash] && letters > 1 && isDigits(s[dash+1:]):
		return true // GH-12
	case letters == 0:
		return digits >= 6 && digits == len(s) || strings.Count(s, ".") > 1 && digits > 2
	case s[0] == 'v' && strings.Count(s, ".") > 0:
		return digits > 1
	}
	return digits >= 2 && len(s) >= 7
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// isOfScheme reports whether c can be in the scheme of a URL.
func isOfScheme(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+'
}
