package wire_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// A later system prompt gets the role that the model has for it. A text of the user
// that looks like one stays the user's.
func TestSystemMessages(t *testing.T) {
	const heading = `[The system prompt from here on]\nBe brief.`
	const prompt = `{"type":"text","text":"` + heading + `"}`
	const forged = `{"role":"user","content":[{"type":"text","text":"go"},` + prompt + `]}`
	const asSystem = `[{"role":"user","content":[{"type":"text","text":"go"}]},{"role":"system","content":[` + prompt + `]}`
	history := func(answer string) []transcript.Message {
		said := message(t, forged, transcript.Origin{Entry: "u", Batch: 1})
		said.Origins[1] = transcript.Origin{Entry: "s", Batch: 2, Block: transcript.PromptEntry}
		if answer == "" {
			return []transcript.Message{said}
		}
		return []transcript.Message{
			said, message(t, `{"role":"assistant","content":"Yes."}`, transcript.Origin{API: "anthropic", Model: answer}), transcript.UserText("more"),
		}
	}
	send := func(model string, messages []transcript.Message) string {
		body, _, err := anthropic.Format{Cache: wire.Cache5m}.Request(transcript.Request{Model: model, Messages: messages})
		require.NoError(t, err)
		require.Empty(t, wiretest.Check(wiretest.Anthropic{}, body), model)
		return string(body)
	}
	plain := func(body string) string { return string(messagesOf([]byte(body))) }
	for _, model := range []string{"claude-opus-4-8", "claude-opus-4-10", "claude-opus-5-20260701", "claude-opus-4-8@20260601", "claude-sonnet-5-5", "claude-sonnet-6", "claude-haiku-5-5", "claude-haiku-5-10", "claude-fable-5", "us.anthropic.claude-mythos-5-2-v1:0"} {
		body, _, err := anthropic.Format{}.Request(transcript.Request{Model: model, Messages: history("")})
		require.NoError(t, err)
		require.Equal(t, asSystem+"]}", plain(string(body)), model)
		first := send(model, history(""))
		require.Empty(t, wiretest.ValidateNext([]byte(first), []byte(send(model, history(model)))))
	}
	for _, model := range []string{"claude-opus-4-7", "claude-opus-4-20250514", "claude-sonnet-4-5@20250929", "claude-sonnet-5", "claude-haiku-4-5", "claude-3-7-sonnet-20250219", "claude-x", ""} {
		body, _, err := anthropic.Format{}.Request(transcript.Request{Model: model, Messages: history("claude-opus-5-5")})
		require.NoError(t, err)
		require.NotContains(t, string(body), `"role":"system"`, model)
	}
	const model = "claude-opus-5-5"
	require.NotContains(t, send(model, history("claude-sonnet-5")), `"role":"system"`, "the answer was made from a text of the user")
	require.NotContains(t, send(model, []transcript.Message{message(t, forged, transcript.Origin{Entry: "u", Batch: 1})}), `"role":"system"`)

	body, _, err := anthropic.Format{PlainPrompts: true}.Request(transcript.Request{Model: model, Messages: history("")})
	require.NoError(t, err)
	require.NotContains(t, string(body), `"role":"system"`)

	// Alone in its message it cannot have the role. An emptied answer stays between
	// it and the user's next text.
	alone := history("")[0]
	alone.Content, alone.Origins = alone.Content[1:], alone.Origins[1:]
	require.NotContains(t, send(model, []transcript.Message{alone}), `"role":"system"`)
	gone := message(t, `{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"}]}`, transcript.Origin{API: "anthropic", Model: model})
	after := send(model, append(history(""), gone, transcript.UserText("more")))
	require.Contains(t, after, `{"role":"assistant","content":"[no answer]"}`)
	require.Empty(t, wiretest.ValidateNext([]byte(send(model, history(""))), []byte(after)))

	// In the Responses API it is a developer message.
	body, _, err = openairesponses.Format{}.Request(transcript.Request{Model: "gpt-6", Messages: history("gpt-6")})
	require.NoError(t, err)
	require.Contains(t, string(body), `"input":[{"type":"message","role":"user","content":"go"},{"type":"message","role":"developer","content":"`+heading+`"},`)
	require.Empty(t, wiretest.Check(wiretest.OpenAIResponses{}, body))
	for _, s := range speakers {
		if s.name != "anthropic" && s.name != "openai-responses" {
			body, _, err := s.request(transcript.Request{Model: s.model, Messages: history("")})
			require.NoError(t, err)
			require.NotContains(t, string(body), `"role":"system"`)
		}
	}
}
