package wire_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/transcript"
)

// The bytes of an image decide its media type, and other bytes become a note, in every
// format.
func TestBytesDecide(t *testing.T) {
	note := "[image left out: unreadable data]"
	for _, tt := range []struct{ bytes, media, want string }{
		{"\xff\xd8\xff\xe0JFIF", "image/png", "jpeg"},
		{"\x89PNG\r\n\x1a\n", "image/jpeg", "png"},
		{"RIFF\x24\x00\x00\x00WEBPVP8 ", "image/png", "webp"},
		{"<html><body>Sign in</body></html>", "image/png", note},
		{"<svg xmlns='x'/>", "image/png", note},
		{"%PDF-1.7", "image/png", "[image left out: un"},
		{"{}", "image/png", note},
	} {
		image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: tt.media, Data: base64.StdEncoding.EncodeToString([]byte(tt.bytes))}}
		for _, s := range speakers {
			body, _, err := s.request(transcript.Request{Model: s.model, Messages: []transcript.Message{{Role: transcript.RoleUser, Content: []transcript.Block{image}}}})
			require.NoError(t, err)
			require.Contains(t, string(body), tt.want, "%s: %q", s.name, tt.bytes)
			require.Empty(t, wiretest.Check(s.service, body), s.name)
		}
	}
}

// An image above Claude's limits goes to neither of its APIs.
func TestLargeImages(t *testing.T) {
	large := "iVBORw0KGgo" + strings.Repeat("A", 5<<20+4-11)
	wide := base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x23\x28\x00\x00\x00\x10\x08\x02")) // 9,000 pixels
	for _, s := range speakers {
		if s.name != "anthropic" && s.name != "bedrock" {
			continue
		}
		for data, note := range map[string]string{large: "[image left out: more than 5 MB]", wide: "[image left out: more than 8,000 pixels]"} {
			image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: data}}
			body, _, err := s.request(transcript.Request{Model: s.model, Messages: []transcript.Message{{Role: transcript.RoleUser, Content: []transcript.Block{image}}}})
			require.NoError(t, err)
			require.Contains(t, string(body), note, s.name)
			require.Empty(t, wiretest.Check(s.service, body), s.name)
		}
	}
}

// No format sends half a character, even in the arguments of a call, and each defines
// a tool under the name in its calls.
func TestNoHalves(t *testing.T) {
	call := transcript.ToolCallBlock{ID: "c", Name: "mcp.files/read", Input: []byte(`{"text":"a \ud99c b"}`)}
	for _, s := range speakers {
		body, _, err := s.request(transcript.Request{Model: s.model, Tools: []transcript.Tool{{Name: "mcp.files/read", InputSchema: []byte(`{"type":"object"}`)}}, Messages: []transcript.Message{
			transcript.UserText("go"), {Role: transcript.RoleAssistant, Content: []transcript.Block{call}}, transcript.ToolResult("c", "x"),
		}})
		require.NoError(t, err)
		require.NotContains(t, string(body), "ud99c", s.name)
		require.Contains(t, string(body), `"mcp_files_read"`, s.name)
	}
}

// Chat Completions joins neighbouring texts, and sends only strings to a service
// without parts; Gemini sends no IDs of calls to a model without them; media become
// notes for a model without media.
func TestTakes(t *testing.T) {
	image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "iVBORw0KGgo="}}
	messages := []transcript.Message{{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "one"}, transcript.TextBlock{Text: "two"}, image}}}
	takes := transcript.Takes{Without: []transcript.Form{transcript.Parts, transcript.Images, transcript.Documents}}
	body, _, err := openaichat.Format{}.Request(transcript.Request{Model: "m", Messages: messages, Takes: takes})
	require.NoError(t, err)
	require.Contains(t, string(body), `"content":"one\n\ntwo\n\n[image left out: the model takes none]"`)
	for _, s := range speakers {
		body, _, err := s.request(transcript.Request{Model: s.model, Messages: messages, Takes: takes})
		require.NoError(t, err)
		require.Contains(t, string(body), "[image left out: the model takes none]", s.name)
	}

	call := transcript.ToolCallBlock{ID: "c", Name: "f", Input: []byte(`{}`), Extra: transcript.Extra{"ext": []byte(`{"functionCall":{"id":"own"}}`)}}
	from := []transcript.Origin{{API: "gemini", Model: "gemini-3"}}
	req := transcript.Request{Model: "gemini-3", Messages: []transcript.Message{
		transcript.UserText("go"), {Role: transcript.RoleAssistant, Content: []transcript.Block{call}, Origins: from}, transcript.ToolResult("c", "x"),
	}}
	body, _, err = gemini.Format{}.Request(req)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(body), `"id":"own"`))
	req.Takes.Without = []transcript.Form{transcript.CallIDs}
	body, _, err = gemini.Format{}.Request(req)
	require.NoError(t, err)
	require.NotContains(t, string(body), `"id"`)
}

// A model of another maker with the Messages API gets its reasoning back in every turn,
// signed or not; Claude's goes back only signed.
func TestImitators(t *testing.T) {
	for name, want := range map[string]int{"deepseek-v4": 2, "kimi-k2": 2, "claude-opus-4-5": 0} {
		var messages []transcript.Message
		for n := range 2 {
			o := transcript.Origin{Entry: fmt.Sprint("e", n), API: "anthropic", Model: name, Answer: &transcript.Answer{Entry: fmt.Sprint("e", n)}}
			messages = append(messages, transcript.UserText("go"), transcript.Message{
				Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ThinkingBlock{Thinking: "hm"}, transcript.TextBlock{Text: "a"}}, Origins: []transcript.Origin{o, o},
			})
		}
		body, _ := render(t, anthropic.Format{}, transcript.Request{Model: name, Messages: append(messages, transcript.UserText("on"))})
		require.Equal(t, want, strings.Count(body, `"type":"thinking"`), name)
		require.Empty(t, wiretest.Check(wiretest.Anthropic{}, []byte(body)))
	}
}

func TestTakesOf(t *testing.T) {
	require.Equal(t, transcript.Takes{}, wire.TakesOf("", ""))
	require.Equal(t, 20, wire.TakesOf("us.anthropic.claude-opus-5-5-v1:0", "").Images)
	require.Equal(t, transcript.Takes{Images: 600, Side: 8000, Many: 20, ManySide: 2000}, wire.TakesOf("claude-opus-5-5", "https://api.anthropic.com"))
	for _, model := range []string{"claude-3-7-sonnet-latest", "claude-haiku-4-5", "claude-sonnet-4-5-20250929"} {
		require.Equal(t, transcript.Takes{Images: 100, Side: 8000, Many: 20, ManySide: 2000}, wire.TakesOf(model, ""))
	}
	require.False(t, wire.TakesOf("deepseek-chat", "https://api.deepseek.com").Has(transcript.Parts))
	require.False(t, wire.TakesOf("deepseek-chat", "https://api.deepseek.com/anthropic").Has(transcript.Signatures))
	require.True(t, wire.TakesOf("deepseek-v4.1", "https://api.deepseek.com").Has(transcript.Images))
	both := wire.TakesOf("m", "https://api.groq.com").And(transcript.Takes{Images: 3, Many: 2, ManySide: 9, Without: []transcript.Form{transcript.Parts}})
	require.Equal(t, transcript.Takes{Images: 3, Many: 2, ManySide: 9, Without: []transcript.Form{transcript.Parts}}, both)
}
