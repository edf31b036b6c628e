package compact

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// Limits: longer texts are scanned in part, longer words are ignored.
const (
	maxScanned    = 64 << 10 // bytes from either end of a text
	maxIdentifier = 200      // bytes
)

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

// identifiers returns the strings of a text to keep letter by letter.
func identifiers(s string) (list []string) {
	if len(s) > 2*maxScanned {
		s = s[:maxScanned] + " " + s[len(s)-maxScanned:]
	}
	for word := range strings.FieldsFuncSeq(s, isSpace) {
		if len(word) < 3 {
			continue
		}
		if url := findURL(word); url != "" {
			list = append(list, url)
		}
		if strings.Contains(word, "://") {
			continue // a URL that is too long is not split
		}
		for word := range strings.FieldsFuncSeq(word, isDelimiter) {
			list = append(list, inWord(word)...)
		}
	}
	return list
}

// inWord returns a word if it is an identifier, or else the identifiers in it
// between ideographs.
func inWord(word string) (list []string) {
	id := identifier(word)
	first, _ := utf8.DecodeRuneInString(id)
	last, _ := utf8.DecodeLastRuneInString(id)
	if isIdeograph(last) {
		id = "" // the sentence continues within the word
	}
	if id == "" || isIdeograph(first) {
		for run := range strings.FieldsFuncSeq(word, isIdeograph) {
			if id := identifier(run); id != "" {
				list = append(list, id)
			}
		}
	}
	if id != "" && len(list) == 0 {
		list = append(list, id)
	}
	return list
}

var schemed = lazy.New(`[a-zA-Z0-9+]+://.+`)

// findURL returns the URL in a word, or "". It may contain brackets, but not end
// with a bracket of the sentence.
func findURL(word string) string {
	if !strings.Contains(word, "://") {
		return "" // like nearly every word
	}
	url := schemed.Get().FindString(word)
	for short := ""; short != url; {
		short, url = url, strings.TrimRight(url, ".,:;!?*|]}")
		if strings.Count(url, ")") > strings.Count(url, "(") {
			url = strings.TrimSuffix(url, ")")
		}
	}
	if strings.HasSuffix(url, "://") || len(url) > maxIdentifier {
		return ""
	}
	return url
}

func isSpace(r rune) bool {
	if r < unicode.MaxLatin1 {
		return r <= ' ' || strings.ContainsRune("\"'`<>\u0085\u00a0", r)
	}
	return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.IsPunct(r) || r == unicode.ReplacementChar
}

func isDelimiter(r rune) bool { return strings.ContainsRune("()[]{},;|*=", r) }

func isIdeograph(r rune) bool {
	return r >= 0x2e80 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// identifier strips the punctuation of a sentence from a word, and returns "" for
// a word that is not worth keeping.
func identifier(word string) string {
	word = strings.TrimLeft(strings.TrimRight(word, ".:!?-"), ":!?-")
	switch {
	case len(word) < 3 || len(word) > maxIdentifier:
	case strings.ContainsAny(word, `/\`) && isPath(word), !strings.ContainsAny(word, `/\`) && (isFileName(word) || isNumbered(word)):
		return word
	}
	return ""
}

var (
	rooted = lazy.New(`^(?:(?:/|\.\.?/|~/|\\\\).|.:[\\/]).`)
	// A name with an extension, or a domain, and the number of a line.
	fileName = lazy.New(`^(?:.+\.[a-z][a-z0-9]{1,5}|.{2,}\.[a-z])(?::[0-9:]+)?$`)
	// org#34, ann@example.com, GH-12, 48213377, 10.0.0.1, v1.2
	numbered = lazy.New(`^(?:[\w.@+:-]*#\d+|[\w.+:-]+@[\w@+:-]*[.\d][\w.@+:-]*|[A-Z][A-Z0-9_]*[A-Z][A-Z0-9_]*-\d+` +
		`|\d{6,}|(?:\d+:)?\d+(?:\.\d+){2,}[\d_+.:-]*|v\d[\w+-]*(?:\.\d[\w+-]*)+)$`)
	// A hash, a UUID or another name with numbers in it.
	coded = lazy.New(`^[\w.@+:-]*\d[\w.@+:-]*\d[\w.@+:-]*$`)
)

// isPath reports whether a word with slashes is a path: one with a root, an
// extension or three parts. "and/or" is not.
func isPath(s string) bool {
	name := s[strings.LastIndexAny(s, `/\`)+1:]
	switch {
	case !strings.ContainsFunc(s, unicode.IsLetter):
		return false
	case rooted.Get().MatchString(s):
		return true
	case strings.Contains(s, "///"), strings.HasPrefix(s, `\\`):
		return false
	}
	return isFileName(name) || strings.Count(s, "/")+strings.Count(s, `\`) > 1 || strings.Contains(name, "#")
}

func isFileName(s string) bool {
	return strings.Contains(s, ".") && !strings.Contains(s, "..") && fileName.Get().MatchString(s)
}

// isNumbered reports whether a word is or contains a number worth keeping.
// Times and dates do not count.
func isNumbered(s string) bool {
	if !strings.ContainsAny(s, "@0123456789") {
		return false // like nearly every word
	}
	return numbered.Get().MatchString(s) ||
		len(s) >= 7 && strings.Count(s, ":") < 2 && strings.ContainsFunc(s, unicode.IsLetter) && coded.Get().MatchString(s)
}

// The default of [Options].Files goes by the names of tools and arguments.
var (
	writes  = lazy.New(`(?i)write|edit|create|patch|replace|insert|delete|remove|move|rename|save|append|update`)
	looks   = lazy.New(`(?i)^(view|read|show|get|list|cat)$`)
	patched = lazy.New(`(?m)^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b/)([^\r\n\t]+)`)
	named   = lazy.New(`(?i)(^|_)(path|file|filename|file_?path|notebook_?path)s?$`)
	written = []string{"content", "contents", "file_text", "new_str", "new_string", "newText", "new_text", "old_str", "old_string", "edits"}
	patches = []string{"patch", "diff", "input"}
)

// filesOf guesses from the name and the input of a call which paths it reads or
// modifies.
func filesOf(call transcript.ToolCallBlock) (read, modified []string) {
	var args map[string]any
	if json.Unmarshal(call.Input, &args) != nil {
		return nil, nil
	}
	isWritten := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return args[name] != nil })
	}
	command, _ := args["command"].(string)
	changes := (writes.Get().MatchString(call.Name) || isWritten(written)) && !looks.Get().MatchString(command)
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if s, ok := args[name].(string); ok && slices.Contains(patches, name) {
			for _, m := range patched.Get().FindAllStringSubmatch(s, -1) {
				modified = append(modified, m[1])
			}
		}
		list, _ := args[name].([]any)
		for _, v := range append(list, args[name]) {
			s, ok := v.(string)
			if ok && (named.Get().MatchString(name) && isOneLine(s) || !slices.Contains(written, name) && isPathArgument(s)) {
				paths = append(paths, s)
			}
		}
	}
	if changes {
		return nil, append(modified, paths...)
	}
	return paths, modified
}

func isOneLine(s string) bool {
	return s != "" && len(s) <= maxIdentifier && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' })
}

var instructionFile = lazy.New(`(?i)(?:^|[/\\])(?:agents(?:\.\w+)?\.md|claude(?:\.\w+)?\.md|gemini\.md|copilot-instructions\.md|\.cursorrules|\.windsurfrules|\.clinerules|[^/\\]+\.mdc)$`)

// isInstructions is the default of [Options].Instructions.
func isInstructions(path string) bool { return instructionFile.Get().MatchString(path) }
