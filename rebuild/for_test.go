package rebuild_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// For replaces media by notes that name their entry, makes blocks of another endpoint and
// refused ones foreign, leaves out refused signed reasoning, and changes nothing else.
func TestFor(t *testing.T) {
	image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "iVBORw0KGgo="}}
	pdf := transcript.DocumentBlock{Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: "JVBERi0="}}
	result := transcript.ToolResultBlock{CallID: "c"}.WithContent(transcript.TextBlock{Text: "shot"}, image)
	answer := func(api, entry, endpoint string) transcript.Origin {
		return transcript.Origin{Entry: entry, API: api, Model: "m", Answer: &transcript.Answer{Entry: entry, Made: transcript.Made{PromptHash: "p", Endpoint: endpoint}}}
	}
	messages := []transcript.Message{
		{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "see"}, image, pdf}, Origins: []transcript.Origin{{Entry: "u"}, {Entry: "u", Block: 1}, {Entry: "u", Block: 2}}},
		{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ThinkingBlock{Thinking: "hm", Signature: "s"}, transcript.TextBlock{Text: "a"}}, Origins: []transcript.Origin{answer("anthropic", "a", "x"), answer("anthropic", "a", "x")}},
		{Role: transcript.RoleUser, Content: []transcript.Block{result}, Origins: []transcript.Origin{{Entry: "r", Block: transcript.WholeEntry}}},
		{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ThinkingBlock{Thinking: "hm"}, transcript.TextBlock{Text: "b"}}, Origins: []transcript.Origin{answer("gemini", "b", "y"), answer("gemini", "b", "y")}},
	}
	same, mark := rebuild.For(messages, transcript.Calibration{})
	require.Equal(t, messages, same)
	require.Empty(t, mark)

	out, mark := rebuild.For(messages, transcript.Calibration{Left: []transcript.BlockRef{{Entry: "r", Block: transcript.WholeEntry}}})
	require.NotEmpty(t, mark)
	require.Equal(t, image, out[0].Content[1])
	r, _ := out[2].Content[0].(transcript.ToolResultBlock)
	require.Equal(t, "shot\n[image (image/png) of 12 bytes left out, because the service refused it; it is in entry r]", r.Text())
	require.Equal(t, "p"+mark, out[1].Origins[0].Answer.Made.PromptHash, "its request left out nothing")
	messages[1].Origins[0].Answer.Made.PromptHash += mark
	out, _ = rebuild.For(messages, transcript.Calibration{Left: []transcript.BlockRef{{Entry: "r", Block: transcript.WholeEntry}}})
	require.Equal(t, "p", out[1].Origins[0].Answer.Made.PromptHash)

	out, _ = rebuild.For(messages, transcript.Calibration{Without: []transcript.Form{transcript.Images}})
	require.Equal(t, transcript.TextBlock{Text: "[image (image/png) of 12 bytes left out, because the model takes none; it is in entry u]"}, out[0].Content[1])
	require.Equal(t, pdf, out[0].Content[2])

	one, two := transcript.BlockRef{Entry: "u", Block: 1}, transcript.BlockRef{Entry: "u", Block: 2}
	_, mark = rebuild.For(messages, transcript.Calibration{Left: []transcript.BlockRef{one, two}})
	_, other := rebuild.For(messages, transcript.Calibration{Left: []transcript.BlockRef{two, one}})
	require.Equal(t, mark, other, "the order counts")

	out, mark = rebuild.For(messages, transcript.Calibration{Unread: "b"})
	require.Empty(t, mark)
	require.Equal(t, []transcript.Block{transcript.TextBlock{Text: "a"}}, out[1].Content)
	require.Len(t, out[3].Content, 2)
	require.NotEqual(t, "m", out[3].Origins[0].Model)
	out, _ = rebuild.For(messages, transcript.Calibration{Unread: "a"})
	require.Equal(t, "m", out[3].Origins[0].Model)

	out, _ = rebuild.For(messages, transcript.Calibration{Endpoint: "x"})
	require.Len(t, out[1].Content, 2, "Claude's is bound to no endpoint")
	require.NotEqual(t, "m", out[3].Origins[0].Model)
	out, _ = rebuild.For(messages, transcript.Calibration{Endpoint: "y"})
	require.Equal(t, messages[3], out[3])
	messages[3].Origins = slices.Repeat([]transcript.Origin{answer("gemini", "b", "")}, 2)
	out, _ = rebuild.For(messages, transcript.Calibration{Endpoint: "x"})
	require.Equal(t, messages[3], out[3], "its endpoint is unknown")
}
