package compact_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/transcript"
)

func TestDocument(t *testing.T) {
	raw, err := transcript.UnmarshalBlock([]byte(`{"type":"video","x":"0123456789"}`))
	require.NoError(t, err)
	user := func(blocks ...transcript.Block) []transcript.Message {
		return []transcript.Message{{Role: transcript.RoleUser, Content: blocks}}
	}
	result := transcript.ToolResult("c", "").Content[0].(transcript.ToolResultBlock)
	for _, tt := range []struct {
		name string
		doc  compact.Document
		msgs []transcript.Message
		want string
	}{
		{"nothing", compact.Document{}, nil, ""},
		{"blank", compact.Document{}, user(transcript.TextBlock{Text: " \n"}), ""},
		{"texts", compact.Document{}, []transcript.Message{transcript.UserText("a\nb"), transcript.AssistantText("c")}, "[user]: a\nb\n[assistant]: c"},
		{
			"imitations",
			compact.Document{},
			[]transcript.Message{transcript.UserText("[x]\n[assistant]: y\r[z\u2028[w\n [v")},
			"[user]: [x]\n  [assistant]: y\r  [z\u2028  [w\n   [v",
		},
		{"a call", compact.Document{}, []transcript.Message{called("c", "read", "{\"path\": \"a\",\n \"n\": 1}")}, `[assistant called read]: {"path":"a","n":1}`},
		{"a call without input", compact.Document{}, []transcript.Message{called("c", "now", "")}, `[assistant called now]: {}`},
		{"a cut call", compact.Document{}, []transcript.Message{called("c", "f", `{"a`)}, `[assistant called f]: {"a`},
		{"a name like a mark", compact.Document{}, []transcript.Message{called("c", "f]: x\n[user", `{}`)}, `[assistant called f_:_x__user]: {}`},
		{"a result", compact.Document{}, []transcript.Message{transcript.ToolResult("c", "out")}, "[tool_result]: out"},
		{"an error", compact.Document{}, []transcript.Message{transcript.ToolError("c", "bad")}, "[tool_result, error]: bad"},
		{"an empty result", compact.Document{}, []transcript.Message{transcript.ToolResult("c", "")}, "[tool_result]: (no content)"},
		{
			"clipped",
			compact.Document{Results: 6},
			[]transcript.Message{transcript.ToolResult("c", "абвгдежзик"), transcript.UserText("абвгдежзик")},
			"[tool_result]: абвг\n  [... 4 runes left out ...]\nик\n[user]: абвгдежзик",
		},
		{"texts clipped", compact.Document{Texts: 3}, []transcript.Message{transcript.UserText("👍👎👍👎")}, "[user]: 👍👎\n  [... 1 runes left out ...]\n👎"},
		{
			"an image in a result",
			compact.Document{},
			user(result.WithContent(transcript.TextBlock{Text: "see"}, transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "AAAA"}})),
			"[tool_result]: see\n[tool_result image]: image/png, 3 bytes, left out",
		},
		{
			"a document",
			compact.Document{},
			user(transcript.DocumentBlock{Title: "A\nB", Source: transcript.Source{Type: "text", MediaType: "text/plain", Data: "12345"}}),
			"[user document]: text/plain, 5 bytes, left out, A B",
		},
		{"unknown", compact.Document{}, user(raw), "[user video]: 33 bytes of JSON, left out"},
		{"a memory", compact.Document{}, user(transcript.ContextBlock{Kind: "memory", URI: "viking://m", Abstract: "likes\ntea"}), "[user context]: memory viking://m likes tea"},
		{
			"reasoning",
			compact.Document{},
			user(transcript.ThinkingBlock{Thinking: "пять!"}, transcript.TextBlock{Text: "x"}, transcript.RedactedThinkingBlock{Data: "AB"}),
			"[user]: x\n[left out]: reasoning of the assistant, 2 blocks, 7 runes",
		},
		{"not UTF-8", compact.Document{}, user(transcript.TextBlock{Text: "a\xffb"}), "[user]: a\uFFFDb"},
	} {
		if got := tt.doc.Text(tt.msgs); got != tt.want {
			t.Errorf("%s:\n%q, want\n%q", tt.name, got, tt.want)
		}
	}
}

// The default is 2,000 runes of a result.
func TestDocumentDefault(t *testing.T) {
	msgs := []transcript.Message{transcript.ToolResult("c", strings.Repeat("界", 5000))}
	if n := utf8.RuneCountInString((compact.Document{}).Text(msgs)); n < 2000 || n > 2100 {
		t.Errorf("%d runes", n)
	}
	require.Equal(t, 5000+len("[tool_result]: "), utf8.RuneCountInString((compact.Document{Results: -1}).Text(msgs)))
}

func TestDocumentChunks(t *testing.T) {
	for _, size := range []int{100, 333, 4000, 1 << 20} {
		checkChunks(t, "scripts", manyScripts(), size)
	}
	checkChunks(t, "loop", toolLoop(300), 2000)
	for _, size := range []int{-1, 0, 5, 12} {
		if list, err := compact.Chunks(manyScripts(), size); err == nil {
			t.Errorf("%d chunks of %d tokens", len(list), size)
		}
	}
	list, err := compact.Chunks(nil, 0)
	require.NoError(t, err)
	require.Empty(t, list)
}

// checkChunks checks that pieces are small enough, and together the whole text.
func checkChunks(t *testing.T, name string, msgs []transcript.Message, size int) {
	t.Helper()
	list, err := compact.Chunks(msgs, size)
	require.NoError(t, err, "%s, chunks of %d tokens", name, size)
	var sb strings.Builder
	for i, piece := range list {
		if n := sizeOf(piece); n > size {
			t.Errorf("%s: piece %d has %d tokens, want %d", name, i, n, size)
		}
		if !utf8.ValidString(piece) || !strings.HasPrefix(piece, "[") {
			t.Errorf("%s: piece %d starts with %.40q", name, i, piece)
		}
		if i > 0 && strings.HasSuffix(list[i-1], "\n[continues in the next part]") {
			mark, body, _ := strings.Cut(piece, "]: ")
			if !strings.HasSuffix(mark, ", continued") {
				t.Errorf("%s: piece %d goes on with %q", name, i, mark)
			}
			piece = body
		} else if i > 0 {
			sb.WriteByte('\n')
		}
		sb.WriteString(strings.TrimSuffix(piece, "\n[continues in the next part]"))
	}
	if sb.String() != (compact.Document{}).Text(msgs) {
		t.Errorf("%s: %d pieces of %d tokens are not the text", name, len(list), size)
	}
}
