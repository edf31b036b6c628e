package soak_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// call adds a call of a tool and its result to the running step.
func (t *turnMaker) call(name string, input map[string]any, text string, more ...transcript.Block) {
	s := t.step()
	id := fmt.Sprintf("toolu_%d_%d_%d", t.N, len(t.Steps), len(s.Calls))
	raw, _ := json.Marshal(input) // strings can be written
	s.Calls = append(s.Calls, transcript.ToolCallBlock{ID: id, Name: name, Input: raw})
	result := transcript.ToolResult(id, text)
	switch {
	case strings.HasPrefix(text, "error: "):
		result = transcript.ToolError(id, text)
	case len(more) > 0:
		r := result.Content[0].(transcript.ToolResultBlock)
		result.Content[0] = r.WithContent(append([]transcript.Block{transcript.TextBlock{Text: text}}, more...)...)
	}
	s.Results = append(s.Results, result)
}

// useTool adds one call of a coding agent.
func (t *turnMaker) useTool() {
	switch n := t.IntN(100); {
	case n < 40:
		t.readFile()
	case n < 60:
		t.grep()
	case n < 75:
		t.test()
	case n < 94:
		t.edit()
	default:
		t.fetch()
	}
}

// path is one of the files of the project.
func (t *turnMaker) path() string {
	return fmt.Sprintf("internal/%s/%s.go", t.project, english.words[t.IntN(len(english.words))])
}

func (t *turnMaker) readFile() {
	path, place := t.path(), inInput
	if t.one(25) {
		path = t.fact(factPath, place).Text
	}
	lines := 5 + t.IntN(60)
	switch {
	case t.one(400):
		lines = t.window/11 + t.IntN(t.window/30) // about as large as the window, or larger
	case t.one(20):
		lines = 150 + t.IntN(250)
	}
	text := t.source(lines)
	if t.one(30) {
		text = "// " + t.plant(t.mark(), inResult) + "\n" + text
	}
	t.call("read", map[string]any{"path": path}, text)
}

func (t *turnMaker) grep() {
	var sb strings.Builder
	for range 2 + t.IntN(50) {
		fmt.Fprintf(&sb, "%s:%d: %s\n", t.path(), 1+t.IntN(900), t.codeLine())
	}
	if t.one(30) {
		sb.WriteString(t.plant(factPath, inResult) + "\n")
	}
	t.call("grep", map[string]any{"pattern": english.words[t.IntN(len(english.words))], "path": "internal"}, sb.String())
}

func (t *turnMaker) test() {
	input := map[string]any{"package": "./internal/" + t.project}
	if !t.one(3) {
		t.call("test", input, fmt.Sprintf("ok  \tinternal/%s\t%d.%03ds\n", t.project, t.IntN(9), t.IntN(1000)))
		return
	}
	text := "error: exit status 1\n"
	if t.one(4) {
		text = t.plant(t.mark(), inError) + "\n"
	}
	for range 1 + t.IntN(25) {
		text += fmt.Sprintf("--- FAIL: Test%s (0.0%ds)\n    %s:%d: %s\n", t.project, t.IntN(9), t.path(), t.IntN(900), t.codeLine())
	}
	t.call("test", input, text)
}

func (t *turnMaker) edit() {
	path := t.path()
	if t.one(8) {
		path = t.fact(factPath, inChange).Text
	}
	t.call("edit", map[string]any{"path": path, "old_string": t.source(1 + t.IntN(6)), "new_string": t.source(1 + t.IntN(12))}, "edited")
}

func (t *turnMaker) fetch() {
	input := map[string]any{"url": "https://pages.example/" + t.project}
	switch t.IntN(3) {
	case 0:
		t.call("fetch", input, "an image", t.image())
	case 1:
		data := make([]byte, 200+t.IntN(6_000))
		for i := range data {
			data[i] = byte(t.Uint32())
		}
		t.call("fetch", input, base64.StdEncoding.EncodeToString(data))
	default:
		s := &scripts[t.IntN(len(scripts))]
		t.call("fetch", input, s.text(t.Rand, 5+t.IntN(60)))
	}
}

// image is the head of a PNG, from which its size can be read.
func (t *turnMaker) image() transcript.Block {
	data := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR")
	data = binary.BigEndian.AppendUint32(data, uint32(100+t.IntN(1400)))
	data = binary.BigEndian.AppendUint32(data, uint32(100+t.IntN(1400)))
	data = append(data, 8, 6, 0, 0, 0, 0, 0, 0, 0)
	return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(data)}}
}

// source returns lines of a program.
func (t *turnMaker) source(lines int) string {
	var sb strings.Builder
	for range lines {
		sb.WriteString(t.codeLine())
		sb.WriteByte('\n')
	}
	return sb.String()
}

func (t *turnMaker) codeLine() string {
	w := func() string { return english.words[t.IntN(len(english.words))] }
	switch t.IntN(5) {
	case 0:
		return fmt.Sprintf("\tif %s.%s != %d {", w(), w(), t.IntN(100))
	case 1:
		return fmt.Sprintf("\t\treturn fmt.Errorf(\"%s the %s: %%w\", err)", w(), w())
	case 2:
		return "\t}"
	case 3:
		return fmt.Sprintf("\t%s := %s(%s, %s[%d:])", w(), w(), w(), w(), t.IntN(10))
	default:
		return fmt.Sprintf("\t// %s", english.sentence(t.Rand))
	}
}
