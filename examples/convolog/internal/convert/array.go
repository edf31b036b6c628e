package convert

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect"
)

// readers read the arrays of providers.
var readers = map[string]func([]byte) ([]transcript.Item, error){
	"openai-chat": openaichat.Messages, "anthropic": anthropic.Messages, "openai-responses": openairesponses.Items,
	"gemini": gemini.Contents, "bedrock": bedrock.Messages,
}

// An array is a file with the array of a provider, as a source of an import.
type array struct {
	info    dialect.Session
	records []transcript.Record
}

// Info implements [exchange.Source].
func (a array) Info() dialect.Session { return a.info }

// Records implements [exchange.Source].
func (a array) Records() iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		if a.info.Err != nil {
			yield(transcript.Record{}, a.info.Err)
			return
		}
		for _, rec := range a.records {
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// Names holds the IDs of the arrays of earlier arguments. The ID of an array is the name
// of its file, so two files of one name are two sources.
type Names map[string]bool

// Distinct yields the sessions of the next argument. Arrays whose ID is taken get another.
func (n Names) Distinct(sessions iter.Seq[exchange.Source]) iter.Seq[exchange.Source] {
	earlier := maps.Clone(n)
	return func(yield func(exchange.Source) bool) {
		for s := range sessions {
			if a, ok := s.(array); ok {
				id := a.info.ID
				for i := 2; earlier[a.info.ID]; i++ {
					a.info.ID = fmt.Sprintf("%s-%d", id, i)
				}
				n[a.info.ID], s = true, a
			}
			if !yield(s) {
				return
			}
		}
	}
}

// readArray reads a file that has the form from, or any form if that is empty.
func readArray(name, file, from string) (a array, err error) {
	info, err := os.Stat(file)
	if err != nil {
		return a, err
	}
	if !info.Mode().IsRegular() {
		return a, errors.New("it is not a regular file")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return a, err
	}
	a.info = dialect.Session{
		Dialect: dialect.Dialect(from), Path: name, ID: strings.TrimSuffix(path.Base(name), path.Ext(name)),
		Created: info.ModTime(), Updated: info.ModTime(),
	}
	if from == "" {
		found, err := detect(data)
		if err != nil {
			return a, err
		}
		a.info.Dialect = dialect.Dialect(found)
	}
	items, err := readers[string(a.info.Dialect)](data)
	if err != nil && !hasMessage(data) {
		err = fmt.Errorf("%w: %w", errNoMessage, err)
	}
	if err != nil {
		return a, err
	}
	entries, err := entriesOf(items)
	for _, e := range entries {
		if _, said := e.Body.(transcript.MessageLine); said {
			a.info.Messages++
		}
		a.records = append(a.records, transcript.Record{Entry: e})
	}
	return a, err
}

// entriesOf returns the entries of items, each a batch of its own. Their IDs are not valid
// ones of a session, so an import makes others.
func entriesOf(items []transcript.Item) (all []transcript.Entry, err error) {
	n := 0
	for i, item := range items {
		entries, err := transcript.NewBatch(time.Time{}, func() string { n++; return "@" + strconv.Itoa(n) }, item)
		if err != nil {
			return all, fmt.Errorf("message %d: %w", i+1, err)
		}
		all = append(all, entries...)
	}
	return all, nil
}

// forms are the forms of arrays, the most common first.
var forms = []string{"openai-chat", "anthropic", "openai-responses", "gemini", "bedrock"}

var errNoMessage = errors.New("not the array of a provider: no element looks like a message")

// detect returns the form of an array: the one whose reader understands most of it, or
// the first of those that read the same, as plain texts do.
func detect(data []byte) (string, error) {
	if !hasMessage(data) {
		return "", fmt.Errorf("%w; name the format with --from if it is one", errNoMessage)
	}
	var best []string // forms
	var bestRead []string
	bestStrange := 0
	var problems []string
	for _, form := range forms {
		items, err := readers[form](data)
		entries, entriesErr := entriesOf(items)
		if err = cmp.Or(err, entriesErr); err != nil || len(entries) == 0 {
			problems = append(problems, fmt.Sprintf("%s: %v", form, err))
			continue
		}
		read, strange := understood(entries)
		switch {
		case len(best) == 0, strange < bestStrange, strange == bestStrange && len(read) > len(bestRead):
			best, bestRead, bestStrange = []string{form}, read, strange
		case strange > bestStrange || len(read) < len(bestRead):
		case !slices.Equal(read, bestRead):
			best = append(best, form)
		}
	}
	switch len(best) {
	case 0:
		return "", fmt.Errorf("not the array of a provider (%s)", strings.Join(problems, "; "))
	case 1:
		return best[0], nil
	}
	return "", fmt.Errorf("it may have any of the formats %s: name one with --from", strings.Join(best, ", "))
}

// hasMessage reports whether an element of an array, or of a list in an object, is an
// object as providers send it. Many other files hold lists of texts.
func hasMessage(data []byte) bool {
	var list []json.RawMessage
	var request map[string]json.RawMessage
	if json.Unmarshal(data, &list) != nil && json.Unmarshal(data, &request) == nil {
		for _, name := range []string{"messages", "input", "contents"} {
			var more []json.RawMessage
			_ = json.Unmarshal(request[name], &more)
			list = append(list, more...)
		}
	}
	return slices.ContainsFunc(list, func(element json.RawMessage) bool {
		var e struct{ Role, Type string }
		return json.Unmarshal(element, &e) == nil && (e.Role != "" || slices.Contains([]string{"message", "reasoning", "function_call", "function_call_output"}, e.Type))
	})
}

// understood describes entries without data for one API, and counts the blocks and the
// members that the reader has not understood.
func understood(entries []transcript.Entry) (read []string, strange int) {
	var describe func(blocks []transcript.Block)
	add := func(parts ...string) { read = append(read, strings.Join(parts, " ")) }
	describe = func(blocks []transcript.Block) {
		for _, b := range blocks {
			switch b := b.(type) {
			case transcript.TextBlock:
				add("text", b.Text)
			case transcript.ToolCallBlock:
				add("call", b.ID, b.Name, string(b.Input))
			case transcript.ToolResultBlock:
				add("result", b.CallID, strconv.FormatBool(b.IsError))
				describe(b.Content)
			case transcript.RawBlock:
				strange++
				add(string(b.JSON))
			default:
				add(string(transcript.MarshalBlock(b)))
			}
		}
	}
	for _, e := range entries {
		if e.App != nil {
			strange++
		}
		switch b := e.Body.(type) {
		case transcript.MessageLine:
			add(b.Kind)
			describe(b.Content)
		case transcript.System:
			add("system", b.Text)
		default:
			add(e.Type())
		}
	}
	return read, strange
}
