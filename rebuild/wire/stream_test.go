package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/transcript"
)

// events streams a body as the Messages API does, in deltas of n bytes cut at
// runes.
func events(t testing.TB, body string, n int) []string {
	t.Helper()
	var msg map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(body), &msg))
	var content []map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(msg["content"], &content))
	quote := func(s string) json.RawMessage {
		q, err := json.Marshal(s)
		require.NoError(t, err)
		return q
	}
	object := func(m any) string { return string(quoteAny(t, m)) }
	usage, reason := msg["usage"], msg["stop_reason"]
	msg["content"], msg["stop_reason"] = json.RawMessage("[]"), json.RawMessage("null")
	if usage != nil {
		msg["usage"] = json.RawMessage(`{"input_tokens":1,"output_tokens":1}`)
	}
	out := []string{fmt.Sprintf(`{"type":"message_start","message":%s}`, object(msg)), `{"type":"ping"}`}
	for i, b := range content {
		var deltas []string
		delta := func(kind, member string, text string) {
			for _, part := range cut(text, n) {
				deltas = append(deltas, fmt.Sprintf(`{"type":%q,%q:%s}`, kind, member, quote(part)))
			}
		}
		str := func(name string) (s string) {
			require.NoError(t, json.Unmarshal(b[name], &s))
			return s
		}
		switch str("type") {
		case "text":
			delta("text_delta", "text", str("text"))
			b["text"] = quote("")
			var citations []json.RawMessage
			if b["citations"] != nil {
				require.NoError(t, json.Unmarshal(b["citations"], &citations))
				b["citations"] = json.RawMessage("[]")
			}
			for _, c := range citations {
				deltas = append(deltas, fmt.Sprintf(`{"type":"citations_delta","citation":%s}`, c))
			}
		case "thinking":
			delta("thinking_delta", "thinking", str("thinking"))
			delta("signature_delta", "signature", str("signature"))
			b["thinking"], b["signature"] = quote(""), quote("")
		case "tool_use", "server_tool_use":
			input := string(b["input"])
			if input == "{}" {
				input = ""
				deltas = append(deltas, `{"type":"input_json_delta","partial_json":""}`)
			}
			delta("input_json_delta", "partial_json", input)
			b["input"] = json.RawMessage("{}")
		}
		out = append(out, fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":%s}`, i, object(b)))
		for _, d := range deltas {
			out = append(out, fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":%s}`, i, d))
		}
		out = append(out, fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, i), `{"type":"something_new"}`)
	}
	if usage == nil {
		usage = json.RawMessage("null")
	}
	return append(out, fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%s},"usage":%s}`, reason, usage), `{"type":"message_stop"}`)
}

func quoteAny(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// cut splits text into parts of about n bytes.
func cut(text string, n int) (parts []string) {
	for start := 0; start < len(text); {
		end := min(start+n, len(text))
		for end < len(text) && text[end]&0xc0 == 0x80 {
			end++
		}
		parts = append(parts, text[start:end])
		start = end
	}
	return parts
}

// A streamed answer is recorded like the whole one, byte for byte, whatever the
// size of the deltas.
func TestStreamEqualsResponse(t *testing.T) {
	for name, body := range answers {
		whole, err := anthropic.Format{}.Response([]byte(body))
		require.NoError(t, err)
		for _, n := range []int{1, 7, 1000} {
			s := anthropic.Format{}.NewStream()
			done := false
			for _, e := range events(t, body, n) {
				event := []byte(e)
				d, err := s.Add(event)
				require.NoError(t, err, "%s", name)
				clear(event) // the stream must not keep it
				done = d.Done
			}
			if !done {
				t.Errorf("%s: not done", name)
			}
			got, want := lines(t, s.Response()), lines(t, whole)
			// Members without a field are the same, in any order.
			if !sameJSON(t, got, want) {
				t.Errorf("%s in deltas of %d:\n%s\nwant\n%s", name, n, got, want)
			}
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	norm := func(s string) string {
		var out []string
		for line := range strings.Lines(s) {
			dec := json.NewDecoder(strings.NewReader(line))
			dec.UseNumber()
			var v map[string]any
			require.NoError(t, dec.Decode(&v))
			out = append(out, string(quoteAny(t, v)))
		}
		return strings.Join(out, "\n")
	}
	return norm(a) == norm(b)
}

// The deltas shown to a user add up to the recorded answer.
func TestStreamDeltas(t *testing.T) {
	s := anthropic.Format{}.NewStream()
	var text, thinking, input strings.Builder
	var tools []string
	for _, e := range events(t, answers["calls"], 5) {
		d, err := s.Add([]byte(e))
		require.NoError(t, err)
		text.WriteString(d.Text)
		thinking.WriteString(d.Thinking)
		input.WriteString(d.Input)
		if d.ToolName != "" {
			tools = append(tools, d.ToolName)
		}
	}
	if text.String() != "Two calls." || thinking.String() != "Let me see." || !slices.Equal(tools, []string{"read", "list"}) ||
		input.String() != `{"path":"a \"b\".go","line":1.0,"é":null}` {
		t.Errorf("text %q, thinking %q, tools %q, input %q", &text, &thinking, tools, &input)
	}
}

// A stream that is cut after any event leaves an answer that can be recorded,
// with all shown text.
func TestStreamCut(t *testing.T) {
	for name, body := range answers {
		all := events(t, body, 3)
		for n := range len(all) {
			s := anthropic.Format{}.NewStream()
			var shown strings.Builder
			for _, e := range all[:n] {
				d, err := s.Add([]byte(e))
				require.NoError(t, err)
				shown.WriteString(d.Text)
			}
			resp := s.Response()
			if resp.StopReason != transcript.StopAborted || resp.API != "anthropic" {
				t.Fatalf("%s cut after %d events: %+v", name, n, resp)
			}
			if got := resp.Message.Text(); got != shown.String() {
				t.Errorf("%s cut after %d events: text %q, shown %q", name, n, got, shown.String())
			}
			for _, c := range resp.Message.ToolCalls() {
				finished := slices.ContainsFunc(all[:n], func(e string) bool {
					return strings.Contains(e, "content_block_stop") && strings.Contains(e, fmt.Sprintf(`"index":%d`, indexOf(resp.Message, c.ID)))
				})
				if complete := len(c.Input) > 0 && c.Input[0] == '{'; complete != finished && (finished || string(c.Input) != `{"path":"a \"b\".go","line":1.0,"é":null}`) {
					t.Errorf("%s cut after %d events: call %s, finished %v", name, n, c.Input, finished)
				}
			}
			for _, b := range resp.Message.Content {
				if th, ok := b.(transcript.ThinkingBlock); ok && th.Signature != "" && th.Signature != "c2ln" {
					t.Errorf("half a signature: %q", th.Signature)
				}
			}
			lines(t, resp)
		}
	}
}

func indexOf(m transcript.Message, id string) int {
	return slices.IndexFunc(m.Content, func(b transcript.Block) bool {
		c, ok := b.(transcript.ToolCallBlock)
		return ok && c.ID == id
	})
}

func TestStreamErrorEvent(t *testing.T) {
	all := events(t, answers["text"], 4)
	s := anthropic.Format{}.NewStream()
	for _, e := range all[:5] {
		_, err := s.Add([]byte(e))
		require.NoError(t, err)
	}
	// Some proxies leave out the type.
	if _, err := (anthropic.Format{}).NewStream().Add([]byte(`{"error":{"message":"m"}}`)); err == nil || err.Error() != "wire: m" {
		t.Errorf("error without a type: %v", err)
	}
	_, err := s.Add([]byte(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`))
	var apiErr *wire.APIError
	require.True(t, errors.As(err, &apiErr))
	require.Equal(t, "overloaded_error", apiErr.Type)
	require.Equal(t, "Overloaded", apiErr.Message)
	resp := s.Response()
	require.Equal(t, transcript.StopError, resp.StopReason)
	require.Equal(t, "Hello, 世", resp.Message.Text())
}

// A null instead of an error means no error.
func TestStreamErrorNull(t *testing.T) {
	s := anthropic.Format{}.NewStream()
	for _, event := range []string{
		`{"type":"message_start","message":{"role":"assistant","content":[],"usage":{}},"error":null}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"hi"},"error":null}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`,
	} {
		_, err := s.Add([]byte(event))
		require.NoError(t, err)
	}
	require.Equal(t, "hi", s.Response().Message.Text())
	s = gemini.Format{}.NewStream()
	_, err := s.Add([]byte(`{"error":null,"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}]}`))
	require.NoError(t, err)
	require.Equal(t, "hi", s.Response().Message.Text())
}
