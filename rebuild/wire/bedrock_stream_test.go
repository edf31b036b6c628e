package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/transcript"
)

// A bedrockEvent is an event of a stream.
type bedrockEvent struct{ kind, payload string }

// bedrockEvents streams a body as ConverseStream does, in deltas of n bytes.
func bedrockEvents(t testing.TB, body string, n int) (events []bedrockEvent) {
	t.Helper()
	var msg struct {
		Output struct {
			Message struct{ Content []map[string]json.RawMessage }
		}
		StopReason string
		Usage      json.RawMessage
	}
	require.NoError(t, json.Unmarshal([]byte(body), &msg))
	add := func(kind, format string, args ...any) {
		events = append(events, bedrockEvent{kind, fmt.Sprintf(format, args...)})
	}
	str := func(raw json.RawMessage) (s string) {
		require.NoError(t, json.Unmarshal(raw, &s))
		return s
	}
	members := func(raw json.RawMessage) (m map[string]json.RawMessage) {
		require.NoError(t, json.Unmarshal(raw, &m))
		return m
	}
	add("messageStart", `{"role":"assistant","p":"abc"}`)
	for i, b := range msg.Output.Message.Content {
		deltas := func(format, text string) {
			for _, piece := range cut(text, n) {
				add("contentBlockDelta", `{"contentBlockIndex":%d,"delta":`+format+`}`, i, quoteAny(t, piece))
			}
		}
		switch {
		case b["text"] != nil:
			deltas(`{"text":%s}`, str(b["text"]))
		case b["toolUse"] != nil:
			call := members(b["toolUse"])
			add("contentBlockStart", `{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":%s,"name":%s}}}`, i, call["toolUseId"], call["name"])
			if string(call["input"]) != "{}" {
				deltas(`{"toolUse":{"input":%s}}`, string(call["input"]))
			}
		case b["citationsContent"] != nil:
			var cited struct {
				Content   []struct{ Text string }
				Citations []json.RawMessage
			}
			require.NoError(t, json.Unmarshal(b["citationsContent"], &cited))
			deltas(`{"text":%s}`, cited.Content[0].Text)
			for _, c := range cited.Citations {
				add("contentBlockDelta", `{"contentBlockIndex":%d,"delta":{"citation":%s}}`, i, c)
			}
		case b["reasoningContent"] != nil:
			r := members(b["reasoningContent"])
			if r["redactedContent"] != nil {
				add("contentBlockDelta", `{"contentBlockIndex":%d,"delta":{"reasoningContent":%s}}`, i, b["reasoningContent"])
				break
			}
			text := members(r["reasoningText"])
			deltas(`{"reasoningContent":{"text":%s}}`, str(text["text"]))
			deltas(`{"reasoningContent":{"signature":%s}}`, str(text["signature"]))
		}
		add("contentBlockStop", `{"contentBlockIndex":%d}`, i)
		add("somethingNew", `{}`)
	}
	add("messageStop", `{"stopReason":%q}`, msg.StopReason)
	if msg.Usage == nil {
		msg.Usage = json.RawMessage("null")
	}
	add("metadata", `{"usage":%s,"metrics":{"latencyMs":1}}`, msg.Usage)
	return events
}

// A streamed answer is recorded like the whole one; cut after any event, it
// contains all shown text and no half signature.
func TestBedrockStream(t *testing.T) {
	b := bedrock.Format{Model: bedrockModel}
	for name, body := range bedrockAnswers {
		whole, err := b.Response([]byte(body))
		require.NoError(t, err)
		for _, n := range []int{1, 7, 1000} {
			s := b.NewStream()
			var shown strings.Builder
			done := false
			for _, e := range bedrockEvents(t, body, n) {
				event := bedrock.Event(e.kind, []byte(e.payload))
				d, err := s.Add(event)
				require.NoError(t, err, "%s", name)
				clear(event) // the stream must not keep it
				shown.WriteString(d.Text)
				done = done || d.Done
				resp := s.Response()
				if got := resp.Message.Text(); got != shown.String() || !done && resp.StopReason != transcript.StopAborted {
					t.Errorf("%s: %+v, shown %q", name, resp, &shown)
				}
				for _, b := range resp.Message.Content {
					if th, ok := b.(transcript.ThinkingBlock); ok && th.Signature != "" && th.Signature != "c2ln" {
						t.Errorf("half a signature: %q", th.Signature)
					}
				}
				lines(t, resp)
			}
			if got, want := lines(t, s.Response()), lines(t, whole); !done || !sameJSON(t, got, want) {
				t.Errorf("%s in deltas of %d:\n%s\nwant\n%s", name, n, got, want)
			}
		}
	}
}

func TestBedrockStreamErrors(t *testing.T) {
	text := bedrockEvent{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"Hel"}}`}
	stop := bedrockEvent{"contentBlockStop", `{"contentBlockIndex":0}`}
	tests := []struct {
		events []bedrockEvent
		want   string
	}{
		{[]bedrockEvent{{"messageStart", `{`}}, `wire: stream: event is not a JSON object: `},
		{[]bedrockEvent{{"messageStart", `{"role":"user"}`}}, `wire: the answer has role "user"`},
		{[]bedrockEvent{stop}, `wire: stream: event about a block that is not open: `},
		{[]bedrockEvent{text, stop, text}, `wire: stream: event about a block that is not open: `},
		{[]bedrockEvent{{"messageStop", `{}`}, text}, `wire: stream: "contentBlockDelta" after the end of the answer`},
		{[]bedrockEvent{{"metadata", `{"usage":7}`}}, `wire: the answer's usage is not an object: "7"`},
		{[]bedrockEvent{{"contentBlockDelta", `{"contentBlockIndex":0}`}}, `wire: stream: delta is not an object: `},
	}
	for _, tt := range tests {
		s := bedrock.Format{}.NewStream()
		var err error
		for _, e := range tt.events {
			_, err = s.Add(bedrock.Event(e.kind, []byte(e.payload)))
		}
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
	s := bedrock.Format{}.NewStream()
	_, _ = s.Add(bedrock.Event(text.kind, []byte(text.payload)))
	_, err := s.Add(bedrock.Event("modelStreamErrorException", []byte(`{"message":"it broke"}`)))
	var apiErr *wire.APIError
	require.True(t, errors.As(err, &apiErr))
	require.Equal(t, "modelStreamErrorException", apiErr.Type)
	require.Equal(t, "it broke", apiErr.Message)
	resp := s.Response()
	require.Equal(t, transcript.StopError, resp.StopReason)
	require.Equal(t, "Hel", resp.Message.Text())
}

// The input is a stream: each line has the type of an event and its payload.
func FuzzBedrockStream(f *testing.F) {
	for _, body := range bedrockAnswers {
		var sb strings.Builder
		for _, e := range bedrockEvents(f, body, 5) {
			sb.WriteString(e.kind + " " + e.payload + "\n")
		}
		f.Add([]byte(sb.String()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = fed(t, typed{bedrock.Format{}.NewStream()}, data)
	})
}

// typed takes events as lines.
type typed struct{ wire.Stream }

func (s typed) Add(line []byte) (wire.Delta, error) {
	kind, payload, _ := bytes.Cut(line, []byte(" "))
	return s.Stream.Add(bedrock.Event(string(kind), payload))
}
