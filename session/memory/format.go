package memory

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"
)

// The lines that give a file its structure. In a text such a line gets a
// backslash, which Markdown hides.
const (
	overviewMark = "## Overview"
	contentMark  = "## Content"
	commentOpen  = "<!-- memory "
	commentClose = " -->"
)

// about is the comment at the end of a file.
type about struct {
	ID          string    `json:"id"`
	Topic       string    `json:"topic,omitempty"`
	Instruction bool      `json:"instruction,omitempty"`
	Edited      bool      `json:"edited,omitempty"`
	Sources     []Source  `json:"sources,omitempty"`
	Created     time.Time `json:"created,omitzero"`
	Updated     time.Time `json:"updated,omitzero"`
	Hash        string    `json:"hash"` // of the text that the store wrote
}

// normal returns the text as a file would return it.
func (t Text) normal() Text {
	return Text{oneLine(t.Abstract), normalLines(t.Overview), normalLines(t.Content)}
}

func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")
}

func normalLines(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
	s = strings.TrimRight(s, " \t\n")
	for {
		first, rest, more := strings.Cut(s, "\n")
		if !more || strings.Trim(first, " \t") != "" {
			return s
		}
		s = rest
	}
}

// hash is equal for equal texts.
func (t Text) hash() string {
	data, _ := json.Marshal(t) // of strings
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (t Text) size() int { return len(t.Abstract) + len(t.Overview) + len(t.Content) }

// format returns the file of a memory. The hash takes its text for the store's, so
// only a member of the comment keeps that a memory was Edited.
func (m Memory) format() []byte {
	t := m.normal()
	var b bytes.Buffer
	b.WriteString(escape(t.Abstract) + "\n")
	for _, part := range []struct{ mark, text string }{{overviewMark, t.Overview}, {contentMark, t.Content}} {
		if part.text != "" {
			b.WriteString("\n" + part.mark + "\n\n" + escape(part.text) + "\n")
		}
	}
	data, _ := json.Marshal(about{ // of strings and times; it escapes the end of a comment
		ID: m.ID, Topic: m.Topic, Instruction: m.Instruction, Edited: m.Edited,
		Sources: m.Sources, Created: m.Created, Updated: m.Updated, Hash: t.hash(),
	})
	b.WriteString("\n" + commentOpen + string(data) + commentClose + "\n")
	return b.Bytes()
}

// parse reads a file. It accepts all edits of a person: without the comment the ID
// is derived from the name of the file, and without the marks everything after the
// first line is content.
func parse(file string, data []byte) Memory {
	lines := strings.Split(normalLines(string(bytes.TrimPrefix(data, []byte("\uFEFF")))), "\n")
	a := cutComment(&lines)
	m := Memory{
		ID: a.ID, Topic: a.Topic, Instruction: a.Instruction, Sources: a.Sources, Created: a.Created, Updated: a.Updated,
		Name: nameOf(path.Base(file)), Text: parseText(lines), file: file,
	}
	m.Edited = a.Edited || m.hash() != a.Hash
	m.ID = cmp.Or(m.ID, fileID(file))
	return m
}

// fileID is the ID of a memory that a person wrote.
func fileID(file string) string {
	sum := sha256.Sum256([]byte(file))
	return "file-" + hex.EncodeToString(sum[:8])
}

// cutComment removes the last comment from the lines.
func cutComment(lines *[]string) (a about) {
	for i, line := range slices.Backward(*lines) {
		body, ok := strings.CutPrefix(strings.TrimRight(line, " \t"), commentOpen)
		if !ok {
			continue
		}
		body, ok = strings.CutSuffix(body, "-->")
		if !ok || json.Unmarshal([]byte(body), &a) != nil {
			return about{}
		}
		*lines = slices.Delete(slices.Clone(*lines), i, i+1)
		return a
	}
	return a
}

func parseText(lines []string) (t Text) {
	var parts [3][]string // abstract, overview, content
	at := 0
	for _, line := range lines {
		mark := strings.TrimRight(line, " \t")
		loose := at < 2 && blank(parts[2])
		switch {
		case loose && at == 0 && mark == overviewMark:
			at = 1
		case loose && mark == contentMark:
			at = 2
		case at == 0 && (len(parts[0]) > 0 || mark == ""):
			if len(parts[0]) > 0 {
				parts[2] = append(parts[2], unescape(line))
			}
		default:
			parts[at] = append(parts[at], unescape(line))
		}
	}
	return Text{strings.Join(parts[0], " "), strings.Join(parts[1], "\n"), strings.Join(parts[2], "\n")}.normal()
}

func blank(lines []string) bool {
	return !slices.ContainsFunc(lines, func(l string) bool { return strings.TrimSpace(l) != "" })
}

// isMark reports whether a line is a structural line of a file, after any
// number of backslashes.
func isMark(line string) bool {
	line = strings.TrimLeft(line, `\`)
	mark := strings.TrimRight(line, " \t")
	return mark == overviewMark || mark == contentMark || strings.HasPrefix(line, commentOpen)
}

func escape(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if isMark(line) {
			lines[i] = `\` + line
		}
	}
	return strings.Join(lines, "\n")
}

func unescape(line string) string {
	if rest, ok := strings.CutPrefix(line, `\`); ok && isMark(rest) {
		return rest
	}
	return line
}

// orderSources sorts the sources and drops duplicates.
func orderSources(s []Source) []Source {
	s = slices.Clone(s)
	slices.SortFunc(s, func(a, b Source) int { return cmp.Compare(a.Commit, b.Commit) })
	return slices.Compact(s)
}
