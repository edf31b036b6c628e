package guardtest_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

const (
	geminiModel  = "gemini-3-pro"
	bedrockModel = "anthropic.claude-x-v1:0"
)

// A speaker asks a model over one API and reads its answer.
type speaker struct {
	name  string
	model string
	ask   func(ctx context.Context, c client, req transcript.Request, stream bool) (*transcript.Response, error)
}

var (
	geminiSpeaker  = speaker{"gemini", geminiModel, askGemini}
	bedrockSpeaker = speaker{"bedrock", bedrockModel, askBedrock}
)

func askGemini(ctx context.Context, c client, req transcript.Request, stream bool) (*transcript.Response, error) {
	format := gemini.Format{Stream: stream}
	body, _, err := format.Request(req)
	if err != nil {
		return nil, err
	}
	return c.answer(ctx, "/v1beta/"+format.Path(req.Model), body, stream, format.NewStream(), format.Response)
}

func askBedrock(ctx context.Context, c client, req transcript.Request, stream bool) (*transcript.Response, error) {
	format := bedrock.Format{Stream: stream, Model: req.Model, PureResults: strings.Contains(req.Model, "llama")}
	body, _, err := format.Request(req)
	if err != nil {
		return nil, err
	}
	resp, err := c.send(ctx, format.Path(req.Model), body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		e := wire.NewAPIError(resp.StatusCode, data)
		e.Type = resp.Header.Get("X-Amzn-Errortype")
		return nil, e
	}
	if !stream {
		if err != nil {
			return nil, err
		}
		return format.Response(data)
	}
	s := format.NewStream()
	err = errors.Join(readFrames(data, s), err)
	return s.Response(), err
}

// readFrames adds the events of a stream.
func readFrames(data []byte, s wire.Stream) error {
	for len(data) > 0 {
		kind, payload, rest, ok := frame(data)
		if !ok {
			return io.ErrUnexpectedEOF
		}
		if _, err := s.Add(bedrock.Event(kind, payload)); err != nil {
			return err
		}
		data = rest
	}
	return nil
}

// frame takes one event off a stream.
func frame(data []byte) (kind string, payload, rest []byte, ok bool) {
	if len(data) < 16 {
		return "", nil, nil, false
	}
	size, headers := binary.BigEndian.Uint32(data), binary.BigEndian.Uint32(data[4:])
	if int(size) > len(data) || crc32.ChecksumIEEE(data[:8]) != binary.BigEndian.Uint32(data[8:]) ||
		crc32.ChecksumIEEE(data[:size-4]) != binary.BigEndian.Uint32(data[size-4:]) {
		return "", nil, nil, false
	}
	for h := data[12 : 12+headers]; len(h) > 0; {
		name := string(h[1 : 1+h[0]])
		h = h[2+h[0]:]
		value := h[2 : 2+binary.BigEndian.Uint16(h)]
		if name == ":event-type" || name == ":exception-type" {
			kind = string(value)
		}
		h = h[2+len(value):]
	}
	return kind, data[12+headers : size-4], data[size:], true
}

// eachWay runs a test for each of them, streamed and not.
func eachWay(t *testing.T, speakers []speaker, f func(t *testing.T, s speaker, stream bool)) {
	for _, s := range speakers {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, %s, streamed %v", s.name, s.model, stream), func(t *testing.T) { f(t, s, stream) })
		}
	}
}

// An answer comes unchanged, whole and streamed, with its cost.
func TestProviderAnswers(t *testing.T) {
	call := guardtest.Tool("read", `{"path": "a b c d e f g h i j k l m n", "n": 1.0}`)
	call.ID = "tool_1"
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		eachWay(t, providers, func(t *testing.T, s speaker, stream bool) {
			text := strings.Repeat("one two three ", 20)
			m := &guardtest.Model{Answer: guardtest.Always(guardtest.Answer{
				Text: text, Calls: []transcript.ToolCallBlock{call}, Usage: &transcript.Usage{Input: 3, Output: 5, CacheRead: 7},
			})}
			req := transcript.Request{Model: s.model, System: "s", Messages: []transcript.Message{transcript.UserText("hi")}, Tools: []transcript.Tool{{Name: "read"}}}
			resp, err := s.ask(t.Context(), start(m), req, stream)
			require.NoError(t, err)
			calls := resp.Message.ToolCalls()
			if resp.API != s.name || resp.Model != s.model || resp.StopReason != transcript.StopToolUse || resp.Message.Text() != text ||
				len(calls) != 1 || calls[0].ID != call.ID || !sameInput(calls[0].Input, call.Input) {
				t.Errorf("answer = %+v", resp)
			}
			if u := resp.Usage; u.Input != 3 || u.Output != 5 || u.CacheRead != 7 {
				t.Errorf("usage = %+v", u)
			}
			r := m.Requests()[0]
			if r.Outcome != guardtest.Answered || r.System != "s" || r.UserText() != "hi" || len(r.Tools) != 1 || r.Tokens == 0 || r.Stream != stream {
				t.Errorf("recorded is %+v", r)
			}
		})
	})
}

func sameInput(a, b json.RawMessage) bool {
	var x, y any
	return json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && fmt.Sprint(x) == fmt.Sprint(y)
}

// The scripted model refuses the requests that the provider refuses, in its
// words.
func TestOtherRefusals(t *testing.T) {
	tests := []struct{ path, body, want string }{
		{"/v1beta/models/gemini-3-pro:generateContent", `{"contents":[]}`, "* GenerateContentRequest.contents: contents is not specified"},
		{"/v1beta/models/gemini-3-pro:generateContent", `{`, "Invalid JSON payload received. Unexpected token."},
		{"/v1beta/models/gemini-2.5-pro:streamGenerateContent", `{"contents":[{"role":"user","parts":[{"text":"x"}]},{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"role":"user","parts":[{"text":"x"}]}]}`, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."},
		{"/model/m/converse", `{"messages":[]}`, "A conversation must start with a user message. Try again with a conversation that starts with a user message."},
		{"/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":""}]}]}`, "The text field in the ContentBlock object at messages.0.content.0 is blank. Add text to the text field, and try again."},
	}
	m := &guardtest.Model{}
	c := inProcess(m)
	for _, tt := range tests {
		resp, err := c.send(t.Context(), tt.path, []byte(tt.body))
		require.NoError(t, err)
		data, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		e := wire.NewAPIError(resp.StatusCode, data)
		if resp.StatusCode != http.StatusBadRequest || e.Message != tt.want {
			t.Errorf("%s %s: %d %s", tt.path, tt.body, resp.StatusCode, data)
		}
	}
	require.Equal(t, len(tests), m.Stats().Invalid)
	resp, err := c.http.Get(c.url + "/model/m/converse")
	require.NoError(t, err)
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("GET: %v, %v", resp, err)
	}
}

// A guard tells overflows from other errors of each API, and reads the sizes.
func TestProviderErrors(t *testing.T) {
	long := transcript.UserText(strings.Repeat("lorem ipsum ", 500))
	eachWay(t, providers, func(t *testing.T, s speaker, stream bool) {
		m := &guardtest.Model{Window: 300, MaxOutput: 50}
		_, err := s.ask(t.Context(), inProcess(m), transcript.Request{Model: s.model, MaxOutput: 50, Messages: []transcript.Message{long}}, stream)
		if o := guard.Classify(err); o.Kind != guard.Tokens || s.name != "openai-responses" && (o.Limit != 300 || o.Prompt <= 300) { // without sizes
			t.Errorf("%v is %+v", err, o)
		}
		if m.Stats().Overflows != 1 {
			t.Errorf("%d overflows", m.Stats().Overflows)
		}
		short := transcript.Request{Model: s.model, Messages: []transcript.Message{transcript.UserText("hi")}, MaxOutput: 100}
		_, err = s.ask(t.Context(), inProcess(m), short, stream)
		if o := guard.Classify(err); err == nil || o.Kind != guard.NotOverflow {
			t.Errorf("%v is %+v", err, o)
		}
		for _, a := range []guardtest.Answer{
			guardtest.Overloaded(), guardtest.RateLimited(0), guardtest.Broken(), guardtest.Unauthorized(),
			guardtest.Page(502, "<html>Bad Gateway</html>"), guardtest.CutInput(guardtest.Say("never")),
			guardtest.Fail(402, "", "billing"), guardtest.Fail(404, "", "no such model"), guardtest.Fail(504, "", "deadline"),
			guardtest.CutAfter(1, guardtest.Say("never")),
			guardtest.FailAfter(1, "overloaded_error", "Overloaded", guardtest.Say("never")),
		} {
			m := &guardtest.Model{Answer: guardtest.Always(a)}
			short.MaxOutput = 0
			resp, err := s.ask(t.Context(), inProcess(m), short, stream)
			if o := guard.Classify(err); err == nil || o.Kind != guard.NotOverflow || m.Stats().Failed != 1 {
				t.Errorf("%+v: %v, %v is %+v", a, resp, err, o)
			}
		}
	})
}

// The output limit and the window cut an answer.
func TestProviderLimits(t *testing.T) {
	eachWay(t, providers, func(t *testing.T, s speaker, stream bool) {
		m := &guardtest.Model{Answer: guardtest.Always(guardtest.Say(strings.Repeat("one two three ", 100)))}
		req := transcript.Request{Model: s.model, Messages: []transcript.Message{transcript.UserText("hi")}, MaxOutput: 20}
		resp, err := s.ask(t.Context(), inProcess(m), req, stream)
		if err != nil || resp.StopReason != transcript.StopMaxTokens || resp.Message.Text() == "" {
			t.Errorf("answer = %+v, %v", resp, err)
		}
	})
}

// A model sees a request in blocks, and answers with any blocks.
func TestOtherBlocks(t *testing.T) {
	image := transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "iVBORw0KGgo="}}
	document := transcript.DocumentBlock{Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: "JVBERi0x"}}
	said := []transcript.Block{
		transcript.ThinkingBlock{Thinking: "Hm.", Signature: "c2ln"},
		transcript.RedactedThinkingBlock{Data: "ZGF0YQ=="},
		transcript.TextBlock{Text: "So."},
		transcript.RawBlock{JSON: json.RawMessage(`{"type":"gemini_part","part":{"executableCode":{"code":"1","language":"PYTHON"}}}`)},
		transcript.ToolCallBlock{ID: "a", Name: "f", Input: json.RawMessage("[1")},
	}
	want := map[string]string{"gemini": "thinking text gemini_part tool_use", "bedrock": "thinking redacted_thinking text tool_use"}
	eachWay(t, []speaker{geminiSpeaker, bedrockSpeaker}, func(t *testing.T, s speaker, stream bool) {
		m := &guardtest.Model{Answer: guardtest.Always(guardtest.Answer{Blocks: said, Stop: transcript.StopRefusal})}
		origin := transcript.Origin{API: s.name, Model: s.model}
		resp, err := s.ask(t.Context(), inProcess(m), transcript.Request{Model: s.model, Messages: []transcript.Message{
			{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "look"}, image, document}},
			{
				Role: transcript.RoleAssistant, Content: []transcript.Block{said[0], transcript.ToolCallBlock{ID: "b", Name: "f", Input: json.RawMessage("{}")}},
				Origins: []transcript.Origin{origin, origin},
			},
			{Role: transcript.RoleUser, Content: []transcript.Block{transcript.ToolResultBlock{CallID: "b", Content: []transcript.Block{image}}}},
		}}, stream)
		require.NoError(t, err)
		var kinds, seen []string
		for _, b := range resp.Message.Content {
			kinds = append(kinds, transcript.BlockType(b))
		}
		calls := resp.Message.ToolCalls()
		if got := strings.Join(kinds, " "); got != want[s.name] || resp.StopReason != transcript.StopRefusal || string(calls[0].Input) != `"[1"` {
			t.Errorf("%q, %s, %s", got, resp.StopReason, calls[0].Input)
		}
		for _, msg := range m.Requests()[0].Messages {
			for _, b := range msg.Content {
				seen = append(seen, transcript.BlockType(b))
			}
		}
		if got := strings.Join(seen, " "); !strings.HasPrefix(got, "text image document thinking tool_use tool_result") {
			t.Errorf("the model sees %q", got)
		}
	})
}

// Errors are said with the status, the type and the words of the provider.
func TestOtherWords(t *testing.T) {
	want := map[string][2]string{
		"gemini":  {"400 INVALID_ARGUMENT Request payload size exceeds the limit: 100 bytes.", "503 UNAVAILABLE The model is overloaded. Please try again later."},
		"bedrock": {"400 ValidationException Request payload size exceeds the limit: 100 bytes.", "503 ServiceUnavailableException Bedrock is unable to process your request."},
	}
	eachWay(t, []speaker{geminiSpeaker, bedrockSpeaker}, func(t *testing.T, s speaker, stream bool) {
		for i, m := range []*guardtest.Model{{MaxBody: 100}, {Answer: guardtest.Always(guardtest.Overloaded())}} {
			req := transcript.Request{Model: s.model, Messages: []transcript.Message{transcript.UserText(words(i*10 + 100))}}
			_, err := s.ask(t.Context(), inProcess(m), req, stream)
			e := apiError(t, err)
			require.Equal(t, want[s.name][i], fmt.Sprint(e.Status, " ", e.Type, " ", e.Message))
			r := m.Requests()[0]
			require.Equal(t, e.Status, r.Status)
			require.Equal(t, e.Message, r.Refused)
			require.Equal(t, []guardtest.Outcome{guardtest.Overflow, guardtest.Failed}[i], r.Outcome)
		}
	})
}
