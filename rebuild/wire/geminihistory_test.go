package wire_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// geminiBlocks are blocks of an answer that only this API makes.
var geminiBlocks = strings.Split(strings.TrimSpace(`
{"type":"text","text":"ok","ext":{"thoughtSignature":"c2ln"}}
{"type":"text","text":"ok","ext":{"thoughtSignature":7}}
{"type":"text","text":" ","ext":{"thoughtSignature":"c2ln"}}
{"type":"thinking","thinking":"t","ext":{"thoughtSignature":"c2ln"}}
{"type":"thinking","thinking":"","ext":{"thoughtSignature":"c2ln"}}
{"type":"thinking","thinking":"","ext":"x"}
{"type":"tool_use","id":"z","name":"n","input":{},"ext":{"thoughtSignature":"c2ln","functionCall":{"id":"q"}}}
{"type":"tool_use","id":"y","name":"n","input":{},"ext":{"thoughtSignature":"-","functionCall":7}}
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"},"ext":{"thoughtSignature":"c2ln"}}
{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"1"},"thoughtSignature":"c2ln"}}
{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"1"},"text":"x"}}
{"type":"gemini_part","part":{"codeExecutionResult":{}}}
{"type":"gemini_part","part":{"inlineData":{"mimeType":"audio/wav","data":"AAAA"}}}
{"type":"gemini_part","part":7}`), "\n")

// randomHistory folds random lines, which may be anything, and one more text.
func randomHistory(t testing.TB, rnd *rand.Rand, api, model string, more []string) rebuild.History {
	t.Helper()
	some := func(from []string, n int) string {
		var list []string
		for range rnd.IntN(n + 1) {
			list = append(list, from[rnd.IntN(len(from))])
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	fold := rebuild.New(nil)
	var log []string
	for n := range 1 + rnd.IntN(10) {
		id := callIDs[rnd.IntN(len(callIDs))]
		line := fmt.Sprintf(`"id":"e%d","ts":"2026-01-01T00:00:00Z",`, n)
		switch rnd.IntN(6) {
		case 0:
			line += fmt.Sprintf(`"type":"user","content":%s}`, some(slices.Concat(userBlocks, answerBlocks, more), 3))
		case 1, 2:
			from := []string{api, "anthropic"}[rnd.IntN(2)]
			line += fmt.Sprintf(`"type":"assistant","api":%q,"model":%q,"stop_reason":%q,"content":%s}`, from, model,
				[]string{"end_turn", "tool_use", "aborted"}[rnd.IntN(3)], some(slices.Concat(answerBlocks, userBlocks, more, more), 4))
		case 3:
			line += fmt.Sprintf(`"type":"tool_use","mid":"e%d","tool_use_id":%q,"name":%q,"input":%s}`, n-1, id, id, []string{"{}", `"{"`}[rnd.IntN(2)])
		case 4:
			line += fmt.Sprintf(`"type":"tool_use","tool_use_id":%q,"name":"n","input":{}}`, id)
		case 5:
			line += fmt.Sprintf(`"type":"tool_result","tool_use_id":%q,"is_error":%v,"content":%s}`, id, rnd.IntN(2) == 0, some(userBlocks, 2))
		}
		log = append(log, "{"+line)
	}
	log = append(log, `{"type":"user","id":"last","ts":"2026-01-01T00:00:00Z","content":"and?"}`)
	for _, line := range log {
		e, err := transcript.ParseEntry([]byte(line))
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		if err := fold.Add(transcript.Batch{Entries: []transcript.Entry{e}, Complete: true}); err != nil {
			t.Fatal(err)
		}
	}
	return fold.History()
}

// Whatever lines a transcript has, its history and one more user text render
// valid, and rendering again what other models said does too.
func TestGeminiRandomHistory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 1_000 {
		h := randomHistory(t, rnd, "gemini", geminiModel, slices.Concat(geminiBlocks, bedrockBlocks))
		for _, model := range []string{geminiModel, "gemini-2.5-flash"} {
			body, _ := renderGemini(t, wire.Gemini{}, transcript.Request{Model: model, System: h.System, Messages: h.Messages})
			validGemini(t, model, body)
		}
	}
}

// Messages that are appended change no byte of those before them, thoughts
// apart.
func TestGeminiRandomPrefix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for range 300 {
		h := randomHistory(t, rnd, "gemini", geminiModel, geminiBlocks[5:])
		before := ""
		for i, m := range h.Messages {
			if m.Role != transcript.RoleUser || slices.ContainsFunc(h.Messages[:i+1], hasThoughts) {
				continue
			}
			body, _ := renderGemini(t, wire.Gemini{}, transcript.Request{Model: geminiModel, Messages: h.Messages[:i+1]})
			// The user content at the end may be joined by the next one.
			if !strings.HasPrefix(body, strings.TrimSuffix(before, "]}]}")) {
				t.Fatalf("message %d changed the bytes before it:\n%s\n%s", i, before, body)
			}
			before = body
		}
	}
}

func hasThoughts(m transcript.Message) bool {
	return slices.ContainsFunc(m.Content, func(b transcript.Block) bool { return strings.Contains(b.BlockType(), "thinking") })
}

func FuzzGeminiHistory(f *testing.F) {
	for _, body := range geminiAnswers {
		resp, err := wire.Gemini{}.Response([]byte(body))
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(lines(f, resp)))
	}
	for _, b := range geminiBlocks {
		f.Add([]byte(`{"type":"assistant","id":"e","ts":"2026-01-01T00:00:00Z","api":"gemini","model":"` + geminiModel + `","content":[` + b + `]}`))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if h, ok := foldLines(t, data); ok {
			body, _ := renderGemini(t, wire.Gemini{}, transcript.Request{Model: geminiModel, System: h.System, Messages: h.Messages})
			validGemini(t, geminiModel, body)
		}
	})
}

// foldLines folds what lines there are, and one more user text.
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
	if err != nil {
		t.Fatal(err)
	}
	if fold.Add(transcript.Batch{Entries: entries, Complete: true}) != nil {
		return h, false
	}
	return fold.History(), true
}

// Any prefix of a transcript, cut at any byte, renders valid for both APIs.
func TestPrefixes(t *testing.T) {
	var log strings.Builder
	n := 0
	add := func(items ...transcript.Item) {
		id := func() string { n++; return fmt.Sprint("e", n) }
		entries, err := transcript.NewBatch(time.Unix(0, 0).UTC(), id, items...)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			log.Write(e.Line())
			log.WriteByte('\n')
		}
	}
	gemini, err := wire.Gemini{}.Response([]byte(geminiAnswers["calls"]))
	if err != nil {
		t.Fatal(err)
	}
	bedrock, err := wire.Bedrock{Model: bedrockModel}.Response([]byte(bedrockAnswers["calls"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range everyBlock(t) {
		add(m)
	}
	for _, resp := range []*transcript.Response{gemini, bedrock} {
		add(transcript.UserText("go"), resp)
		for _, c := range resp.Message.ToolCalls() {
			add(transcript.ToolResult(c.ID, "r"))
		}
		add(transcript.UserText("and?"))
	}
	for n := range log.Len() {
		h, ok := foldLines(t, []byte(log.String()[:n]))
		if !ok {
			t.Fatalf("no history of %d bytes", n)
		}
		body, _ := renderGemini(t, wire.Gemini{}, transcript.Request{Model: geminiModel, Messages: h.Messages})
		validGemini(t, geminiModel, body)
		body, _ = renderBedrock(t, wire.Bedrock{}, transcript.Request{Model: bedrockModel, Messages: h.Messages})
		validBedrock(t, bedrockModel, body)
	}
}
