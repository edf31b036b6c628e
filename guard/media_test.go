package guard_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/transcript"
)

func image(bytes int) transcript.Block {
	return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: strings.Repeat("A", bytes)}}
}

// gallery has an image of each size: in messages 0, 2 and 4, and in the result
// in message 6.
func gallery(t testing.TB, sizes [4]int) *conversation {
	var items []transcript.Item
	for i, size := range sizes[:3] {
		items = append(items, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
			transcript.TextBlock{Text: fmt.Sprint("look at ", i)}, image(size),
		}}, transcript.AssistantText("nice"))
	}
	items = append(items[:5], transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ToolCallBlock{ID: "a", Name: "shot", Input: []byte(`{}`)},
	}}, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ToolResultBlock{
		CallID: "a", Content: []transcript.Block{transcript.TextBlock{Text: "a shot:"}, image(sizes[3])},
	}}})
	return newConversation(t, items...)
}

// shown is which of the four are still images.
func shown(t testing.TB, c *conversation) (all string) {
	t.Helper()
	for _, m := range c.fold.History().Messages {
		for _, b := range m.Content {
			if r, ok := b.(transcript.ToolResultBlock); ok && len(r.Content) > 1 {
				b = r.Content[1]
			}
			switch b := b.(type) {
			case transcript.ImageBlock:
				all += "I"
			case transcript.TextBlock:
				if strings.Contains(b.Text, "left out; it is in entry ") {
					all += "-"
				}
			case transcript.ToolResultBlock:
				if text := b.Text(); strings.HasPrefix(text, "a shot:\n[image (image/png) of ") {
					all += "-"
				}
			}
		}
	}
	return all
}

// The item that the error names is replaced by a note and the model is called
// again; a second time keeps every decision.
func TestMedia(t *testing.T) {
	tests := []struct {
		name, err string
		sizes     [4]int
		want      string
		calls     int
	}{
		{"bytes, with figures", "413 request body of 22000 bytes exceeds the limit of 20000 bytes", [4]int{3_000, 3_000, 3_000, 3_000}, "--II", 2},
		{"bytes, without", "413 request_too_large", [4]int{3_000, 3_000, 3_000, 3_000}, "--II", 2},
		{"bytes, all in the last message", "413 request_too_large", [4]int{10, 10, 10, 90_000}, "----", 2},
		{"all above the limit", "messages.2.content.1.image.source.base64: image exceeds 5 MB maximum: 8000 bytes > 6000 bytes", [4]int{10, 9_000, 5_000, 20_000}, "I-I-", 2},
		{"the largest", "image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes", [4]int{10, 10, 5_000, 10}, "II-I", 2},
		{"too many", "At most 2 image(s) may be provided in one request.", [4]int{10, 10, 5_000, 10}, "--II", 2},
		{"a rate limit", "429 rate limit reached", [4]int{10, 10, 10, 10}, "IIII", 1},
	}
	for _, tt := range tests {
		c := gallery(t, tt.sizes)
		s := &script{errs: []error{errors.New(tt.err)}}
		if _, err := guard.Do(t.Context(), nil, c, s.call); (err == nil) != (tt.calls == 2) || len(s.calls) != tt.calls || len(c.relief) > 0 {
			t.Errorf("%s: %v after %d calls, %d compactions", tt.name, err, len(s.calls), len(c.relief))
		}
		if got := shown(t, c); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// Where nothing can be replaced the error is returned untouched.
func TestItemWithoutMedia(t *testing.T) {
	want := errors.New("image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes")
	c := newConversation(t, transcript.UserText("look"))
	s := &script{errs: []error{want}}
	if _, err := guard.Do(t.Context(), nil, c, s.call); err != want || len(s.calls) != 1 || len(c.relief) > 0 { //nolint:errorlint // the very same error
		t.Errorf("%v after %d calls", err, len(s.calls))
	}
	c = newConversation(t, toolTurn(strings.Repeat("x", 5_000))...)
	s = &script{errs: []error{errors.New("Invalid 'messages[2].content': string too long. Expected a string with maximum length 2000, but got a string with length 5000 instead.")}}
	_, err := guard.Do(t.Context(), nil, c, s.call)
	require.NoError(t, err)
	require.Len(t, s.calls, 2)
	r, _ := s.calls[1].Messages[2].Content[0].(transcript.ToolResultBlock)
	if n := len([]rune(r.Text())); n > 2_000 || n < 1_200 {
		t.Errorf("the result has %d runes", n)
	}
}

// Errors in the middle stay in view, within bounds; a JSON text is said to be
// none any more; no rune is cut.
func TestExcerpt(t *testing.T) {
	var sb strings.Builder
	for i := range 3_000 {
		switch i {
		case 1_500:
			sb.WriteString("main.go:7: undefined: frobnicate\r\n")
		case 1_600:
			sb.WriteString("panic: " + strings.Repeat("é", 5_000) + "\n")
		case 1_700:
			sb.WriteString("process exited with code 2\n")
		default:
			fmt.Fprintf(&sb, "línea %d ok, nothing of note here\n", i)
		}
	}
	noisy := strings.Repeat("ERROR: the same again and again\n", 4_000)
	tests := []struct {
		name, text string
		want, not  []string
	}{
		{"errors", sb.String(), []string{"undefined: frobnicate\n", "panic: ééé", " [...]\n", "exited with code 2", "línea 2999", "línea 0 ", "entry e4 ..."}, []string{"valid JSON", "línea 1500 "}},
		{"only errors", noisy, []string{"lines that speak of errors", "ERROR"}, nil},
		{"json", `{"items":[` + strings.Repeat(`"a value that is long enough",`, 4_000) + `"last"],"exit":0}`, []string{"no longer valid JSON", `"last"],"exit":0}`}, []string{"speak of errors"}},
		{"families", strings.Repeat("👩\u200d👧", 20_000), []string{"👩\u200d👧"}, []string{"\n\u200d"}},
		{"families, one further", strings.Repeat("👩\u200d👧", 20_000) + "y", []string{"👩\u200d👧"}, []string{"\n\u200d"}},
		{"families, two further", strings.Repeat("👩\u200d👧", 20_000) + "yz", []string{"👩\u200d👧"}, []string{"\n\u200d"}},
		{"tones", strings.Repeat("👍🏽", 20_000), []string{"👍🏽"}, []string{"...]\n🏽"}},
		{"tones, one further", strings.Repeat("👍🏽", 20_000) + "x", []string{"👍🏽"}, []string{"...]\n🏽"}},
		{"one line", strings.Repeat("日本語", 20_000), []string{"日本語", "characters left out"}, nil},
	}
	for _, tt := range tests {
		c := newConversation(t, append(toolTurn(tt.text), transcript.AssistantText("I see"), transcript.UserText("go on"))...)
		changed, err := guard.Clip().Run(t.Context(), c, guard.Need{Window: 10_000})
		require.True(t, changed)
		require.NoError(t, err)
		r, _ := c.fold.History().Messages[2].Content[0].(transcript.ToolResultBlock)
		text := r.Text()
		if n := g20k.size(text); n > 3_000 || n < 1_000 || strings.Contains(text, "\uFFFD") {
			t.Errorf("%s: %d tokens", tt.name, n)
		}
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in it", tt.name, want)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(text, not) {
				t.Errorf("%s: %q is in it", tt.name, not)
			}
		}
	}
}

// Too many images, too many documents and one that is too wide are replaced before the
// first call, each for its own reason.
func TestLimitsTogether(t *testing.T) {
	picture := func(width string, n int) transcript.Block {
		data := fmt.Appendf(nil, "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00%s\x00\x00\x03\x20 picture %d", width, n)
		return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(data)}}
	}
	document := func(n int) transcript.Block {
		return transcript.DocumentBlock{Title: fmt.Sprint("d", n), Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: "JVBERi0xLjc" + strings.Repeat("A", 4*n+1)}}
	}
	narrow, wide := "\x03\x20", "\x20\x00"
	c := newConversation(t, transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{
		picture(narrow, 1), picture(wide, 2), picture(narrow, 3), document(1), document(2),
	}})
	s := &script{}
	_, err := guard.Do(t.Context(), &guard.Guard{Takes: transcript.Takes{Images: 2, Documents: 1, Side: 2000}}, c, s.call)
	require.NoError(t, err)
	var kinds strings.Builder
	for _, b := range s.calls[0].Messages[0].Content {
		kinds.WriteString(transcript.BlockType(b) + " ")
	}
	require.Equal(t, "text text image text document ", kinds.String())

	// Wide images count only among many. The wide ones go if there are fewer of them, or
	// else the oldest images.
	for _, tt := range []struct{ narrow, wide, left int }{{0, 20, 20}, {22, 3, 22}, {1, 24, 15}} {
		m := transcript.Message{Role: transcript.RoleUser}
		for i := range tt.narrow {
			m.Content = append(m.Content, picture(narrow, i))
		}
		for i := range tt.wide {
			m.Content = append(m.Content, picture(wide, i))
		}
		s := &script{}
		_, err := guard.Do(t.Context(), &guard.Guard{Takes: transcript.Takes{Many: 20, ManySide: 2000}}, newConversation(t, m), s.call)
		require.NoError(t, err)
		require.Equal(t, tt.left, imagesIn(s.calls[0]))
	}
}
