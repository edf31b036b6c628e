package guardtest_test

import (
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// Every answer is the same streamed and not, hostile ones too.
func TestAnswers(t *testing.T) {
	call := func(id, name, input string) transcript.ToolCallBlock {
		return transcript.ToolCallBlock{ID: id, Name: name, Input: json.RawMessage(input)}
	}
	tests := []struct {
		name   string
		answer guardtest.Answer
		want   []transcript.Block
		stop   transcript.StopReason
	}{
		{"text", guardtest.Say(words(20)), []transcript.Block{transcript.TextBlock{Text: words(20)}}, "end_turn"},
		{"letters of all kinds", guardtest.Say("<a> & \u2028 \"é\" 漢字 🙂\n"), []transcript.Block{transcript.TextBlock{Text: "<a> & \u2028 \"é\" 漢字 🙂\n"}}, "end_turn"},
		{"nothing", guardtest.Answer{}, nil, "end_turn"},
		{"empty text", guardtest.Answer{Blocks: []transcript.Block{transcript.TextBlock{}}}, []transcript.Block{transcript.TextBlock{}}, "end_turn"},
		{
			"calls",
			guardtest.Call(guardtest.Tool("read_file", `{"path": "a b c d e f g h i j k l m n", "n": 1.0}`), guardtest.Tool("list", "")),
			[]transcript.Block{call("toolu_1_1_0", "read_file", `{"path": "a b c d e f g h i j k l m n", "n": 1.0}`), call("toolu_1_1_1", "list", "{}")},
			"tool_use",
		},
		{
			"text and call",
			guardtest.Answer{Text: "Let me look.", Calls: []transcript.ToolCallBlock{call("x", "list", "{}")}},
			[]transcript.Block{transcript.TextBlock{Text: "Let me look."}, call("x", "list", "{}")},
			"tool_use",
		},
		{
			"reasoning",
			guardtest.Answer{Blocks: []transcript.Block{transcript.ThinkingBlock{Thinking: "Well ...", Signature: "c2ln"}, transcript.TextBlock{Text: "Yes."}}},
			[]transcript.Block{transcript.ThinkingBlock{Thinking: "Well ...", Signature: "c2ln"}, transcript.TextBlock{Text: "Yes."}},
			"end_turn",
		},
		{"input that is no object", guardtest.Call(guardtest.Tool("f", `[1]`)), []transcript.Block{call("toolu_1_1_0", "f", `[1]`)}, "tool_use"},
		{"input that is cut", guardtest.Call(guardtest.Tool("f", `{"path": "a`)), []transcript.Block{call("toolu_1_1_0", "f", `"{\"path\": \"a"`)}, "tool_use"},
		{
			"doubled, empty and odd names and IDs",
			guardtest.Answer{Blocks: []transcript.Block{call("a", "f", "{}"), call("a", "f", "{}"), call("", "a b/c", "{}")}},
			[]transcript.Block{call("a", "f", "{}"), call("a", "f", "{}"), call("", "a b/c", "{}")},
			"tool_use",
		},
		{"refusal", guardtest.Answer{Text: "I will not.", Stop: transcript.StopRefusal}, []transcript.Block{transcript.TextBlock{Text: "I will not."}}, "refusal"},
		{"cut off", guardtest.Answer{Text: "And then the", Stop: transcript.StopMaxTokens}, []transcript.Block{transcript.TextBlock{Text: "And then the"}}, "max_tokens"},
		{"window full", guardtest.Answer{Text: "And then the", Stop: transcript.StopContextWindow}, []transcript.Block{transcript.TextBlock{Text: "And then the"}}, "model_context_window_exceeded"},
	}
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				var got []*transcript.Response
				for _, stream := range []bool{false, true} {
					m := &guardtest.Model{Answer: guardtest.Always(tt.answer)}
					resp, err := start(m).ask(t.Context(), stream, hello())
					require.NoError(t, err)
					got = append(got, resp)
				}
				require.Equal(t, got[0], got[1], "not streamed, streamed")
				require.Equal(t, tt.want, got[0].Message.Content)
				require.Equal(t, tt.stop, got[0].StopReason)
				require.Equal(t, "model-1", got[0].Model)
				require.Equal(t, true, got[0].Usage.Input > 0)
			})
		}
	})
}

func TestUnknownBlocks(t *testing.T) {
	raw, err := transcript.UnmarshalBlock([]byte(`{"type":"hologram","data":{"x":1}}`))
	require.NoError(t, err)
	usage := transcript.Usage{Input: math.MaxInt, Output: -1, CacheRead: 7, Extra: transcript.Extra{"service_tier": json.RawMessage(`"odd"`)}}
	for _, stream := range []bool{false, true} {
		m := &guardtest.Model{Name: "model-2", Answer: guardtest.Always(guardtest.Answer{Blocks: []transcript.Block{raw}, Usage: &usage})}
		resp, err := inProcess(m).ask(t.Context(), stream, hello())
		require.NoError(t, err)
		require.Equal(t, []transcript.Block{raw}, resp.Message.Content)
		require.Equal(t, usage, resp.Usage)
		require.Equal(t, "model-2", resp.Model)
	}
}

// Events have the order and the names of the real ones.
func TestEvents(t *testing.T) {
	m := &guardtest.Model{Counter: counter{}, Answer: guardtest.Always(guardtest.Answer{Text: "Hi.", Calls: []transcript.ToolCallBlock{guardtest.Tool("f", `{"a":1}`)}})}
	body, _, err := anthropic.Format{Stream: true}.Request(hello())
	require.NoError(t, err)
	resp, err := inProcess(m).send(t.Context(), "/v1/messages", body)
	require.NoError(t, err)
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	want := `event: message_start
data: {"type":"message_start","message":{"model":"model-1","id":"msg_000001","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":13,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi."}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1_1_0","name":"f","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":1}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":13,"output_tokens":10}}

event: message_stop
data: {"type":"message_stop"}

`
	require.Equal(t, want, string(got))
	require.Equal(t, "text/event-stream; charset=utf-8", resp.Header.Get("Content-Type"))
	require.Equal(t, "req_000001", resp.Header.Get("Request-Id"))
}

// IDs that the model makes differ from the IDs of calls in the history.
func TestFreshIDs(t *testing.T) {
	req := hello()
	for _, id := range []string{"toolu_1_3_0", "toolu_1_3_1"} {
		req.Messages = append(req.Messages, transcript.Message{
			Role:    transcript.RoleAssistant,
			Content: []transcript.Block{transcript.ToolCallBlock{ID: id, Name: "f", Input: json.RawMessage("{}")}},
		}, transcript.ToolResult(id, "done"))
	}
	req.Messages = req.Messages[2:]
	req.Messages[0] = transcript.UserText("Hello.")
	m := &guardtest.Model{Answer: guardtest.Always(guardtest.Call(guardtest.Tool("f", "{}"), guardtest.Tool("f", "{}")))}
	resp, err := inProcess(m).ask(t.Context(), true, req)
	require.NoError(t, err)
	seen := map[string]bool{"toolu_1_3_1": true}
	for _, c := range resp.Message.ToolCalls() {
		require.Equal(t, false, seen[c.ID], c.ID)
		seen[c.ID] = true
	}
	require.Equal(t, 3, len(seen))
}

func TestOtherPathsAndMethods(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		m := new(guardtest.Model)
		c := start(m)
		for _, tt := range []struct {
			method, path string
			status       int
			kind         string
		}{
			{http.MethodPost, "/v1/complete", 404, "not_found_error"},
			{http.MethodGet, "/", 404, "not_found_error"},
			{http.MethodGet, "/v1/messages", 405, "invalid_request_error"},
		} {
			r, err := http.NewRequestWithContext(t.Context(), tt.method, c.url+tt.path, http.NoBody)
			require.NoError(t, err)
			resp, err := c.http.Do(r)
			require.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			e := wire.NewAPIError(resp.StatusCode, body)
			require.Equal(t, tt.status, e.Status, tt.path)
			require.Equal(t, tt.kind, e.Type, tt.path)
			require.Equal(t, resp.Header.Get("Request-Id"), e.RequestID)
		}
		require.Equal(t, guardtest.Stats{}, m.Stats())
	})
}

func TestRules(t *testing.T) {
	ask := func(c client, req transcript.Request) string {
		resp, err := c.ask(t.Context(), false, req)
		if err != nil {
			return err.Error()
		}
		return resp.Message.Text()
	}
	summary := hello()
	summary.System = "Summarize the conversation."
	results := hello()
	results.Messages = append(results.Messages, transcript.Message{
		Role:    transcript.RoleAssistant,
		Content: []transcript.Block{transcript.ToolCallBlock{ID: "a", Name: "f", Input: json.RawMessage("{}")}},
	}, transcript.ToolResult("a", "42"))
	silent := results
	silent.Messages = append([]transcript.Message{}, results.Messages...)
	silent.Messages[2] = transcript.ToolResult("a", "")

	say := guardtest.Say
	tests := []struct {
		name string
		rule guardtest.Rule
		reqs []transcript.Request
		want []string
	}{
		{"echo", nil, []transcript.Request{hello(), results, silent}, []string{"Hello, model.", "42", "(nothing)"}},
		{"script", guardtest.Script(say("a"), say("b")), []transcript.Request{hello(), hello(), hello()}, []string{"a", "b", "wire: status 400 invalid_request_error: guardtest: the script has no more answers (request req_000003)"}},
		{"start", guardtest.Start(nil, say("a")), []transcript.Request{hello(), hello()}, []string{"a", "Hello, model."}},
		{
			"when", guardtest.When(guardtest.SystemHas("Summarize"), guardtest.Always(say("summary")), guardtest.Script(say("a"), say("b"))),
			[]transcript.Request{hello(), summary, hello()},
			[]string{"a", "summary", "b"},
		},
		{"after tools", guardtest.When(guardtest.AfterTools, guardtest.Always(say("done")), nil), []transcript.Request{results, hello()}, []string{"done", "Hello, model."}},
		{"user has", guardtest.When(guardtest.UserHas("Hello"), guardtest.Always(say("hi")), nil), []transcript.Request{results, hello()}, []string{"42", "hi"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := inProcess(&guardtest.Model{Answer: tt.rule})
			var got []string
			for _, req := range tt.reqs {
				got = append(got, ask(c, req))
			}
			require.Equal(t, tt.want, got)
		})
	}
}

func TestLimits(t *testing.T) {
	text := strings.Repeat("é", 50) // 100 bytes, a token each
	input := `{"text":"` + strings.Repeat("x", 91) + `"}`
	tests := []struct {
		name                              string
		model                             guardtest.Model
		max                               int
		answer                            guardtest.Answer
		wantText, wantInput, wantThinking string
		stop                              transcript.StopReason
		refused                           string
	}{
		{name: "fits", max: 100, answer: guardtest.Say(text), wantText: text, stop: "end_turn"},
		{name: "text over max_tokens", max: 99, answer: guardtest.Say(text), wantText: text[:98], stop: "max_tokens"},
		{name: "text over the window", model: guardtest.Model{Window: 13 + 60}, max: 99, answer: guardtest.Say(text), wantText: text[:60], stop: "model_context_window_exceeded"},
		{name: "max_tokens first", model: guardtest.Model{Window: 13 + 60}, max: 50, answer: guardtest.Say(text), wantText: text[:50], stop: "max_tokens"},
		{name: "no room", model: guardtest.Model{Window: 13}, max: 50, answer: guardtest.Say(text), stop: "model_context_window_exceeded"},
		{
			name: "input of a call", max: 110, answer: guardtest.Answer{Text: "0123456789", Calls: []transcript.ToolCallBlock{guardtest.Tool("f", input)}},
			wantText: "0123456789", wantInput: input[:100], stop: "max_tokens",
		},
		{
			name: "reasoning", max: 60, answer: guardtest.Answer{Blocks: []transcript.Block{transcript.ThinkingBlock{Thinking: strings.Repeat("x", 50), Signature: "c2ln"}, transcript.TextBlock{Text: text}}},
			wantThinking: strings.Repeat("x", 50), wantText: text[:10], stop: "max_tokens",
		},
		{
			name: "cut reasoning", max: 40, answer: guardtest.Answer{Blocks: []transcript.Block{transcript.ThinkingBlock{Thinking: strings.Repeat("x", 50), Signature: "c2ln"}, transcript.TextBlock{Text: text}}},
			wantThinking: strings.Repeat("x", 40), stop: "max_tokens",
		},
		{name: "call left out", max: 10, answer: guardtest.Answer{Text: "0123456789", Calls: []transcript.ToolCallBlock{guardtest.Tool("f", input)}}, wantText: "0123456789", stop: "max_tokens"},
		{name: "prompt too long", model: guardtest.Model{Window: 12}, max: 1, refused: "prompt is too long: 13 tokens > 12 maximum"},
		{
			name: "prompt and output", model: guardtest.Model{Window: 20, ReserveOutput: true}, max: 8,
			refused: "input length and `max_tokens` exceed context limit: 13 + 8 > 20, decrease input length or `max_tokens` and try again",
		},
		{name: "prompt and output fit", model: guardtest.Model{Window: 20, ReserveOutput: true}, max: 7, answer: guardtest.Say("1234567"), wantText: "1234567", stop: "end_turn"},
		{
			name: "output", model: guardtest.Model{MaxOutput: 64, Window: 1}, max: 65,
			refused: "max_tokens: 65 > 64, which is the maximum allowed number of output tokens for model-1",
		},
		{
			name: "output of a named model", model: guardtest.Model{MaxOutput: 64, Name: "small"}, max: 65,
			refused: "max_tokens: 65 > 64, which is the maximum allowed number of output tokens for small",
		},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			for _, stream := range []bool{false, true} {
				m := &guardtest.Model{
					Name: tt.model.Name, Window: tt.model.Window, MaxOutput: tt.model.MaxOutput, ReserveOutput: tt.model.ReserveOutput,
					Counter: counter{}, Answer: guardtest.Always(tt.answer),
				}
				req := hello()
				req.MaxOutput = tt.max
				resp, err := inProcess(m).ask(t.Context(), stream, req)
				if tt.refused != "" {
					e := apiError(t, err)
					require.Equal(t, tt.refused, e.Message)
					require.Equal(t, 400, e.Status)
					require.Equal(t, tt.refused, m.Requests()[0].Refused)
					overflow := tt.model.MaxOutput == 0
					require.Equal(t, overflow, m.Stats().Overflows == 1)
					require.Equal(t, !overflow, len(m.Invalid()) == 1)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, tt.stop, resp.StopReason)
				require.Equal(t, tt.wantText, resp.Message.Text())
				calls := resp.Message.ToolCalls()
				if tt.wantInput == "" {
					require.Equal(t, 0, len(calls))
				} else {
					var input string
					require.NoError(t, json.Unmarshal(calls[0].Input, &input))
					require.Equal(t, tt.wantInput, input)
				}
				require.Equal(t, 13, resp.Usage.Input)
				thinking := ""
				for _, b := range resp.Message.Content {
					if b, ok := b.(transcript.ThinkingBlock); ok {
						thinking = b.Thinking
					}
				}
				require.Equal(t, tt.wantThinking, thinking)
				require.Equal(t, len(tt.wantText)+len(tt.wantInput)+len(thinking), resp.Usage.Output)
			}
		})
	}
}
