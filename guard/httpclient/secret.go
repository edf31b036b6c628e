package httpclient

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
)

// secrets replaces secrets in texts.
type secrets struct {
	whole *strings.Replacer
	forms []form
}

// secretsOf returns the long words of a header, and of the query and the user of address,
// in each form in which an error may quote them.
func secretsOf(address string, header http.Header) secrets {
	_, query, _ := strings.Cut(address, "?")
	words := strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune("&=#", r) })
	words = append(words, userWords(address)...)
	for _, values := range header {
		words = append(words, strings.Fields(strings.Join(values, " "))...)
	}
	var texts []string
	for _, word := range words {
		plain, _ := url.QueryUnescape(word)
		texts = append(texts, word, plain, url.QueryEscape(word), strings.ReplaceAll(word, "/", `\/`), strings.ReplaceAll(word, "/", `\\/`))
	}
	texts = slices.DeleteFunc(texts, func(text string) bool { return len(text) < 12 })
	// The longest is first, because a replacer prefers the first: one may begin another.
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var s secrets
	var pairs []string
	for _, text := range slices.Compact(texts) {
		pairs = append(pairs, text, "[key]")
		s.forms = append(s.forms, formOf(text))
	}
	s.whole = strings.NewReplacer(pairs...)
	return s
}

// userWords returns the user name and the password in a URL: raw, decoded, as package url
// writes them, and as package http sends them. An invalid URL may lack the end of its
// host; then all before the last @ counts.
func userWords(address string) []string {
	_, authority, ok := strings.Cut(address, "//")
	if !ok {
		authority = address // a missing scheme is an error that quotes it
	}
	u, err := url.Parse(address)
	if end := strings.IndexAny(authority, "/?#"); err == nil && end >= 0 {
		authority = authority[:end]
	}
	raw := authority[:max(strings.LastIndex(authority, "@"), 0)]
	name, password, _ := strings.Cut(raw, ":")
	words := []string{name, password}
	if err == nil && u.User != nil {
		name, password, _ = strings.Cut(u.User.String(), ":")
		words = append(words, name, password, u.User.Username())
		plain, _ := u.User.Password()
		words = append(words, plain, base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+plain)))
	}
	return words
}

// A form is the text of a secret. An error that quotes a long text cuts it: a secret at
// the cut has lost its end, and "..." follows its beginning.
type form struct {
	text string
	back []int // by n: the length of the longest shorter beginning that ends text[:n]
}

func formOf(text string) form {
	f := form{text, make([]int, 2, len(text)+1)}
	for n := 1; n < len(text); n++ {
		f.back = append(f.back, f.next(f.back[n], text[n]))
	}
	return f
}

// next returns the length of the longest beginning of f that ends at c. The one that ends
// before c has n bytes.
func (f form) next(n int, c byte) int {
	for n == len(f.text) || n > 0 && f.text[n] != c {
		n = f.back[n]
	}
	if f.text[n] == c {
		n++
	}
	return n
}

// replace replaces secrets in a text. Its cost grows with the text, not with the square
// of the secrets.
func (s secrets) replace(text string) string {
	text = s.whole.Replace(text)
	var clean strings.Builder
	end, lengths := 0, make([]int, len(s.forms)) // of the beginnings that end at i
	for i := range len(text) {
		longest := 0
		for k, f := range s.forms {
			lengths[k] = f.next(lengths[k], text[i])
			longest = max(longest, lengths[k])
		}
		if longest > 3 && strings.HasPrefix(text[i+1:], "...") {
			clean.WriteString(text[end:max(end, i+1-longest)] + "[key]")
			end = i + 1
		}
	}
	return clean.String() + text[end:]
}

// redact returns an error without secrets.
func (s secrets) redact(err error) error {
	if refusal, ok := errors.AsType[*wire.APIError](err); ok {
		clean := *refusal
		for _, field := range []*string{&clean.Type, &clean.Code, &clean.Param, &clean.Message, &clean.RequestID} {
			*field = s.replace(*field)
		}
		return &clean
	}
	return fmt.Errorf("httpclient: %w", s.clean(err))
}

// clean removes secrets from an error and the errors that it wraps.
func (s secrets) clean(err error) error {
	if err == nil {
		return nil
	}
	text := s.replace(err.Error())
	if text == err.Error() {
		return err
	}
	switch e := err.(type) { //nolint:errorlint // the wrapped ones follow
	case *url.Error:
		return &url.Error{Op: e.Op, URL: s.replace(e.URL), Err: s.clean(e.Err)}
	case interface{ Unwrap() []error }:
		var parts []error
		for _, part := range e.Unwrap() {
			parts = append(parts, s.clean(part))
		}
		return &cleanError{text, errors.Join(parts...)}
	}
	return &cleanError{text, s.clean(errors.Unwrap(err))}
}

// A cleanError replaces an error that contained a secret.
type cleanError struct {
	text string
	err  error
}

func (e *cleanError) Error() string { return e.text }
func (e *cleanError) Unwrap() error { return e.err }
