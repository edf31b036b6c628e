package wire_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// An image of more than 5 MB of base64, and the first images and documents of a
// body of more than 32 MB, become a text: in messages, or in every second test
// in results.
func TestRequestMediaBytes(t *testing.T) {
	const mb = 1 << 20
	image := func(n int) transcript.Block {
		return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: ("iVBORw0KGgo" + strings.Repeat("A", n))[:n]}}
	}
	document := transcript.DocumentBlock{Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: ("JVBERi0" + strings.Repeat("A", 10*mb))[:10*mb]}}
	tests := []struct {
		name    string
		content []transcript.Block // one message each
		kept    []bool
		rules   string
	}{
		{"the limit", []transcript.Block{image(5 * mb)}, []bool{true}, ""},
		{"above it", []transcript.Block{image(5*mb + 4), image(12)}, []bool{false, true}, "replaced-block"},
		{"together", slices.Repeat([]transcript.Block{image(5 * mb)}, 7), []bool{false, true, true, true, true, true, true}, "replaced-block"},
		{
			"the large one is not counted",
			[]transcript.Block{image(6 * mb), document, document, document, image(16), image(3 * mb)},
			[]bool{false, false, true, true, true, true},
			"replaced-block replaced-block",
		},
	}
	for n, tt := range tests {
		inResult := n%2 == 1
		messages := []transcript.Message{transcript.UserText("go")}
		for i, b := range tt.content {
			id := fmt.Sprint("c", i)
			if messages = append(messages, transcript.AssistantText("ok"), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{b}}); inResult {
				n := len(messages)
				messages[n-2].Content = []transcript.Block{transcript.ToolCallBlock{ID: id, Name: "n", Input: []byte(`{}`)}}
				messages[n-1].Content = []transcript.Block{transcript.ToolResultBlock{CallID: id, Content: []transcript.Block{b}}}
			}
		}
		body, report, err := anthropic.Format{}.Request(transcript.Request{Model: model, Messages: messages})
		if err != nil || rules(report) != tt.rules || len(body) > 32*mb {
			t.Fatalf("%s: %d bytes, report %v, error %v", tt.name, len(body), report, err)
		}
		var kept []bool
		for _, m := range decode(t, strings.ReplaceAll(string(body), strings.Repeat("A", 1<<12), "")).Messages {
			if m.Role != transcript.RoleUser || m.Text() == "go" {
				continue
			}
			b := m.Content[0]
			if res, ok := b.(transcript.ToolResultBlock); ok {
				b = res.Content[0]
			}
			_, text := b.(transcript.TextBlock)
			kept = append(kept, !text)
		}
		if !slices.Equal(kept, tt.kept) {
			t.Errorf("%s: kept %v, want %v", tt.name, kept, tt.kept)
		}
	}
}

// The images of a document follow the rules for all images.
func TestDocumentContent(t *testing.T) {
	document := func(content string) []transcript.Message {
		return []transcript.Message{message(t, `{"role":"user","content":[{"type":"document","source":{"type":"content","content":[`+content+`]}}]}`, transcript.Origin{})}
	}
	const (
		text  = `{"type":"text","text":"x"}`
		image = `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="}}`
	)
	large := strings.Replace(image, "Ggo=", "Ggo"+strings.Repeat("A", 5<<20+5), 1)
	for _, tt := range []struct{ content, want, rules string }{
		{text + "," + image, text + "," + image, ""},
		{text + "," + strings.NewReplacer("png", "tiff", "iVBORw0KGgo=", "AAAA").Replace(image), text + `,{"type":"text","text":"[image left out: unsupported media type]"}`, "replaced-block"},
		{`{"type":"image","source":{"type":"url","url":"ftp://x"}}`, `{"type":"text","text":"[image left out: not an https URL]"}`, "replaced-block"},
		{`{"type":"image","source":7}`, `{"type":"text","text":"[image left out]"}`, "replaced-block"},
		{large, `{"type":"text","text":"[image left out: more than 5 MB]"}`, "replaced-block"},
		{strings.Replace(text, `"x"`, `"x","odd":1`, 1), text, "dropped-member"},
	} {
		body, report := render(t, anthropic.Format{}, transcript.Request{Model: model, Messages: document(tt.content)})
		if !strings.Contains(body, `"content":[`+tt.want+`]`) || rules(report) != tt.rules {
			t.Errorf("report %v, rendered %.300s\nwant %s", report, body, tt.want)
		}
	}
}
