package guard_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

type renderer interface {
	Request(transcript.Request) ([]byte, rebuild.Report, error)
}

// screenshot is an image that differs from all others.
func screenshot(n int) transcript.ImageBlock {
	data := fmt.Appendf(nil, "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR screenshot number %d of this test", n)
	return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: base64.StdEncoding.EncodeToString(data)}}
}

// placed is a conversation with five images, one of them in a result, and a signed
// thought.
func placed(t testing.TB, api, model string) remembering {
	c := newConversation(t)
	add := func(item transcript.Item) {
		_, err := c.Append(t.Context(), item)
		require.NoError(t, err)
	}
	answer := func(blocks ...transcript.Block) {
		add(transcript.Response{API: api, Model: model, Message: transcript.Message{Role: transcript.RoleAssistant, Content: blocks}})
	}
	for n := range 4 {
		add(transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: fmt.Sprintf("The text of number %d is here.", n)}, screenshot(n)}})
		answer(transcript.TextBlock{Text: fmt.Sprintf("The answer to number %d is here.", n)})
	}
	add(transcript.UserText("And what does the tool see now?"))
	answer(transcript.ThinkingBlock{Thinking: "Let me call it.", Signature: "c2lnbmF0dXJlIG9mIHRoZSB0aG91Z2h0"},
		transcript.ToolCallBlock{ID: "toolu_0123456789abcdefgh", Name: "look", Input: []byte(`{}`)})
	result := transcript.ToolResult("toolu_0123456789abcdefgh", "")
	b, _ := result.Content[0].(transcript.ToolResultBlock)
	result.Content[0] = b.WithContent(transcript.TextBlock{Text: "The text of the result is here."}, screenshot(4))
	add(result)
	return remembering{c}
}

// complaint refuses a request while a body holds one of these strings, in words with the
// place of the first.
func complaint(t testing.TB, f renderer, words string, dots bool, bad ...string) (call func(context.Context, guard.Call) (string, error), calls *int) {
	calls = new(int)
	return func(_ context.Context, c guard.Call) (string, error) {
		*calls++
		body, _, err := f.Request(c.Request)
		require.NoError(t, err)
		for _, held := range bad {
			if path := storetest.PathIn(body, held, dots); path != "" {
				if !dots { // as the definitions of an API have it
					path = strings.ToLower(regexp.MustCompile("([a-z])([A-Z])").ReplaceAllString(path, "${1}_$2"))
				}
				return "", parts{Status: 400, Message: fmt.Sprintf(words, path)}
			}
		}
		return "fine", nil
	}, calls
}

// A place in an error leads to the part: that part is left out and no other, in every
// format and spelling. A text at the place is no cause for a call.
func TestPlaces(t *testing.T) {
	formats := []struct {
		api, model string
		format     renderer
	}{
		{"anthropic", "claude-opus-4-1", anthropic.Format{}},
		{"bedrock", "anthropic.claude-opus-4-1", bedrock.Format{}},
		{"openai-chat", "gpt-5", openaichat.Format{}},
		{"openai-responses", "gpt-5", openairesponses.Format{}},
		{"gemini", "gemini-3", gemini.Format{Model: "gemini-3"}},
	}
	for _, f := range formats {
		for _, dots := range []bool{true, false} {
			for n := range 5 {
				for _, words := range []string{"%s: I do not like that", "Could not process image at '%s.data'", "Value at %s is odd", "An image at %s is odd"} {
					c := placed(t, f.api, f.model)
					call, calls := complaint(t, f.format, words, dots, screenshot(n).Source.Data)
					g := &guard.Guard{Model: f.model, Format: f.format}
					_, err := guard.Do(t.Context(), g, c, call)
					require.NoError(t, err, "%s, number %d, %s", f.api, n, words)
					require.Equal(t, 2, *calls)
					require.Len(t, c.known(f.model).Left, 1, "%s, number %d, %s", f.api, n, words)
					_, err = guard.Do(t.Context(), g, c, call)
					require.NoError(t, err)
					require.Equal(t, 3, *calls)
				}
			}
			for _, held := range []string{"number 1 is here", "text of the result", "abcdefgh"} {
				if held == "abcdefgh" && f.api == "gemini" {
					continue // it has no IDs of other makers
				}
				c := placed(t, f.api, f.model)
				before := c.n
				call, calls := complaint(t, f.format, "%s: I do not like that", dots, held)
				_, err := guard.Do(t.Context(), &guard.Guard{Model: f.model, Format: f.format}, c, call)
				require.ErrorContains(t, err, "I do not like that")
				require.Equal(t, 1, *calls)
				require.Equal(t, before, c.n)
			}
		}
	}
}

// Several parts that an error names one after the other go within four calls, and the
// others stay. Without a Format the place is not followed.
func TestPlacesInTurn(t *testing.T) {
	data := func(n ...int) (all []string) {
		for _, n := range n {
			all = append(all, screenshot(n).Source.Data)
		}
		return all
	}
	for _, tt := range []struct {
		bad         []string
		words       string
		calls, left int
	}{
		{data(0, 2), "%s: I do not like that", 3, 2},
		{data(3, 1, 0), "%s: I do not like that", 4, 3},
		{data(0, 2), "%s.image.source: Could not process image", 3, 2},
		{data(3, 1, 0), "%s.image.source: Could not process image", 4, 5}, // the last call is without any
		{data(3, 1, 0, 2), "%s.image.source: Could not process image", 4, 5},
	} {
		c := placed(t, "anthropic", "claude-opus-4-1")
		call, calls := complaint(t, anthropic.Format{}, tt.words, true, tt.bad...)
		_, err := guard.Do(t.Context(), &guard.Guard{Model: "m", Format: anthropic.Format{}}, c, call)
		require.NoError(t, err)
		require.Equal(t, tt.calls, *calls)
		require.Len(t, c.known("m").Left, tt.left)
	}
	c := placed(t, "anthropic", "claude-opus-4-1")
	call, calls := complaint(t, anthropic.Format{}, "%s: I do not like that", true, data(1)...)
	_, err := guard.Do(t.Context(), &guard.Guard{Model: "m"}, c, call)
	require.Error(t, err)
	require.Equal(t, 1, *calls)

	// Too many for one Do: the next one continues.
	call, calls = complaint(t, anthropic.Format{}, "%s: I do not like that", true, data(4, 0, 3, 1, 2)...)
	g := &guard.Guard{Model: "m", Format: anthropic.Format{}}
	_, err = guard.Do(t.Context(), g, c, call)
	require.ErrorContains(t, err, "I do not like that")
	require.Equal(t, 4, *calls)
	_, err = guard.Do(t.Context(), g, c, call)
	require.NoError(t, err)
	require.Equal(t, 7, *calls)
}

// A place that has nothing to do with the refusal costs one call, and the place of a
// message or of a whole result with a text none.
func TestOtherPlaces(t *testing.T) {
	c := placed(t, "anthropic", "claude-opus-4-1")
	_, err := c.Append(t.Context(), transcript.AssistantText("An answer."))
	require.NoError(t, err)
	_, err = c.Append(t.Context(), transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{screenshot(9)}})
	require.NoError(t, err)
	before := c.n
	for path, calls := range map[string]int{
		"messages.0.content.1": 2, "messages.10.content.0.tool_result.content.1": 2,
		"messages.10.content.0": 1, "messages.12": 1, "messages.99.content.1": 1, "messages.0.content.x": 1, "messages.0": 1, "input[0].content[1]": 1,
	} {
		for status, most := range map[int]int{400: 2, 415: 1} { // only some refusals have a place
			refused := parts{Status: status, Message: path + ": I do not like that"}
			s := &script{errs: []error{refused, refused, refused}}
			_, err := guard.Do(t.Context(), &guard.Guard{Model: "m", Format: anthropic.Format{}}, c, s.call)
			require.Equal(t, refused, err)
			require.Len(t, s.calls, min(calls, most), path)
			require.Equal(t, before, c.n)
		}
	}
}

// A place that names reasoning leaves out the reasoning so far.
func TestPlaceOfReasoning(t *testing.T) {
	c := placed(t, "anthropic", "claude-opus-4-1")
	call, calls := complaint(t, anthropic.Format{}, "%s: I do not like that", true, "c2lnbmF0dXJlIG9mIHRoZSB0aG91Z2h0")
	_, err := guard.Do(t.Context(), &guard.Guard{Model: "claude-opus-4-1", Format: anthropic.Format{}}, c, call)
	require.NoError(t, err)
	require.Equal(t, 2, *calls)
	require.NotEmpty(t, c.known("claude-opus-4-1").Unread)
}

// Services write places in their own ways: AWS counts from 1, validators list steps or
// name types, and some put the place into a member of its own.
func TestPlacesInWords(t *testing.T) {
	for source, tt := range map[string]struct {
		api, text string
		status    int
		first     int // index
	}{
		"NousResearch/hermes-agent#90008": {
			"bedrock", "1 validation error detected: Value at 'messages.%d.member.content.%d.member.image.format' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-z]+", 400, 1,
		},
		"Alishahryar1/free-claude-code#1041": {
			"anthropic", `{"detail":[{"type":"literal_error","loc":["body","messages",%d,"content",%d,"type"],"msg":"Input should be 'user' or 'assistant'","ctx":{}}]}`, 422, 0,
		},
		"microsoft/autogen#1829": {
			"openai-chat", "UnprocessableEntityError: Error code: 422 - {'detail': [{'loc': ['body', 'messages', %d, 'content', %d], 'msg': 'none is not an allowed value', 'type': 'type_error.none.not_allowed'}]}", 422, 0,
		},
		"sgl-project/sglang#17853": {
			"openai-chat", "17 validation errors for ChatCompletionRequest\nmessages.%d.ChatCompletionMessageGenericParam.content.list[union[ChatCompletionMessageContentTextPart,ChatCompletionMessageContentAudioPart]].%d.ChatCompletionMessageContentTextPart.type\n  Input should be 'text' [type=literal_error, input_value='input_text', input_type=str]", 400, 0,
		},
		"AIProxyTeam/AIProxySwift#194": {
			"openai-responses", `{"error":{"message":"Invalid value: 'input_image'. Supported values are: 'input_text'.","type":"invalid_request_error","param":"input[%d].content[%d]","code":"invalid_value"}}`, 400, 0,
		},
		"anasfik/openai#152": {
			"openai-chat", `{"error":{"message":"Expected an object, but got a string instead.","type":"invalid_request_error","param":"messages[%d].content[%d].image_url","code":"invalid_type"}}`, 400, 0,
		},
	} {
		t.Run(source, func(t *testing.T) {
			format := map[string]renderer{"bedrock": bedrock.Format{}, "anthropic": anthropic.Format{}, "openai-chat": openaichat.Format{}, "openai-responses": openairesponses.Format{}}[tt.api]
			c := placed(t, tt.api, "m")
			bad, calls := screenshot(2).Source.Data, 0
			g := &guard.Guard{Model: "m", Format: format}
			_, err := guard.Do(t.Context(), g, c, func(_ context.Context, call guard.Call) (string, error) {
				calls++
				body, _, err := format.Request(call.Request)
				require.NoError(t, err)
				at := regexp.MustCompile(`\.(\d+)\.content\.(\d+)`).FindStringSubmatch(storetest.PathIn(body, bad, true))
				if at == nil {
					return "fine", nil
				}
				message, _ := strconv.Atoi(at[1])
				block, _ := strconv.Atoi(at[2])
				return "", wire.NewAPIError(tt.status, fmt.Appendf(nil, tt.text, message+tt.first, block+tt.first))
			})
			require.NoError(t, err)
			require.Equal(t, 2, calls)
			require.Len(t, c.known("m").Left, 1)
		})
	}
}
