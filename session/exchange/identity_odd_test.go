package exchange_test

import (
	"fmt"
	"testing"

	"github.com/convolog/convolog/transcript"
)

// Calls and results that a program cannot write unchanged come back as the same session.
func TestImportBackOfOddCalls(t *testing.T) {
	text := func(s string) []transcript.Block { return []transcript.Block{transcript.TextBlock{Text: s}} }
	media := append(text("see"), picture(3).Content...)
	for n, odd := range []struct {
		input   string
		result  []transcript.Block
		isError bool
	}{
		{``, nil, false},
		{`{}`, text(""), false},
		{`{"p":"a","c":"x`, text("broken"), true},
		{`"text"`, text(" a\n\tb "), false},
		{`[1,2]`, text("a\n\nb"), false},
		{`null`, append(text("a"), text("b")...), false},
		{`{"n":12345678901234567890,"f":1.50e3}`, media, false},
		{`{"s":"\ud800"}`, text("\x1b[0m \u0085"), true},
		{`{"b":1, "a":{"d":2,"c":"<é>"}}`, picture(4).Content, true},
		{`{"a":1,"a":2}`, []transcript.Block{transcript.ContextBlock{URI: "viking://resources/a/", Kind: "resource", Abstract: "A guide"}}, false},
	} {
		st := inMemory()
		s := load(t, st)
		add(t, s, transcript.UserText("go"))
		add(t, s, transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
			transcript.ToolCallBlock{ID: "a/1", Name: "my tool", Input: []byte(odd.input)}, transcript.ToolCallBlock{ID: "a/2", Name: "other", Input: []byte(`{}`)},
		}})
		add(t, s, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
			transcript.ToolResultBlock{CallID: "a/2", Content: text("second")}, transcript.ToolResultBlock{CallID: "a/1", Content: odd.result, IsError: odd.isError},
		}})
		add(t, s, transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "a/3", Name: "open", Input: []byte(`{}`)}}})
		add(t, s, transcript.UserText("never mind"))
		t.Run(fmt.Sprint(n), func(t *testing.T) { addsNothing(t, st, fmt.Sprint(n), 0) })
	}
}
