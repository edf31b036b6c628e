package exchange

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// Markdown writes the session for people to read: as CommonMark with the
// details element of HTML. It contains the whole conversation, repaired and
// without rewound and hidden entries, each summary where it was made. Texts are block
// quotes, which close open constructs, and HTML in them is shown as text.
// Calls, results and reasoning are folded away, in fences longer than any in
// their content. Images and documents are named with their type and size.
// Control characters are shown as their pictures.
func Markdown(ctx context.Context, s *session.Session, w io.Writer) (err error) {
	defer audit(ctx, s, &err)
	entries, lost, err := conversation(ctx, s)
	if err != nil {
		return err
	}
	m := markdown{bufio.NewWriter(w)}
	info, err := redactedInfo(ctx, s)
	if err != nil {
		return err
	}
	m.line("# " + inline(cmp.Or(info.Title, "Session "+info.ID)))
	m.line("")
	m.line("- Session: " + inline(info.ID))
	m.line("- Key: " + inline(info.Key))
	if !info.CreatedAt.IsZero() {
		m.line("- Created: " + info.CreatedAt.UTC().Format(time.RFC3339))
	}
	if n := lost["hidden"]; n > 0 {
		m.line(fmt.Sprintf("- Hidden entries: %d", n))
	}
	for i, label := range info.Labels {
		if i == 0 {
			m.line("- Labels:")
		}
		m.line("  - " + inline(label))
	}
	for e, err := range exported(ctx, s, entries) {
		if err != nil {
			return failed(s, err)
		}
		m.entry(e)
	}
	return failed(s, m.Flush())
}

// A markdown writes a document. Flush returns the first error.
type markdown struct{ *bufio.Writer }

func (m markdown) line(text string) {
	_, _ = m.WriteString(strings.Map(visible, text) + "\n") // Flush returns the error
}

// visible returns the picture of a control character, which would be a command
// to the terminal that shows the document.
func visible(r rune) rune {
	switch {
	case r == '\n' || r == '\t' || !unicode.IsControl(r):
		return r
	case r < ' ':
		return '\u2400' + r
	case r == 0x7f:
		return '\u2421'
	}
	return '\uFFFD'
}

func (m markdown) entry(e transcript.Entry) {
	switch b := e.Body.(type) {
	case transcript.Compaction:
		m.heading("Summary of the above", e.Time)
		m.text(b.Summary)
	case transcript.System:
		m.heading("System prompt", e.Time)
		m.text(b.Text)
	case transcript.Tools:
		m.heading("Tools that may be called", e.Time)
		m.text(cmp.Or(strings.Join(b.Names, ", "), "none"))
	case transcript.MessageLine:
		title := "Assistant"
		if b.Role == transcript.RoleUser {
			title = "User"
			if _, isResult := b.Content[0].(transcript.ToolResultBlock); isResult {
				title = "Tool"
			}
		}
		m.heading(title, e.Time)
		m.blocks(b.Content)
	}
}

func (m markdown) heading(title string, at time.Time) {
	if !at.IsZero() {
		title += " · " + at.UTC().Format("2006-01-02 15:04:05Z")
	}
	m.line("\n## " + title)
}

func (m markdown) blocks(blocks []transcript.Block) {
	for _, b := range blocks {
		switch b := b.(type) {
		case transcript.TextBlock:
			m.text(b.Text)
		case transcript.ToolCallBlock:
			m.folded("Call of "+b.Name, b.ID, "json", indented(b.Input))
		case transcript.ToolResultBlock:
			m.result(b)
		case transcript.ThinkingBlock:
			m.folded("Reasoning", "", "text", b.Thinking)
		case transcript.RedactedThinkingBlock:
			m.remark("reasoning that only its model can read")
		case transcript.ImageBlock:
			m.remark(source("image", b.Source))
		case transcript.DocumentBlock:
			m.remark(source("document", b.Source))
		default:
			m.folded("Other content", "", "json", indented(transcript.MarshalBlock(b)))
		}
	}
}

func (m markdown) result(r transcript.ToolResultBlock) {
	title := "Result"
	if r.IsError {
		title = "Error"
	}
	if text := r.Text(); text != "" || len(r.Content) == 0 {
		m.folded(title, r.CallID, "text", text)
	}
	m.blocks(slices.DeleteFunc(slices.Clone(r.Content), func(b transcript.Block) bool {
		_, isText := b.(transcript.TextBlock)
		return isText
	}))
}

func (m markdown) remark(text string) { m.line("\n*[" + inline(text) + "]*") }

// source describes an image or a document without its bytes.
func source(kind string, s transcript.Source) string {
	text := kind
	if s.MediaType != "" {
		text += ", " + s.MediaType
	}
	switch {
	case s.Type == "blob":
		text += fmt.Sprintf(", %d bytes", s.Blob.Bytes)
	case s.Data != "" && s.Type == "base64":
		text += fmt.Sprintf(", %d bytes", len(strings.TrimRight(s.Data, "="))*3/4)
	case s.Data != "":
		text += fmt.Sprintf(", %d bytes", len(s.Data))
	case s.URL != "":
		text += ", " + s.URL
	case s.FileID != "":
		text += ", file " + s.FileID
	}
	return text
}

func (m markdown) folded(title, id, language, content string) {
	if id != "" {
		title += " (" + id + ")"
	}
	fence := "```"
	for strings.Contains(content, fence) {
		fence += "`"
	}
	m.line("\n<details><summary>" + inElement(title) + "</summary>\n")
	m.line(fence + language)
	if content != "" {
		m.line(strings.TrimSuffix(oneBreak.Replace(content), "\n"))
	}
	m.line(fence + "\n\n</details>")
}

// text writes a text as a block quote. Outside of code, no tag begins in it.
func (m markdown) text(text string) {
	m.line("")
	fence := ""   // that a line has opened
	open := false // code that no line of the paragraph has closed so far
	for line := range strings.SplitSeq(oneBreak.Replace(strings.TrimRight(text, "\r\n")), "\n") {
		switch mark := fenceOf(line); {
		case fence == "" && mark != "":
			fence = mark
		case fence == "":
			open = open && strings.TrimSpace(line) != ""
			line, open = escapeHTML(line, open)
		case strings.HasPrefix(mark, fence) && strings.Trim(line, mark[:1]+" \t") == "":
			fence = ""
		}
		if line != "" {
			line = " " + line
		}
		m.line(">" + line)
	}
}

// oneBreak turns all line breaks of Markdown into \n.
var oneBreak = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// fenceOf returns the marks that a line begins with if it opens a fence or
// could close one. An indented fence counts as none, so its content is escaped
// too much rather than too little.
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		rest := strings.TrimLeft(line, c)
		if n := len(line) - len(rest); n >= 3 && (c == "~" || !strings.Contains(rest, c)) {
			return line[:n]
		}
	}
	return ""
}

// escapeHTML returns a line in which no tag begins outside of code, and whether
// code is open at its end. If code is open at its start, or cells of a table
// could split code, nothing in the line counts as code.
func escapeHTML(line string, open bool) (string, bool) {
	noCode := open || strings.Contains(line, "|")
	var sb strings.Builder
	for {
		i := strings.IndexAny(line, "`<\\")
		if i < 0 {
			return sb.String() + line, open
		}
		sb.WriteString(line[:i])
		line = line[i:]
		n := 1
		switch line[0] {
		case '<':
			sb.WriteByte('\\')
		case '\\':
			if strings.HasPrefix(line, `\<`) {
				sb.WriteByte('\\') // or it would undo the next one
			} else {
				n = min(2, len(line))
			}
		default:
			n = len(line) - len(strings.TrimLeft(line, "`"))
			end := codeEnd(line[n:], n)
			open = open || end == 0
			if !noCode {
				n += end
			}
		}
		sb.WriteString(line[:n])
		line = line[n:]
	}
}

// codeEnd returns the end of code that this number of marks has opened before
// text: after the next run of as many marks; 0 if the line does not close it.
func codeEnd(text string, marks int) int {
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '`')
		if i < 0 {
			return 0
		}
		at += i
		run := len(text[at:]) - len(strings.TrimLeft(text[at:], "`"))
		if at += run; run == marks {
			return at
		}
	}
}

// inline returns text on one line, without meaning for Markdown or HTML.
func inline(text string) string {
	var sb strings.Builder
	for _, r := range strings.Join(strings.Fields(text), " ") {
		if strings.ContainsRune("\\`*_[]<>&#|~!", r) {
			sb.WriteByte('\\')
		}
		sb.WriteRune(r)
	}
	return sb.String()
}

// inElement returns text on one line inside of an HTML element.
func inElement(text string) string { return html.EscapeString(strings.Join(strings.Fields(text), " ")) }

func indented(v []byte) string {
	var buf bytes.Buffer
	if json.Indent(&buf, v, "", "  ") != nil {
		return string(v)
	}
	return buf.String()
}
