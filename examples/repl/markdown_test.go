package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const sample = "# A title that is a little longer than the line\n\n" +
	"Some **bold words**, *slanted* ones and `code with spaces`; 2 * 3 * 4, snake*case*d and *args stay.\n" +
	"See https://example.com/a/very/long/path/that/is/longer/than/the/line for more.\n\n" +
	"- an item that is longer than the line it is on\n  1. a nested one that is longer than the line too\n\n" +
	"> a quotation that is longer than the line\n\n" +
	"```go\nfunc main() { fmt.Println(\"**not bold**, longer than the line\") }\n```\n\n" +
	"    indented code that is longer than the line\n\n" +
	"| a | table | that is longer | than the line |\n" +
	"|---|---|---|---|\n" +
	"---\nund schließlich 日本語 und das **offene Ende"

func render(text string, width int, color bool, piece int) string {
	m := markdown{flow: flow{width: width}, color: color}
	var out strings.Builder
	for runes := []rune(text); len(runes) > 0; {
		n := min(piece, len(runes))
		out.WriteString(m.feed(string(runes[:n])))
		runes = runes[n:]
	}
	return out.String() + m.flush()
}

func TestMarkdown(t *testing.T) {
	want := bold + "A" + plain + " " + bold + "title" + plain + " " + bold + "that" + plain + " " + bold + "is" + plain + " " +
		bold + "a" + plain + "\n" + bold + "little" + plain
	got := render(sample, 20, true, len(sample))
	require.True(t, strings.HasPrefix(got, want), "%q", got)
	contains(t, got, bold+"bold"+plain+" "+bold+"words"+plain+",", italic+"slanted"+plain, cyan+"code"+plain,
		"2\n* 3 * 4", "snake*case*d", "*args", "\nhttps://example.com/a/very/long/path/that/is/longer/than/the/line for more.\n",
		cyan+"-"+plain+" an item that is\n  longer", cyan+"1."+plain+" a nested one\n     that", "\n> is longer",
		`{ fmt.Println("**not bold**, longer than the line") }`, "    indented code that is longer than the line\n",
		"| a | table | that is longer | than the line |\n", "---\n", "**offene")
	require.Equal(t, sample, render(sample, 0, false, 7))
}

// The pieces of an answer do not matter, and without colour only spaces at the
// ends of lines are lost.
func TestMarkdownPieces(t *testing.T) {
	for _, width := range []int{0, 10, 34, 80} {
		for _, color := range []bool{false, true} {
			want := render(sample, width, color, len(sample))
			for piece := 1; piece < 20; piece++ {
				require.Equal(t, want, render(sample, width, color, piece), "width %d, pieces of %d", width, piece)
			}
			if !color {
				words := strings.Fields(strings.ReplaceAll(want, "\n> ", " "))
				require.Equal(t, strings.Fields(strings.ReplaceAll(sample, "\n> ", " ")), words, "width %d", width)
			}
		}
	}
}

// Without colour, only spaces change. With it, only styles are added.
func FuzzMarkdown(f *testing.F) {
	f.Add(sample, 34)
	f.Add("* *\n**`*`** ``` \xe2\n~~~\n1. 2) >", 3)
	f.Fuzz(func(t *testing.T, text string, width int) {
		text, width = clean(strings.ToValidUTF8(text, "?")), max(1, width%100)
		if strings.Contains(text, ">") {
			return // the mark of a quotation is on each of its lines
		}
		squeeze := func(s string) string { return strings.Join(strings.Fields(s), "") }
		require.Equal(t, squeeze(text), squeeze(render(text, width, false, 3)))
		require.LessOrEqual(t, len(squeeze(escapeSequence.ReplaceAllString(render(text, width, true, 3), ""))), len(squeeze(text)))
	})
}

func TestWrap(t *testing.T) {
	require.Equal(t, "  one two\n    three\n    3456789012345 four\nfive", wrap("  one two three 3456789012345 four\nfive", 11, "    "))
	require.Equal(t, "日本 a\n語", wrap("日本 a 語", 6, ""))
	require.Equal(t, "a  b", wrap("a  b", 0, "  "))
	require.Equal(t, "no [31mescape", clean("no \x1b[31mescape\r\u009b"))
}

var escapeSequence = regexp.MustCompile("\x1b\\[[0-9;?]*[a-zA-Z]")
