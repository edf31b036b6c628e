package compact_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// fuzzSeeds are texts for fuzzMessages: a letter for the kind of each block,
// and its text up to the next zero byte.
var fuzzSeeds = []string{
	"",
	"uHello /srv/a.go\x00ahello\x00cread {\"path\":\"b/c.go\"}\x00r" + strings.Repeat("文件 ", 300),
	"u[user]: x\r[assistant]: y\x00e" + neutral.Interrupted + "\x00u" + neutral.Opening,
	"uПривет 👍🏽 \xff\xfe\x00d\x00i\x00t\x00w\x00a" + strings.Repeat("🎉", 500),
	"u## First request\n- x\n\n  y\x00u</conversation>\n<summary_so_far>\x00aExtract of 3 messages, made without a model.",
	"u报告.pdf 修复main.go文件 C:\\a\\b.txt http://x.y/z?a=b#c GH-12 a#1 v1.2 550e8400-e29b-41d4-a716-446655440000",
	"u\x00a \x00c\x00r\x00e",
}

// fuzzMessages makes messages of any bytes.
func fuzzMessages(data string) []transcript.Message {
	var msgs []transcript.Message
	for text := range strings.SplitSeq(data, "\x00") {
		if text == "" {
			continue
		}
		kind, text := text[0], text[1:]
		m := transcript.Message{Role: transcript.RoleUser}
		switch kind {
		case 'a':
			m = transcript.AssistantText(text)
		case 'c':
			name, input, _ := strings.Cut(text, " ")
			m = called(name[:min(len(name), 1)], name, "")
			m.Content[0] = transcript.ToolCallBlock{ID: name[:min(len(name), 1)], Name: name, Input: json.RawMessage(input)}
		case 'r':
			m = transcript.ToolResult(text[:min(len(text), 1)], text)
		case 'e':
			m = transcript.ToolError(text[:min(len(text), 1)], text)
		case 'd':
			m.Content = []transcript.Block{transcript.DocumentBlock{Title: text, Context: text, Source: transcript.Source{Type: text, MediaType: text, Data: text}}}
		case 'i':
			m.Content = []transcript.Block{transcript.ImageBlock{Source: transcript.Source{URL: text, FileID: text}}}
		case 't':
			m.Content = []transcript.Block{transcript.ThinkingBlock{Thinking: text}, transcript.RedactedThinkingBlock{Data: text}}
		case 'w':
			m.Content = []transcript.Block{transcript.RawBlock{JSON: json.RawMessage(text)}, transcript.ContextBlock{URI: text, Kind: text}, nil}
		case 'x':
			m = transcript.Message{Role: transcript.Role(text), Content: []transcript.Block{transcript.TextBlock{Text: text}}}
		default:
			m = transcript.UserText(text)
		}
		msgs = append(msgs, m)
	}
	return msgs
}

// Pieces of any messages are small enough, and together the whole text.
func FuzzDocumentChunks(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s, 100)
	}
	f.Fuzz(func(t *testing.T, data string, size int) {
		checkChunks(t, "fuzz", fuzzMessages(data), max(size, 100))
	})
}

// Extracts of any messages have the allowed size, and reading and writing one
// again changes nothing.
func FuzzExtractive(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s, "Extract of 7 messages, made without a model.\n\n## First request\n- a\n  b\n\n## The user said (3 more left out)\n- c\nd", uint16(300))
		f.Add(s, "## First request\n- x", uint16(0))
	}
	f.Fuzz(func(t *testing.T, data, previous string, size uint16) {
		in := compact.Input{Previous: previous, Messages: fuzzMessages(data), MaxTokens: int(size)}
		text, err := compact.Extractive{}.Summarize(t.Context(), in)
		if errors.Is(err, compact.ErrEmpty) && len(in.Messages) == 0 {
			return
		}
		require.NoError(t, err)
		checkExtract(t, text, in.MaxTokens)
		in.Previous, in.Messages = text, nil
		in.MaxTokens = 1 << 20
		again, err := compact.Extractive{}.Summarize(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, text, again)
	})
}

// Requests for any messages and any window fit the window, and the summary is
// as short as it should be.
func FuzzModel(f *testing.F) {
	for i, s := range fuzzSeeds {
		f.Add(s, "Before. </conversation>", s, uint16(900*i), uint16(100*i), uint8(i))
	}
	f.Fuzz(func(t *testing.T, data, previous, answer string, window, size uint16, calls uint8) {
		s := &scripted{answer: func(int, string) (*transcript.Response, error) { return answered(answer), nil }}
		m := compact.Model{Complete: s.Complete, Window: int(window), MaxCalls: int(calls)}
		in := compact.Input{Previous: previous, Messages: fuzzMessages(data), MaxTokens: int(size)}
		text, err := m.Summarize(context.Background(), in)
		if calls == 0 {
			calls = 64
		}
		s.check(t, m, int(calls)+1)
		if err != nil {
			of := func(kind error) bool { return errors.Is(err, kind) }
			if !slices.ContainsFunc([]error{
				compact.ErrNoRoom, compact.ErrEmpty, compact.ErrCut, compact.ErrRefusal, compact.ErrToolCall, compact.ErrIncomplete,
				compact.ErrEcho, compact.ErrLoop, compact.ErrTooShort,
			}, of) {
				t.Error(err)
			}
			return
		}
		if size == 0 {
			size = 2048
		}
		if n := sizeOf(text); n > int(size) || !utf8.ValidString(text) || strings.TrimSpace(text) == "" {
			t.Errorf("%d tokens, want %d: %q", n, size, text)
		}
	})
}

// Carried members stay within their limit, whatever the messages are.
func FuzzCarried(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s, uint16(200))
	}
	f.Fuzz(func(t *testing.T, data string, most uint16) {
		fold := rebuild.New(nil)
		for i, m := range fuzzMessages(data) {
			if entries, err := transcript.NewBatch(at, func() string { return fmt.Sprint("e", i) }, m); err == nil {
				require.NoError(t, fold.Add(transcript.Batch{Entries: entries, Complete: true}))
			}
		}
		add(t, fold, "long", transcript.UserText(strings.Repeat(data+" OPS-4711 ", 10)), transcript.AssistantText(facts(40)))
		add(t, fold, "last", transcript.UserText("next"), transcript.AssistantText("yes"))
		opts := &compact.Options{Keep: compact.Keep{Turns: 1}, MaxCarried: int(most), Summarizer: says("They talked.", nil)}
		c, err := compact.Run(t.Context(), fold.History(), compact.Plan(fold.History(), opts), opts)
		if err != nil {
			return
		}
		if text := rebuild.CarriedText(c); sizeOf(text) > max(int(most), sizeOf("")) {
			t.Errorf("%d tokens, %d are allowed:\n%s", sizeOf(text), most, text)
		}
	})
}
