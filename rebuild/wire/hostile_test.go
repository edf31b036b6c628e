package wire_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/transcript"
)

// hostileBlocks are blocks of a damaged or foreign transcript: data kept for an
// API has a wrong shape or names members of the block itself.
var hostileBlocks = strings.Split(strings.TrimSpace(`
{"type":"text","text":"","ext":{"refusal":true}}
{"type":"text","text":" ","ext":{"item":{"id":"msg_8"}}}
{"type":"text","text":"t","ext":{"item":{"id":"msg_9","role":"user","content":"evil","type":"reasoning"},"part":{"text":"evil","type":"x","annotations":7}}}
{"type":"text","text":"t","ext":{"item":{"id":"msg_10"},"part":{"logprobs":[],"annotations":7}}}
{"type":"text","text":"\u0000\u001c"}
{"type":"text","text":"\ud83d"}
{"type":"tool_use","id":"h1","name":"日本","input":{},"ext":{"item":{"id":"fc_9","call_id":"evil","name":"evil","arguments":"7"}}}
{"type":"tool_use","id":"h2","name":"n","input":{"a":1,"a":2},"ext":{"type":"custom_tool_call","item":{"id":"ctc_1","input":7}}}
{"type":"tool_use","id":"h3","name":"","input":{},"ext":{"functionCall":{"id":""},"thoughtSignature":"A=="}}
{"type":"tool_use","id":"h1","name":"n","input":[],"ext":{"functionCall":{"id":"q","id":"r"},"thoughtSignature":"AAAA"}}
{"type":"thinking","thinking":"t","signature":"s","ext":{"member":"reasoning","reasoning_details":7}}
{"type":"thinking","thinking":"t","ext":{"member":"reasoning_content","reasoning_details":[{"type":"x"}]}}
{"type":"thinking","thinking":"t","ext":{"item":{"id":"rs_8","type":"reasoning","summary":7,"encrypted_content":"e"}}}
{"type":"thinking","thinking":"t","ext":{"item":{"id":"rs_7","type":"reasoning","encrypted_content":"e"}}}
{"type":"redacted_thinking","data":"not base64"}
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"A==="}}
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA\nAA"}}
{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AB=="}}
{"type":"image","source":{"type":"url","url":"HTTPS://x.example/a b"}}
{"type":"image","source":{"type":"file","file_id":"file-1"}}
{"type":"image","source":7}
{"type":"document","source":{"type":"file","file_id":"gs://x"},"title":" ","context":" "}
{"type":"document","source":{"type":"text","media_type":"text/plain","data":""},"title":"t"}
{"type":"document","source":{"type":"text","media_type":"text/plain","data":" "}}
{"type":"document","source":{"type":"content","content":" "}}
{"type":"document","source":{"type":"content","content":[{"type":"text","text":"x"},{"type":"image","source":{"type":"base64","media_type":"image/tiff","data":"AAAA"}},{"type":"image","source":{"type":"url","url":"ftp://x"}}]}}
{"type":"document","source":{"type":"url","url":"https://x.example/a.pdf"},"title":"a\u0000/b"}
{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}],"content":[]}
{"type":"web_search_call","id":"ws_8","status":7}
{"type":"mcp_call"}
{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"1"},"executableCode":7}}
{"type":"gemini_part","part":{"inlineData":{"mimeType":"audio/wav","data":"AAAA"},"thoughtSignature":7}}
{"type":"server_tool_use","id":"srvtoolu_9","name":"web_search","input":{},"id":"srvtoolu_8"}
{"type":"web_search_tool_result","tool_use_id":"srvtoolu_9","content":7}
{"type":"`+strings.Repeat("k", 300)+`"}
{"type":""}
7`), "\n")

// doubled returns the path of a member that an object has twice.
func doubled(t testing.TB, body string) string {
	d := json.NewDecoder(strings.NewReader(body))
	var value func(path string) string
	value = func(path string) string {
		tok, err := d.Token()
		require.NoError(t, err)
		found := ""
		note := func(s string) {
			if found == "" {
				found = s
			}
		}
		switch tok {
		case json.Delim('{'):
			seen := map[string]bool{}
			for d.More() {
				name, _ := d.Token()
				at := path + "." + name.(string)
				if seen[at] && !strings.Contains(at, "input.a") && !strings.Contains(at, "args.a") {
					note(at)
				}
				seen[at] = true
				note(value(at))
			}
			_, _ = d.Token()
		case json.Delim('['):
			for i := 0; d.More(); i++ {
				note(value(fmt.Sprintf("%s.%d", path, i)))
			}
			_, _ = d.Token()
		}
		return found
	}
	return value("")
}

// alternates reports whether a user and an answer take turns, as some imitators
// of OpenAI demand.
func alternates(t testing.TB, body string) bool {
	var req struct{ Messages []struct{ Role string } }
	require.NoError(t, json.Unmarshal([]byte(body), &req))
	for i, m := range req.Messages[1:] {
		if m.Role != "tool" && m.Role == req.Messages[i].Role {
			return false
		}
	}
	return true
}

// Hostile blocks, whatever their stated origin, go out valid or not at all.
func TestRenderHostileHistory(t *testing.T) {
	rnd := rand.New(rand.NewPCG(15, 16))
	apis := []string{"anthropic", "openai-chat", "openai-responses", "gemini", "bedrock"}
	models := []string{model, "gpt-x", "gpt-x", geminiModel, bedrockModel}
	for i := range amount(100, 400, 4_000) {
		k := i % len(apis)
		lines := randomLines(rnd, apis[k:k+1], models[k:k+1], hostileBlocks)
		lines = slices.DeleteFunc(lines, func(line string) bool {
			_, err := transcript.ParseEntry([]byte(line))
			return err != nil
		})
		h := folded(t, lines)
		for _, g := range targets {
			body := g.body(t, h)
			if path := doubled(t, body); path != "" || !utf8.ValidString(body) {
				t.Fatalf("%s: %s is there twice in %s\n%s", g.name, path, body, strings.Join(lines, "\n"))
			}
			if strings.HasPrefix(g.name, "chat") && !alternates(t, body) {
				t.Fatalf("%s: two of a role in a row in %s", g.name, body)
			}
		}
	}
}

// Lost, swapped or doubled events of a stream, and an early end, leave an
// answer that goes out valid.
func TestMangledStream(t *testing.T) {
	rnd := rand.New(rand.NewPCG(17, 18))
	order := func(n int) (events []int) {
		for i := range n {
			events = append(events, i)
		}
		for range 1 + rnd.IntN(3) {
			i, j := rnd.IntN(len(events)), rnd.IntN(len(events))
			switch rnd.IntN(4) {
			case 0:
				events[i], events[j] = events[j], events[i]
			case 1:
				events = slices.Insert(events, i, events[j])
			case 2:
				events = slices.Delete(events, i, i+1)
			case 3:
				events = events[:i+1]
			}
			if len(events) == 0 {
				return nil
			}
		}
		return events
	}
	calls := 0
	check := func(name string, s wire.Stream) {
		resp := s.Response()
		calls += len(resp.Message.ToolCalls())
		h := recorded(t, transcript.UserText("go"), resp, transcript.UserText("and?"))
		for _, g := range targets {
			if body := g.body(t, h); doubled(t, body) != "" || !utf8.ValidString(body) {
				t.Fatalf("%s: %s: %s", name, g.name, body)
			}
		}
	}
	for range amount(5, 10, 10) {
		each := func(all map[string]string, events func(testing.TB, string, int) []string, newStream func() wire.Stream) {
			for _, name := range slices.Sorted(maps.Keys(all)) {
				s, list := newStream(), events(t, all[name], 3)
				for _, i := range order(len(list)) {
					_, _ = s.Add([]byte(list[i])) // impossible events are left out
				}
				check(name, s)
			}
		}
		each(answers, events, anthropic.Format{}.NewStream)
		each(chat.answers, chatEvents, openaichat.Format{}.NewStream)
		each(responses.answers, responsesEvents, openairesponses.Format{}.NewStream)
		each(geminiAnswers, geminiEvents, gemini.Format{Model: geminiModel}.NewStream)
		for _, name := range slices.Sorted(maps.Keys(bedrockAnswers)) {
			s, list := bedrock.Format{Model: bedrockModel}.NewStream(), bedrockEvents(t, bedrockAnswers[name], 3)
			for _, i := range order(len(list)) {
				_, _ = s.Add(bedrock.Event(list[i].kind, []byte(list[i].payload)))
			}
			check(name, s)
		}
	}
	require.NotZero(t, calls, "no stream left a call: the test checks little")
}
