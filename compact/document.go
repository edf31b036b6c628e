package compact

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
	"github.com/convolog/convolog/transcript/tokens"
)

// A Document writes messages as one plain text, for a summarizer. In such a
// text a model finds nothing to continue and no call to pair. The zero value is
// ready to use.
//
// Each block begins on a new line with a mark. Only marks begin a line with a
// bracket: other lines with one are indented.
//
//	[user]: Why does the build fail?
//	[assistant called read]: {"path":"Makefile"}
//	[tool_result]: all: build
//	[assistant]: It has no target for the tests.
//
// Images, documents and blocks of unknown types are a line with their kind and
// size. Reasoning is left out. Omissions are marked with their sizes. The text
// is valid UTF-8; the same messages give the same text.
type Document struct {
	// Results is how many runes of a tool result or a call's input are written:
	// two thirds from its beginning, a third from its end. 0 means 2,000; less
	// than 0 means unlimited.
	Results int
	// Texts is the same for texts of the user and the assistant. 0 means
	// unlimited.
	Texts int
}

const (
	defaultResults = 2_000
	markEnd        = "]: "
)

// Text returns the messages as one text. It is empty without content.
func (d Document) Text(msgs []transcript.Message) string { return joined(d.parts("", msgs)) }

func countText(c tokens.Counter, text string) int {
	return c.Count("", nil, []transcript.Message{transcript.UserText(text)})
}

func joined(parts []string) string { return strings.Join(parts, "\n") }

// parts returns the blocks of a document, each with its mark and its text. An
// earlier summary comes first.
func (d Document) parts(earlier string, msgs []transcript.Message) []string {
	w := writer{results: cmp.Or(d.Results, defaultResults), texts: d.Texts}
	w.add("earlier summary", earlier, w.texts*10)
	for _, m := range msgs {
		for _, b := range m.Content {
			w.block(label(string(m.Role)), b)
		}
	}
	if w.reasoning > 0 {
		w.add("left out", fmt.Sprintf("reasoning of the assistant, %d blocks, %d runes", w.reasoning, w.reasoned), 0)
	}
	return w.parts
}

// writer collects the parts of a document.
type writer struct {
	results, texts      int // runes; unlimited if not above 0
	parts               []string
	reasoning, reasoned int // blocks and runes left out
}

// add appends a part with at most limit runes of a text that is not blank. A mark
// is short, of ASCII and without brackets.
func (w *writer) add(mark, text string, limit int) {
	text = strings.TrimSpace(strings.ToValidUTF8(text, "\uFFFD"))
	if text == "" {
		return
	}
	if limit > 0 {
		text = clip(text, limit)
	}
	w.parts = append(w.parts, "["+mark+markEnd+strings.TrimPrefix(quote.Brackets(text), "  "))
}

func (w *writer) block(who string, b transcript.Block) {
	switch b := b.(type) {
	case transcript.TextBlock:
		w.add(who, b.Text, w.texts)
	case transcript.ToolCallBlock:
		w.add(who+" called "+label(b.Name), callInput(b), w.results)
	case transcript.ToolResultBlock:
		mark := "tool_result"
		if b.IsError {
			mark += ", error"
		}
		n := len(w.parts)
		w.add(mark, b.Text(), w.results)
		for _, inner := range b.Content {
			if _, ok := inner.(transcript.TextBlock); !ok {
				w.block(mark, inner)
			}
		}
		if len(w.parts) == n {
			w.add(mark, "(no content)", 0)
		}
	case transcript.ThinkingBlock:
		w.reasoning++
		w.reasoned += utf8.RuneCountInString(b.Thinking)
	case transcript.RedactedThinkingBlock:
		w.reasoning++
		w.reasoned += utf8.RuneCountInString(b.Data)
	case transcript.ImageBlock:
		w.add(who+" image", describeSource(b.Source), w.results)
	case transcript.DocumentBlock:
		text := []string{describeSource(b.Source)}
		for _, s := range []string{b.Title, b.Context} {
			if s = oneLine(s, 200); s != "" {
				text = append(text, s)
			}
		}
		w.add(who+" document", strings.Join(text, ", "), w.results)
	case transcript.ContextBlock:
		w.add(who+" context", strings.Join(strings.Fields(b.Kind+" "+b.URI+" "+b.Abstract), " "), w.results)
	case nil:
	default:
		raw, _ := b.(transcript.RawBlock)
		w.add(who+" "+label(transcript.BlockType(b)), fmt.Sprintf("%d bytes of JSON, left out", len(raw.JSON)), 0)
	}
}

func callInput(c transcript.ToolCallBlock) string {
	input := cmp.Or(string(bytes.TrimSpace(c.Input)), "{}")
	var line bytes.Buffer
	if json.Compact(&line, []byte(input)) != nil {
		return input
	}
	return line.String()
}

func describeSource(s transcript.Source) string {
	kind := label(cmp.Or(s.MediaType, s.Type, "unknown"))
	size := len(s.Data)
	switch {
	case s.Type == "blob":
		size = s.Blob.Bytes
	case s.Type == "base64":
		size = size * 3 / 4
	case size == 0 && s.URL != "":
		return kind + " at " + oneLine(s.URL, 200)
	case size == 0 && s.FileID != "":
		return kind + ", file " + oneLine(s.FileID, 200)
	}
	return fmt.Sprintf("%s, %d bytes, left out", kind, size)
}

// label makes a name that cannot be taken for the end of a mark.
func label(s string) string {
	const limit = 64
	name := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("_-./:+", r) {
			return '_'
		}
		return r
	}, s)
	return cmp.Or(name[:min(len(name), limit)], "unknown")
}

func oneLine(s string, limit int) string {
	return clip(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " "), limit)
}

// clip shortens a text of more than n runes to its first and last ones, n in
// all, with a note between them of how many were left out.
func clip(s string, n int) string { return clipTo(s, n, max(n, 0)/3) }

// clipTo is clip with tail runes at the end.
func clipTo(s string, n, tail int) string {
	runes := []rune(s)
	gone := len(runes) - max(n, 0)
	note := fmt.Sprintf("[... %d runes left out ...]", gone)
	switch {
	case gone <= 0:
		return s
	case gone == len(runes):
		return note
	}
	return string(runes[:n-tail]) + "\n" + note + "\n" + string(runes[len(runes)-tail:])
}

// masked returns a text without secrets of well-known shapes.
func masked(text string) string { return redact.Secrets(context.Background(), text) }

// plain makes a text UTF-8, drops all control characters except tabs, and ends its
// lines with line feeds.
func plain(s string) string {
	if strings.Contains(s, "\r") {
		s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	}
	return strings.TrimSpace(words.Printable(s))
}
