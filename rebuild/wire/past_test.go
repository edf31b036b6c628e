package wire_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// readers are the inverses of the formats, by the first word of a target.
var readers = map[string]func([]byte) ([]transcript.Item, error){
	"anthropic": anthropic.Messages, "chat": openaichat.Messages, "responses": openairesponses.Items,
	"gemini": gemini.Contents, "bedrock": bedrock.Messages,
}

// appended folds items, each of an append of its own. Answers without a model get one.
func appended(t testing.TB, items []transcript.Item, model string) rebuild.History {
	t.Helper()
	fold, n := rebuild.New(nil), 0
	for _, item := range items {
		if r, ok := item.(transcript.Response); ok && r.Model == "" {
			r.Model = model
			item = r
		}
		entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { n++; return fmt.Sprint("i", n) }, item)
		require.NoError(t, err)
		require.NoError(t, fold.Add(transcript.Batch{Entries: entries, Complete: true}))
	}
	return prompted(fold.History())
}

// prompted returns a history with all of the system prompt in System.
func prompted(h rebuild.History) rebuild.History {
	h.System = h.SystemPrompt("")
	return h
}

// The items of a rendered request render the same request.
func TestReadRendered(t *testing.T) {
	rnd := rand.New(rand.NewPCG(21, 22))
	apis := []string{"anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"}
	models := []string{model, "gpt-x", "gpt-x", geminiModel, bedrockModel}
	more := [][]string{nil, openAIBlocks, openAIBlocks, geminiBlocks, bedrockBlocks}
	for n := range few(amount(200, 1_000, 10_000)) {
		i := n % len(apis)
		lines := randomLines(rnd, apis[i:i+1], models[i:i+1], more[i])
		if rnd.IntN(3) > 0 {
			lines = slices.Insert(lines, 0, `{"type":"system","id":"s","ts":"2026-01-01T00:00:00Z","text":"Be brief."}`)
		}
		for _, g := range targets {
			noReasoning := strings.NewReplacer(`"reasoning_content":"",`, "").Replace
			before := g.body(t, prompted(folded(t, lines)))
			name, _, _ := strings.Cut(g.name, ",")
			items, err := readers[name]([]byte(before))
			require.NoError(t, err, "%s: %s", g.name, before)
			after := g.body(t, appended(t, items, g.model))
			if before, after := noReasoning(before), noReasoning(after); before != after {
				i := 0
				for i < len(before) && i < len(after) && before[i] == after[i] {
					i++
				}
				t.Errorf("%s: %d: ...%.200s\nwant ...%.200s", g.name, n, after[max(0, i-60):], before[max(0, i-60):])
			}
		}
	}
}

// itemLines returns the lines of items, without IDs and times, with sorted members.
func itemLines(t testing.TB, items []transcript.Item) (lines []string) {
	t.Helper()
	for n, item := range items {
		entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { return fmt.Sprint(n) }, item)
		require.NoError(t, err)
		for _, e := range entries {
			line := js(e.Line())
			for _, name := range []string{"id", "ts", "batch", "part", "mid"} {
				delete(line, name)
			}
			if line["is_error"] == false {
				delete(line, "is_error")
			}
			text, err := json.Marshal(line)
			require.NoError(t, err)
			lines = append(lines, string(text))
		}
	}
	return lines
}

func js(line []byte) (object map[string]any) {
	_ = json.Unmarshal(line, &object) // of an entry
	return object
}

// Lists and objects of other programs are read with their unknown members.
func TestReadForeign(t *testing.T) {
	for _, c := range []struct {
		api, data string
		want      []string
	}{
		{"chat", `[{"role":"system","content":"Be brief."},{"role":"user","content":"hi","name":"ann"},
			{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
			{"role":"tool","tool_call_id":"c1","content":[{"type":"text","text":"r"}]},{"role":"assistant","content":"ok","weight":1}]`, []string{
			`{"text":"Be brief.","type":"system"}`, `{"app":{"name":"ann"},"content":[{"text":"hi","type":"text"}],"type":"user"}`,
			`{"api":"openai-chat","content":[],"stop_reason":"tool_use","type":"assistant"}`, `{"input":{"a":1},"name":"f","tool_use_id":"c1","type":"tool_use"}`,
			`{"content":"r","tool_use_id":"c1","type":"tool_result"}`,
			`{"api":"openai-chat","app":{"weight":1},"content":[{"text":"ok","type":"text"}],"stop_reason":"end_turn","type":"assistant"}`,
		}},
		{"chat", `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x.example/a.png","detail":"high"}},
			{"type":"video_url","video_url":{"url":"u"}},{"type":"file","file":{"file_id":"file-1"}}]},{"role":"assistant","content":"hm","reasoning_content":"t"}]}`, []string{
			`{"content":[{"detail":"high","source":{"type":"url","url":"https://x.example/a.png"},"type":"image"},{"type":"video_url","video_url":{"url":"u"}},{"source":{"file_id":"file-1","type":"file"},"type":"document"}],"type":"user"}`,
			`{"api":"openai-chat","content":[{"ext":{"member":"reasoning_content"},"thinking":"t","type":"thinking"},{"text":"hm","type":"text"}],"model":"m","stop_reason":"end_turn","type":"assistant"}`,
		}},
		{"chat", `[{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\":1}"}},{"role":"function","name":"f","content":"r"},
			{"role":"assistant","content":"again","function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"s"}]`, []string{
			`{"api":"openai-chat","content":[],"stop_reason":"tool_use","type":"assistant"}`, `{"input":{"a":1},"name":"f","tool_use_id":"function_call_0","type":"tool_use"}`,
			`{"content":"r","tool_use_id":"function_call_0","type":"tool_result"}`,
			`{"api":"openai-chat","content":[{"text":"again","type":"text"}],"stop_reason":"tool_use","type":"assistant"}`,
			`{"input":{},"name":"f","tool_use_id":"function_call_2","type":"tool_use"}`, `{"content":"s","tool_use_id":"function_call_2","type":"tool_result"}`,
		}},
		{"chat", `{"model":"m","choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"length"}]}`, []string{
			`{"api":"openai-chat","content":[{"text":"hi","type":"text"}],"model":"m","stop_reason":"max_tokens","type":"assistant"}`,
		}},
		{"anthropic", `{"model":"m","system":[{"type":"text","text":"A"},{"type":"text","text":"B"}],"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"new_block","x":1},{"type":"tool_use","id":"c","name":"f","input":{}}],"id":"msg_1"},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":true,"content":"no"}]}]}`, []string{
			`{"text":"A\n\nB","type":"system"}`, `{"content":"hi","type":"user"}`,
			`{"api":"anthropic","app":{"id":"msg_1"},"content":[{"signature":"s","thinking":"t","type":"thinking"},{"type":"new_block","x":1}],"model":"m","stop_reason":"tool_use","type":"assistant"}`,
			`{"input":{},"name":"f","tool_use_id":"c","type":"tool_use"}`, `{"content":"no","is_error":true,"tool_use_id":"c","type":"tool_result"}`,
		}},
		{"responses", `{"model":"m","instructions":"I","input":"hi"}`, []string{`{"text":"I","type":"system"}`, `{"content":[{"text":"hi","type":"text"}],"type":"user"}`}},
		{"responses", `[{"role":"developer","content":"D"},{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"high"}]},
			{"type":"reasoning","id":"rs","summary":[]},{"type":"future_call","id":"x"},{"role":"assistant","content":"a"},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"r"},
			{"type":"shell_call","id":"sh","call_id":"s","action":{}},{"type":"shell_call_output","call_id":"s","output":[{"stdout":"o"}]}]`, []string{
			`{"text":"D","type":"system"}`, `{"content":[{"detail":"high","source":{"data":"AAAA","media_type":"image/png","type":"base64"},"type":"image"}],"type":"user"}`,
			`{"api":"openai-responses","content":[{"ext":{"item":{"id":"rs","summary":[],"type":"reasoning"}},"thinking":"","type":"thinking"},{"id":"x","type":"future_call"},{"ext":{"item":{},"part":{}},"text":"a","type":"text"}],"stop_reason":"tool_use","type":"assistant"}`,
			`{"ext":{"item":{}},"input":{},"name":"f","tool_use_id":"c","type":"tool_use"}`, `{"content":"r","tool_use_id":"c","type":"tool_result"}`,
			`{"api":"openai-responses","content":[],"stop_reason":"tool_use","type":"assistant"}`,
			`{"ext":{"item":{"id":"sh"},"type":"shell_call"},"input":{"action":{}},"name":"shell","tool_use_id":"s","type":"tool_use"}`, `{"content":"[{\"stdout\":\"o\"}]","tool_use_id":"s","type":"tool_result"}`,
		}},
		{"gemini", `{"system_instruction":{"parts":[{"text":"S"}]},"contents":[{"parts":[{"text":"hi"},{"inlineData":{"mimeType":"image/png","data":"AAAA"}},{"newPart":1}]},
			{"role":"model","parts":[{"functionCall":{"id":"q","name":"f","args":{}}}]},{"role":"user","parts":[{"functionResponse":{"name":"f","response":{"result":5}}}]}]}`, []string{
			`{"text":"S","type":"system"}`,
			`{"content":[{"text":"hi","type":"text"},{"source":{"data":"AAAA","media_type":"image/png","type":"base64"},"type":"image"},{"part":{"newPart":1},"type":"gemini_part"}],"type":"user"}`,
			`{"api":"gemini","content":[],"stop_reason":"tool_use","type":"assistant"}`, `{"ext":{"functionCall":{"id":"q"}},"input":{},"name":"f","tool_use_id":"q","type":"tool_use"}`,
			`{"content":"{\"result\":5}","tool_use_id":"q","type":"tool_result"}`,
		}},
		{"bedrock", `{"system":[{"text":"S"},{"cachePoint":{"type":"default"}}],"messages":[{"role":"user","content":[{"text":"hi"},{"video":{"format":"mp4"}},{"cachePoint":{"type":"default"}}]},
			{"role":"assistant","content":[{"toolUse":{"toolUseId":"c","name":"f","input":{}}}]},
			{"role":"user","content":[{"toolResult":{"toolUseId":"c","content":[{"json":{"a":1}}],"status":"success"}}]}]}`, []string{
			`{"text":"S","type":"system"}`, `{"content":[{"text":"hi","type":"text"},{"block":{"video":{"format":"mp4"}},"type":"bedrock_block"}],"type":"user"}`,
			`{"api":"bedrock","content":[],"stop_reason":"tool_use","type":"assistant"}`, `{"input":{},"name":"f","tool_use_id":"c","type":"tool_use"}`,
			`{"content":"{\"a\":1}","tool_use_id":"c","type":"tool_result"}`,
		}},
	} {
		items, err := readers[c.api]([]byte(c.data))
		require.NoError(t, err, c.api)
		require.Equal(t, c.want, itemLines(t, items), c.api)
	}
}

// A place that is not understood is named by its pointer.
func TestReadErrors(t *testing.T) {
	for _, c := range []struct{ api, data, pointer string }{
		{"chat", `{`, ""},
		{"chat", `7`, ""},
		{"chat", `{"input":[]}`, "/messages"},
		{"chat", `[{"role":"user","content":"a"},{"role":"function","content":"a"}]`, "/1/role"},
		{"chat", `[{"role":"assistant","function_call":{"name":"f"}},{"role":"function","name":"f","content":"a"},{"role":"function","name":"f","content":"b"}]`, "/2/role"},
		{"chat", `[{"role":"assistant","function_call":{"name":"f"}},{"role":"function","name":"g","content":"a"}]`, "/1/role"},
		{"chat", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"text":"b"}]}]}`, "/messages/0/content/1"},
		{"chat", `[{"role":"user"}]`, "/0/content"},
		{"chat", `[{"role":"tool","content":"a"}]`, "/0"},
		{"chat", `[{"role":"system","content":[{"type":"image_url","image_url":{"url":"u"}}]}]`, "/0/content/0"},
		{"chat", `[{"role":"assistant","content":[{"type":"image_url"}]}]`, "/0/content/0"},
		{"chat", `[{"role":"assistant","tool_calls":[{"id":"x"}]}]`, "/0/tool_calls/0"},
		{"chat", `[{"role":"assistant","content":7}]`, "/0"},
		{"chat", `["x"]`, "/0/role"},
		{"anthropic", `[{"role":"user","content":[{"text":"x"}]}]`, "/0/content/0"},
		{"anthropic", `[{"role":"tool","content":"x"}]`, "/0/role"},
		{"anthropic", `{"system":7,"messages":[]}`, "/system"},
		{"responses", `{"previous_response_id":"r","input":[]}`, "/previous_response_id"},
		{"responses", `[{"type":"item_reference","id":"x"}]`, "/0"},
		{"responses", `[{"type":"function_call_output","output":"x"}]`, "/0"},
		{"responses", `[{"x":1}]`, "/0"},
		{"responses", `[{"role":"assistant","content":[{"text":"x"}]}]`, "/0/content/0"},
		{"gemini", `{"contents":[{"role":"model","parts":[{"text":"a"},{"functionCall":{}}]}]}`, "/contents/0/parts/1"},
		{"gemini", `[{"role":"user","parts":[{"functionResponse":{}}]}]`, "/0/parts/0/functionResponse"},
		{"gemini", `[{"role":"tool","parts":[]}]`, "/0/role"},
		{"bedrock", `[{"role":"user","content":[{}]}]`, "/0/content/0"},
		{"bedrock", `[{"role":"user","content":[{"toolResult":{"content":[]}}]}]`, "/0/content/0"},
		{"gemini", `[{"role":"model","content":"x"}]`, "/0/parts"},
		{"bedrock", `[{"role":"x","content":[]}]`, "/0/role"},
		{"bedrock", `[{"role":"assistant","content":"x"}]`, "/0/content"},
	} {
		items, err := readers[c.api]([]byte(c.data))
		bad, ok := errors.AsType[*wire.ItemError](err)
		require.True(t, ok, "%s: %s: %v, %v", c.api, c.data, items, err)
		require.Equal(t, c.pointer, bad.Pointer, "%s: %s: %v", c.api, c.data, err)
		require.Contains(t, err.Error(), fmt.Sprintf("%q", c.pointer))
	}
}

// A later system prompt stays one in the APIs that have a role for it.
func TestReadLaterPrompt(t *testing.T) {
	lines := []string{
		`{"type":"system","id":"a","ts":"2026-01-01T00:00:00Z","text":"One."}`, `{"type":"user","id":"b","ts":"2026-01-01T00:00:00Z","content":"hi"}`,
		`{"type":"assistant","id":"c","ts":"2026-01-01T00:00:00Z","api":"anthropic","model":"claude-opus-4-8","content":"ho"}`,
		`{"type":"user","id":"d","ts":"2026-01-01T00:00:00Z","content":"and?"}`, `{"type":"system","id":"e","ts":"2026-01-01T00:00:00Z","text":"Two."}`,
		`{"type":"tools","id":"f","ts":"2026-01-01T00:00:00Z","tool_names":["n","m"]}`,
	}
	for _, g := range targets {
		name, _, _ := strings.Cut(g.name, ",")
		if g.model = strings.Replace(g.model, model, "claude-opus-4-8", 1); name != "anthropic" && name != "responses" {
			continue
		}
		before := g.body(t, prompted(folded(t, lines)))
		items, err := readers[name]([]byte(before))
		require.NoError(t, err)
		require.Contains(t, itemLines(t, items), `{"text":"Two.","type":"system"}`)
		require.Contains(t, itemLines(t, items), `{"tool_names":["n","m"],"type":"tools"}`)
		require.Equal(t, before, g.body(t, appended(t, items, g.model)))
	}
}

// Any JSON is read or refused, and the items that are read can be appended and rendered.
func FuzzRead(f *testing.F) {
	for _, data := range []string{
		`[{"role":"user","content":"hi"},{"role":"assistant","content":"ho","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"r"}]`,
		`{"system":"s","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"x"}]}]}`,
		`{"instructions":"s","input":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"computer_call_output","call_id":"c","output":{"image_url":"data:image/png;base64,AAAA"}}]}`,
		`{"systemInstruction":{"parts":[{"text":"s"}]},"contents":[{"role":"model","parts":[{"functionCall":{"name":"f"}}]},{"parts":[{"functionResponse":{"name":"f","response":{"output":"x"}}}]}]}`,
		`{"messages":[{"role":"user","content":[{"text":"x"},{"toolResult":{"toolUseId":"c","content":[{"text":"x"}],"status":"error"}},{"document":{"format":"pdf","name":"n","source":{"bytes":"AAAA"}}}]}]}`,
	} {
		f.Add([]byte(data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, read := range readers {
			items, err := read(data)
			if err != nil {
				if _, ok := errors.AsType[*wire.ItemError](err); !ok {
					t.Fatalf("%s: %v", name, err)
				}
				continue
			}
			fold, n := rebuild.New(nil), 0
			for _, item := range items {
				entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { n++; return fmt.Sprint("i", n) }, item)
				if err != nil {
					return // an empty message, or a call of the user
				}
				require.NoError(t, fold.Add(transcript.Batch{Entries: entries, Complete: true}))
			}
			for _, g := range targets {
				_, _, err := g.request(transcript.Request{Model: g.model, Messages: fold.History().Messages})
				require.NoError(t, err)
			}
		}
	})
}
