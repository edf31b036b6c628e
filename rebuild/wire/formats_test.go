package wire_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// A target is a format with the settings that change renderings, and a model.
type target struct {
	name, model string
	request     func(transcript.Request) ([]byte, rebuild.Report, error)
	validate    func([]byte) []wiretest.Violation
}

var budget = json.RawMessage(`{"type":"enabled","budget_tokens":1024}`)

// targets covers all five formats.
var targets = []target{
	{"anthropic", model, anthropic.Format{}.Request, check(wiretest.Anthropic{})},
	{"anthropic, thinking", model, anthropic.Format{Thinking: budget}.Request, check(wiretest.Anthropic{})},
	{"anthropic, vertex", "claude-opus-4-8", vertex.Request, check(wiretest.Anthropic{Model: "claude-opus-4-8"})},
	{"chat", "gpt-x", openaichat.Format{}.Request, check(wiretest.OpenAIChat{})},
	{"chat, reasoning", "gpt-x", openaichat.Format{Reasoning: true, MaxTokens: true}.Request, check(wiretest.OpenAIChat{Reasoning: true})},
	{"chat, short", "gpt-x", openaichat.Format{ShortIDs: true, SystemRole: "developer"}.Request, check(wiretest.OpenAIChat{ShortIDs: true})},
	{"responses", "gpt-x", openairesponses.Format{}.Request, check(wiretest.OpenAIResponses{})},
	{"responses, stored", "gpt-x", stored.Request, check(wiretest.OpenAIResponses{})},
	{"gemini", geminiModel, gemini.Format{}.Request, check(wiretest.Gemini{Model: geminiModel})},
	{"gemini, old", "gemini-2.5-flash", gemini.Format{}.Request, check(wiretest.Gemini{Model: "gemini-2.5-flash"})},
	{"bedrock", bedrockModel, bedrock.Format{}.Request, check(wiretest.Bedrock{})},
	{"bedrock, thinking", bedrockModel, bedrock.Format{Thinking: budget}.Request, check(wiretest.Bedrock{})},
	{"bedrock, pure", "meta.llama4", bedrock.Format{PureResults: true}.Request, check(wiretest.Bedrock{PureResults: true})},
}

var vertex = anthropic.Format{Params: map[string]json.RawMessage{"anthropic_version": json.RawMessage(`"vertex-2023-10-16"`)}}

var stored = openairesponses.Format{Params: map[string]json.RawMessage{"store": json.RawMessage("true")}}

func check(service wiretest.API) func([]byte) []wiretest.Violation {
	return func(body []byte) []wiretest.Violation { return wiretest.Check(service, body) }
}

// memberTools are definitions with members that some APIs take.
var memberTools = []transcript.Tool{
	{Name: "n", InputSchema: json.RawMessage(`{"type":"object"}`), Strict: true, AllowedCallers: []string{"direct", "code_execution_20260120"}},
	{Name: "m", InputSchema: json.RawMessage(`{"type":"object"}`), DeferLoading: true, InputExamples: json.RawMessage(`[{}]`), CacheControl: json.RawMessage(`{"type":"ephemeral"}`)},
}

// body renders a history, twice: the bytes must be valid and equal.
func (g target) body(t testing.TB, h rebuild.History) string {
	t.Helper()
	req := transcript.Request{Model: g.model, System: h.System, Messages: h.Messages, Tools: memberTools}
	body, report, err := g.request(req)
	require.NoError(t, err, "%s", g.name)
	if found := g.validate(body); len(found) > 0 || !json.Valid(body) {
		t.Fatalf("%s: violations: %v\nreport: %v\nbody: %s", g.name, found, report, body)
	}
	if again, _, err := g.request(req); err != nil || !bytes.Equal(again, body) {
		t.Fatalf("%s: the same request gives other bytes: %v\n%s\n%s", g.name, err, body, again)
	}
	return string(body)
}

// searches are blocks that a random choice rarely combines.
var searches = []string{
	`{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}},{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`,
	`{"type":"server_tool_use","id":"srvtoolu_3","name":"code_execution","input":{"code":"x"}}`,
	`{"type":"code_execution_tool_result","tool_use_id":"srvtoolu_3","content":{"type":"code_execution_result","stdout":"x"}}`,
	`{"type":"redacted_thinking","data":"ZGF0YQ=="},{"type":"text","text":"ok"}`,
}

// randomLines are lines of a transcript: a conversation that changes its api and
// its model, with lost, doubled and late calls and results. Answers contain more
// blocks than the Messages API has.
func randomLines(rnd *rand.Rand, apis, models, more []string) (lines []string) {
	some := func(n int, lists ...[]string) string {
		var list []string
		for range rnd.IntN(n + 1) {
			if from := lists[rnd.IntN(len(lists))]; len(from) > 0 {
				list = append(list, from[rnd.IntN(len(from))])
			}
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	one := func(list []string) string { return list[rnd.IntN(len(list))] }
	add := func(format string, args ...any) {
		lines = append(lines, fmt.Sprintf(`{"id":"e%d","ts":"2026-01-01T00:00:00Z",`, len(lines))+fmt.Sprintf(format, args...)+"}")
	}
	for range 1 + rnd.IntN(10) {
		id := one(callIDs)
		switch rnd.IntN(7) {
		case 0:
			add(`"type":"user","content":%s`, some(3, userBlocks, userBlocks, answerBlocks, more))
		case 1, 2:
			add(`"type":"assistant","api":%q,"model":%q,"stop_reason":%q,"content":%s`,
				one(apis), one(models), one([]string{"end_turn", "tool_use", "aborted"}), some(5, answerBlocks, more, more, userBlocks, searches))
		case 3:
			add(`"type":"tool_use","mid":"e%d","tool_use_id":%q,"name":%q,"input":%s`, len(lines)-1, id, id, one([]string{"{}", `"{"`}))
		case 4:
			add(`"type":"tool_use","mid":"e%d","tool_use_id":%q,"name":"n","input":{"a":"\ud83d"},"ext":%s`, len(lines)-1, id, one([]string{
				`{"type":"custom_tool_call","item":{"id":"fc_1"}}`, `{"item":{"id":"fc_2"}}`, `{"thoughtSignature":"c2ln","functionCall":{"id":"q"}}`, `7`,
				`{},"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_1"}`, `{"container":"c"},"caller":{"type":"code_execution_20260120","tool_id":"srvtoolu_3"}`,
			}))
		case 5:
			add(`"type":"tool_use","tool_use_id":%q,"name":"n","input":{}`, id)
		case 6:
			add(`"type":"tool_result","tool_use_id":%q,"is_error":%v,"content":%s`, id, rnd.IntN(2) == 0, some(2, userBlocks))
		}
	}
	add(`"type":"user","content":"and?"`)
	return lines
}

// changed inserts lines that change the history before them.
func changed(rnd *rand.Rand, lines []string) []string {
	entry := func() string { return fmt.Sprintf(`"e%d"`, rnd.IntN(len(lines))) } // of any time
	for n := range 1 + rnd.IntN(3) {
		change := []string{
			`"type":"hide","entries":[` + entry() + `,` + entry() + `],"off":` + fmt.Sprint(rnd.IntN(4) == 0),
			`"type":"compaction","summary":"s","coversTo":` + entry() + `,"said":[{"entry":` + entry() + `,"text":"w"}]`,
			`"type":"clip","clips":[{"entry":` + entry() + `,"content":"c"},{"entry":` + entry() + `,"block":1,"content":""}]`,
			`"type":"system","text":"be brief"`,
			`"type":"system","text":" "`,
			`"type":"rewind","to":` + entry(),
		}[rnd.IntN(6)]
		lines = slices.Insert(lines, rnd.IntN(len(lines)), fmt.Sprintf(`{"id":"c%d","ts":"2026-01-01T00:00:00Z",%s}`, n, change))
	}
	return lines
}

func folded(t testing.TB, lines []string) rebuild.History {
	t.Helper()
	fold := rebuild.New(nil)
	for _, line := range lines {
		e, err := transcript.ParseEntry([]byte(line))
		require.NoError(t, err, line)
		require.NoError(t, fold.Add(transcript.Batch{Entries: []transcript.Entry{e}, Complete: true}))
	}
	return fold.History()
}

// For any lines of a transcript, its history and one more user text render
// valid for every format, for all authors.
func TestRenderRandomHistory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	apis := []string{"anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"}
	models := map[string][]string{}
	for i, api := range apis {
		models[api] = []string{[]string{model, "gpt-x", "gpt-x", geminiModel, bedrockModel}[i]}
	}
	more := map[string][]string{"openai-chat": openAIBlocks, "openai-responses": openAIBlocks, "gemini": geminiBlocks, "bedrock": bedrockBlocks}
	all := slices.Concat(openAIBlocks, geminiBlocks, bedrockBlocks)
	kept := map[string]int{}
	for i := range amount(1_000, 1_000, 30_000) {
		// The answers of odd runs name one API, the answers of even runs any API.
		api := apis[i%len(apis)]
		lines := randomLines(rnd, []string{api}, models[api], more[api])
		if i%2 == 0 {
			lines = randomLines(rnd, apis, []string{model, "gpt-x", geminiModel, bedrockModel}, all)
		}
		if i%3 == 0 {
			lines = changed(rnd, lines)
		}
		h := folded(t, lines)
		if i%4 == 0 {
			entry := func() string { return fmt.Sprint("e", rnd.IntN(len(lines))) }
			left := []transcript.BlockRef{{Entry: entry(), Block: rnd.IntN(3)}, {Entry: entry(), Block: rnd.IntN(3)}}
			h.Messages, _ = rebuild.For(h.Messages, transcript.Calibration{Model: "m", Endpoint: "a", Left: left, Unread: entry()})
		}
		for _, g := range targets {
			body := g.body(t, h)
			for _, what := range own[g.name] {
				if strings.Contains(body, what) {
					kept[g.name+what]++
				}
			}
		}
	}
	for name, list := range own {
		for _, what := range list {
			if kept[name+what] == 0 {
				t.Errorf("no request of %s has %s: the test checks nothing of it", name, what)
			}
		}
	}
}

// own marks the blocks that go back only to their maker.
var own = map[string][]string{
	"anthropic":       {`"type":"thinking"`, `"type":"redacted_thinking"`, `"server_tool_use"`},
	"chat":            {`"refusal":"no"`, `"image_url"`},
	"chat, reasoning": {`"reasoning_content":"t"`},
	"responses":       {`"type":"reasoning"`, `"refusal":"no"`, `"web_search_call"`, `"id":"fc_`, `"custom_tool_call_output"`},
	"gemini":          {`"thought":true`, `"thoughtSignature":"c2ln"`, `"executableCode"`, `"id":"q"`, `"inlineData"`},
	"bedrock":         {`"reasoningText"`, `"redactedContent"`, `"document"`, `"image"`},
}

// Any prefix of a transcript, cut at any byte, renders valid for every format.
func TestPrefixes(t *testing.T) {
	var log bytes.Buffer
	n := 0
	add := func(items ...transcript.Item) {
		id := func() string { n++; return fmt.Sprint("e", n) }
		entries, err := transcript.NewBatch(time.Unix(0, 0).UTC(), id, items...)
		require.NoError(t, err)
		for _, e := range entries {
			log.Write(e.Line())
			log.WriteByte('\n')
		}
	}
	for _, m := range everyBlock(t) {
		add(m)
	}
	for _, resp := range everyAnswer(t) {
		add(transcript.UserText("go"), resp)
		if len(resp.Message.ToolCalls()) > 0 {
			add(results(resp))
		}
	}
	rendered := 0
	for n := range log.Len() + 1 {
		data := log.Bytes()[:n]
		tail := data[bytes.LastIndexByte(data, '\n')+1:]
		if _, err := transcript.ParseEntry(tail); len(tail) > 0 && err != nil {
			continue // the lines before it were rendered before
		}
		h, ok := foldLines(t, data)
		if !ok {
			t.Fatalf("no history of %d bytes", n)
		}
		rendered++
		for i, g := range targets {
			if (i+rendered)%amount(6, 1, 1) == 0 {
				g.body(t, h)
			}
		}
	}
	if rendered < bytes.Count(log.Bytes(), []byte("\n")) {
		t.Errorf("only %d prefixes were rendered", rendered)
	}
}

// everyAnswer returns each kind of answer of each API.
func everyAnswer(t testing.TB) (all []*transcript.Response) {
	for _, list := range []struct {
		answers  map[string]string
		response func([]byte) (*transcript.Response, error)
	}{
		{answers, anthropic.Format{}.Response},
		{chatAnswers, openaichat.Format{}.Response},
		{responsesAnswers, openairesponses.Format{}.Response},
		{geminiAnswers, gemini.Format{Model: geminiModel}.Response},
		{bedrockAnswers, bedrock.Format{Model: bedrockModel}.Response},
	} {
		var names []string
		for name := range list.answers {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			resp, err := list.response([]byte(list.answers[name]))
			require.NoError(t, err, "%s", name)
			all = append(all, resp)
		}
	}
	return all
}

// foldLines folds the given lines and one more user text.
func foldLines(t *testing.T, data []byte) (h rebuild.History, ok bool) {
	fold := rebuild.New(nil)
	var b transcript.Batcher
	add := func(batches []transcript.Batch) {
		for _, batch := range batches {
			_ = fold.Add(batch) // a critical entry of a newer version
		}
	}
	for line := range bytes.SplitSeq(data, []byte("\n")) {
		if e, err := transcript.ParseEntry(line); err == nil {
			add(b.Add(e))
		}
	}
	add(b.Break())
	entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { return fmt.Sprint("last", len(data)) }, transcript.UserText("and?"))
	require.NoError(t, err)
	if fold.Add(transcript.Batch{Entries: entries, Complete: true}) != nil {
		return h, false
	}
	return fold.History(), true
}

// For all records, the history and one more user text render valid for every
// format. The input is lines of a transcript.
func FuzzRenderHistory(f *testing.F) {
	for _, resp := range everyAnswer(f) {
		items := []transcript.Item{transcript.UserText("go"), resp}
		if len(resp.Message.ToolCalls()) > 0 {
			items = append(items, results(resp))
		}
		entries, err := transcript.NewBatch(time.Unix(0, 0), func() string { return "e" }, items...)
		require.NoError(f, err)
		var lines []byte
		for _, e := range entries {
			lines = append(append(lines, e.Line()...), '\n')
		}
		f.Add(lines)
	}
	for _, b := range geminiBlocks {
		f.Add([]byte(`{"type":"assistant","id":"e","ts":"2026-01-01T00:00:00Z","api":"gemini","model":"` + geminiModel + `","content":[` + b + `]}`))
	}
	for _, b := range bedrockBlocks {
		f.Add([]byte(`{"type":"user","id":"e","ts":"2026-01-01T00:00:00Z","content":[` + b + `]}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, ok := foldLines(t, data); ok {
			for _, g := range targets {
				g.body(t, h)
			}
		}
	})
}
