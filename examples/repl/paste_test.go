package main

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestShelf(t *testing.T) {
	var s shelf
	require.Equal(t, "short", s.put("short", "pasted"))
	require.Equal(t, "a␤b", s.put("a\nb", "recalled"))
	long := s.put(strings.Repeat("x", 1001), "pasted")
	require.Equal(t, "[pasted 1: 1,001 characters]", strings.ReplaceAll(long, "\u00a0", " "))
	require.Equal(t, long, s.put(strings.Repeat("x", 1001), "recalled"))
	require.Equal(t, len(long), s.lastLength("see "+long))
	require.Equal(t, len("é"), s.lastLength(long+"é"))
	require.Zero(t, s.lastLength(""))
	require.Equal(t, "[pasted 9: x]", s.expand("[pasted 9: x]"))
}

// Every stored text comes back, and its chip can be edited.
func FuzzShelf(f *testing.F) {
	for _, text := range []string{"", "a\nb\nc\nd", "\t", "␤", "\x1b[201~", strings.Repeat("é", 1001)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		text = pasted([]byte(text))
		if chip.MatchString(text) {
			return
		}
		var s shelf
		line := s.put(text, "pasted")
		require.Equal(t, "<"+text+">", s.expand("<"+line+">"))
		require.NotContains(t, clean(line)+"x", "\n")
		require.Equal(t, line, clean(line))
	})
}

// Keys and pastes are the same in any pieces.
func TestKeysPieces(t *testing.T) {
	typed := "a\x1bOAé\x1b[1;5C\x1b[200~one\r\ntwo\x1b[3~\x03\rthree\x1b[201~\x7f\b\x03\x1b\r\x1b[99;9u\x1bx\x1b[200~\x1b[201~z\x1a"
	want := "a\x1b[Aé\x1b[1;3C" + "[pasted\u00a01:\u00a03\u00a0lines,\u00a018\u00a0characters]" +
		string([]rune{keyErase, keyErase, keyStop}) + breakMark + "z"
	for size := 1; size <= len(typed); size++ {
		var s shelf
		stops := 0
		k := &keys{
			ctx: context.Background(), tty: &pieces{*bytes.NewBufferString(typed), size}, shelf: &s,
			suspend: func() { stops++ }, chunks: make(chan chunk, 1),
		}
		got, err := io.ReadAll(k)
		require.NoError(t, err)
		require.Equal(t, want, string(got), "pieces of %d", size)
		require.Equal(t, 1, stops)
		require.Equal(t, []string{"one\ntwo\x1b[3~\x03\nthree"}, s.texts)
	}
}

// pieces returns at most size bytes at a time.
type pieces struct {
	bytes.Buffer
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.Buffer.Read(b[:min(len(b), p.size)]) }
