package httpclient

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/convolog/convolog/rebuild/wire"
)

// secrets replaces secrets in texts.
type secrets struct{ *strings.Replacer }

// secretsOf returns the long words of a header and of the query of address, in each form
// in which an error may quote them. An error that quotes a long text cuts it: a secret at
// the cut has lost its end.
func secretsOf(address string, header http.Header) secrets {
	_, query, _ := strings.Cut(address, "?")
	words := strings.FieldsFunc(query, func(r rune) bool { return strings.ContainsRune("&=#", r) })
	for _, values := range header {
		words = append(words, strings.Fields(strings.Join(values, " "))...)
	}
	var whole, cut []string
	for _, word := range words {
		plain, _ := url.QueryUnescape(word)
		for _, form := range []string{word, plain, url.QueryEscape(word), strings.ReplaceAll(word, "/", `\/`), strings.ReplaceAll(word, "/", `\\/`)} {
			if len(form) < 12 {
				continue
			}
			whole = append(whole, form, "[key]")
			for n := len(form) - 1; n > 3; n-- {
				cut = append(cut, form[:n]+"...", "[key]...")
			}
		}
	}
	return secrets{strings.NewReplacer(append(whole, cut...)...)}
}

// redact returns an error without secrets.
func (s secrets) redact(err error) error {
	if refusal, ok := errors.AsType[*wire.APIError](err); ok {
		clean := *refusal
		for _, field := range []*string{&clean.Type, &clean.Code, &clean.Param, &clean.Message, &clean.RequestID} {
			*field = s.Replace(*field)
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
	text := s.Replace(err.Error())
	if text == err.Error() {
		return err
	}
	if e, ok := err.(*url.Error); ok { //nolint:errorlint // the wrapped ones follow
		return &url.Error{Op: e.Op, URL: s.Replace(e.URL), Err: s.clean(e.Err)}
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
