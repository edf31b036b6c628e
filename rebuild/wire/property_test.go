package wire_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// checkRender checks the rules for every request: the body is valid JSON; if
// rendering repairs all violations of the request, the body is valid; without
// violations only reasoning is omitted; and rendering the body again changes
// nothing.
func checkRender(t *testing.T, req transcript.Request) {
	t.Helper()
	body, report, err := anthropic.Format{}.Request(req)
	if err != nil {
		return
	}
	require.True(t, json.Valid(body))
	var got transcript.Request
	require.NoError(t, json.Unmarshal(body, &got))
	before, after := wiretest.Validate(req), wiretest.Validate(got)
	for _, v := range before {
		if !repairable(v) {
			return
		}
	}
	if n := len(req.Messages); n > 0 && req.Messages[n-1].Role == transcript.RoleAssistant {
		return // it may turn out not to be a paused answer
	}
	if len(after) > 0 {
		t.Fatalf("violations after rendering: %v\nbefore: %v\nreport: %v\nbody: %s", after, before, report, body)
	}
	if len(before) == 0 && !slices.ContainsFunc(req.Messages, foreign) && !reported(report, "dropped-thinking") {
		if len(report) > 0 {
			t.Fatalf("a valid request was changed: %v", report)
		}
		if req.MaxOutput == 0 {
			got.MaxOutput = 0
		}
		require.Equal(t, normal(t, got), normal(t, req))
	}
	// Without an answer the running turn may begin elsewhere.
	if reported(report, "empty-message") {
		return
	}
	again, _, err := anthropic.Format{}.Request(got)
	require.NoError(t, err)
	require.Equal(t, messagesOf(again), messagesOf(body))
}

func foreign(m transcript.Message) bool { return m.Origins != nil }

func reported(report rebuild.Report, rule rebuild.Rule) bool {
	return slices.ContainsFunc(report, func(r rebuild.Repair) bool { return r.Rule == rule })
}

func messagesOf(body []byte) []byte {
	_, messages, _ := bytes.Cut(body, []byte(`"messages":`))
	return messages
}

// normal returns the JSON of req with sorted members of objects.
func normal(t *testing.T, req transcript.Request) string {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(quoteAny(t, req)))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v))
	return string(quoteAny(t, v))
}

// Blocks for requests: some that rendering must repair, and some that it must
// not change.
var (
	userBlocks = strings.Split(strings.TrimSpace(`
{"type":"text","text":"hi"}
{"type":"text","text":"hi","cache_control":{"type":"ephemeral"}}
{"type":"text","text":"hi","ext":{"a":1},"cache_control":7,"name":"x"}
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgo="},"cache_control":{"type":"ephemeral"}}
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"not"}}
{"type":"image","source":{"type":"nowhere","x":1}}
{"type":"document","source":{"type":"url","url":"https://x.example/","ext":1},"title":"t","citations":true}
{"type":"document","source":{"type":"content","content":[{"type":"text","text":" "}]}}
{"type":"context","uri":"u","abstract":" "}
{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}],"cache_control":{"type":"ephemeral"}}
{"type":"search_result","source":"s","title":"","content":[]}
{"type":"thinking","thinking":"t","signature":"s"}
{"type":"server_tool_use","id":"srvtoolu_1","name":"n","input":{}}
{"type":"unknown"}
{"type":"tool_reference","tool_name":"n"}
{"type":"tool_reference","tool_name":"gone"}
{"type":"container_upload","file_id":"f"}
{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}
{"type":"document","source":{"type":"base64","media_type":"audio/mpeg","data":"AAAA"}}
{"type":"document","source":{"type":"base64","media_type":"video/mp4","data":"AAAA"}}
{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0x"},"title":"t"}
{"type":"image"}`), "\n")
	answerBlocks = strings.Split(strings.TrimSpace(`
{"type":"text","text":"ok"}
{"type":"text","text":"ok","citations":[{"a":1}]}
{"type":"text","text":"ok","ext":{}}
{"type":"text","text":"ok","citations":{},"cache_control":{"type":"ephemeral"}}
{"type":"thinking","thinking":"t","signature":"s"}
{"type":"thinking","thinking":"t","signature":"s","ext":1}
{"type":"thinking","thinking":"","signature":"s"}
{"type":"thinking","thinking":"t"}
{"type":"redacted_thinking","data":"d"}
{"type":"redacted_thinking","data":""}
{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}
{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}
{"type":"server_tool_use","id":"srvtoolu_2","name":"web_search","input":{},"x":1}
{"type":"web_search_tool_result","tool_use_id":"srvtoolu_2","content":[],"cache_control":{"type":"ephemeral"}}
{"type":"web_fetch_tool_result","tool_use_id":"srvtoolu_2"}
{"type":"mcp_tool_use","id":"mcptoolu_1","name":"n","server_name":"s","input":{}}
{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","content":[],"is_error":true}
{"type":"server_tool_use","id":"3","name":"n","input":7}
{"type":"image","source":{"type":"file","file_id":"f"}}
{"type":"document","source":{"type":"file","file_id":"f"}}
{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]}
{"type":"reasoning","id":"r"}
{"type":"server_tool_use","id":"srvtoolu_1","name":"code_execution","input":{"code":"x"}}
{"type":"code_execution_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"code_execution_result","stdout":"x"}}
{"type":"server_tool_use","id":"srvtoolu_2","name":"web_search","input":{},"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}}
{"type":"web_search_tool_result","tool_use_id":"srvtoolu_2","content":[],"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}}
{"type":"context","uri":""}`), "\n")
	callIDs = []string{"a", "b", "c", "toolu_1", "srvtoolu_1", "call.1", "call 1", "ü", "", strings.Repeat("x", 65), strings.Repeat("x", 66)}
)

// randomRequest makes a request with correct turns and pairs but wrong blocks.
// Calls of one answer have different IDs.
func randomRequest(t *testing.T, rnd *rand.Rand) transcript.Request {
	t.Helper()
	clean := rnd.IntN(3) == 0 // only the first, good blocks and IDs
	pick := func(from []string, most int) (blocks []transcript.Block) {
		if clean {
			from = from[:2]
		}
		for range rnd.IntN(most + 1) {
			blocks = append(blocks, block(t, from[rnd.IntN(len(from))]))
		}
		return blocks
	}
	origins := func(m transcript.Message) transcript.Message {
		if clean || rnd.IntN(4) == 0 {
			return m
		}
		for range m.Content {
			m.Origins = append(m.Origins, []transcript.Origin{native, native, native, {API: "openai", Model: model}, {}}[rnd.IntN(5)])
		}
		return m
	}
	req := transcript.Request{Model: model}
	var results []transcript.Block
	for range 1 + rnd.IntN(4) {
		user := append(results, pick(userBlocks, 2)...)
		if len(user) == 0 {
			user = []transcript.Block{transcript.TextBlock{Text: "go on"}}
		}
		req.Messages = append(req.Messages, origins(transcript.Message{Role: transcript.RoleUser, Content: user}))
		answer := pick(answerBlocks, 4)
		results = nil
		ids := slices.Clone(callIDs)
		for range max(0, rnd.IntN(5)-1) {
			i := rnd.IntN(len(ids))
			answer = slices.Insert(answer, rnd.IntN(len(answer)+1), transcript.Block(transcript.ToolCallBlock{ID: ids[i], Name: "n", Input: json.RawMessage(`{}`)}))
			results = append(results, transcript.ToolResultBlock{CallID: ids[i], Content: pick(userBlocks, 1)})
			ids = slices.Delete(ids, i, i+1)
		}
		if len(answer) == 0 {
			answer = []transcript.Block{transcript.TextBlock{Text: "done"}}
		}
		req.Messages = append(req.Messages, origins(transcript.Message{Role: transcript.RoleAssistant, Content: answer}))
	}
	req.Messages = append(req.Messages, transcript.Message{Role: transcript.RoleUser, Content: append(results, transcript.TextBlock{Text: "and?"})})
	return req
}

func TestRenderRandom(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	valid, checked := 0, 0
	n := amount(150, 1_000, 10_000)
	for range n {
		req := randomRequest(t, rnd)
		checkRender(t, req)
		found := wiretest.Validate(req)
		if len(found) == 0 {
			valid++
		}
		if !slices.ContainsFunc(found, func(v wiretest.Violation) bool { return !repairable(v) }) {
			checked++
		}
	}
	if valid < n/20 || checked < n*2/5 {
		t.Errorf("only %d requests were valid and %d repairable: the test checks nothing", valid, checked)
	}
}

// Appended messages change no byte of the messages before them, neither IDs nor
// omissions. Reasoning and marks are the exceptions.
func TestRenderRandomPrefix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		req := randomRequest(t, rnd)
		for i, m := range req.Messages {
			m.Content = slices.DeleteFunc(m.Content, func(b transcript.Block) bool {
				open := strings.HasSuffix(transcript.BlockType(b), "p_tool_use") || transcript.BlockType(b) == "server_tool_use" // may wait for the client
				return open && len(m.ToolCalls()) > 0 || strings.Contains(transcript.BlockType(b), "thinking") || strings.Contains(string(transcript.MarshalBlock(b)), "cache_control")
			})
			m.Origins = nil
			req.Messages[i] = m
		}
		before := ""
		for n := 1; n <= len(req.Messages); n += 2 { // up to each user message
			part := req
			part.Messages = req.Messages[:n]
			body, _ := render(t, anthropic.Format{}, part)
			body = strings.TrimSuffix(body, "]}")
			// The next user message may join this one.
			if !strings.HasPrefix(body, strings.TrimSuffix(before, "]}")) && !strings.HasPrefix(body, before) {
				t.Fatalf("message %d changed the bytes before it:\n%s\n%s", n, before, body)
			}
			before = body
		}
	}
}
