package guardtest_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/transcript"
)

// providers are all APIs, some with more than one model.
var providers = []speaker{
	{"anthropic", "claude-x", askClaude},
	{"anthropic", "claude-y", askClaude},
	{"openai-chat", "gpt-x", func(ctx context.Context, c client, req transcript.Request, stream bool) (*transcript.Response, error) {
		return openAIFormats[0].ask(ctx, c, stream, req)
	}},
	{"openai-responses", "gpt-y", func(ctx context.Context, c client, req transcript.Request, stream bool) (*transcript.Response, error) {
		return openAIFormats[1].ask(ctx, c, stream, req)
	}},
	geminiSpeaker,
	{"gemini", "gemini-2.5-pro", askGemini},
	bedrockSpeaker,
	{"bedrock", "meta.llama4", askBedrock},
}

// askClaude demands reasoning.
func askClaude(ctx context.Context, c client, req transcript.Request, stream bool) (*transcript.Response, error) {
	format := anthropic.Format{Stream: stream, Thinking: json.RawMessage(`{"type":"enabled","budget_tokens":1024}`)}
	body, _, err := format.Request(req)
	if err != nil {
		return nil, err
	}
	return c.answer(ctx, "/v1/messages", body, stream, format.NewStream(), format.Response)
}

// A conversation that goes from each provider to the next and back to the first,
// in the middle of turns, with reasoning, parallel calls, images and documents,
// is accepted at each step, and each gets its own reasoning back.
func TestProviders(t *testing.T) {
	order := []speaker{providers[0], providers[2], providers[3], providers[4], providers[6], providers[0]}
	for _, stream := range []bool{false, true} {
		n := 0
		c := newConversation(t, func(r guardtest.Request) guardtest.Answer {
			n++
			return guardtest.Answer{Blocks: []transcript.Block{
				thought(r.Model), transcript.TextBlock{Text: "I look."}, odd(r.Model, fmt.Sprint("call.", n)), odd(r.Model, fmt.Sprint("call ", n)),
			}}
		})
		c.say(transcript.UserText("Look.").Content...)
		for step, s := range append(order, order...) {
			resp := c.ask(s, stream)
			for i, call := range resp.Message.ToolCalls() {
				c.say(transcript.ToolResultBlock{CallID: call.ID}.WithContent(shown[(step+i)%len(shown)], transcript.TextBlock{Text: "See."}))
			}
			resp = c.ask(s, stream) // it continues its own reasoning
			for _, call := range resp.Message.ToolCalls() {
				c.say(transcript.ToolResult(call.ID, "ok").Content...)
			}
		}
		c.check(1)
	}
}

// The same holds for conversations in which anything happens: answers are cut,
// results are lost or late, users speak in between.
func TestProvidersRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("many samples in one goroutine")
	}
	back := map[string]int{}
	for seed := range uint64(storetest.Extent(*storetest.Soak, 20, 40, 400)) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		c := newConversation(t, func(r guardtest.Request) guardtest.Answer { return randomAnswer(rnd, r) })
		c.say(transcript.UserText("Go.").Content...)
		var late []transcript.Block
		for range 16 {
			s := providers[rnd.IntN(len(providers))]
			resp := c.ask(s, rnd.IntN(2) == 0)
			said := false
			if rnd.IntN(2) == 0 && len(late) > 0 {
				c.say(late...)
				late = nil
			}
			for _, call := range resp.Message.ToolCalls() {
				result := transcript.ToolResultBlock{CallID: call.ID, IsError: rnd.IntN(4) == 0}.WithContent(randomContent(rnd)...)
				switch rnd.IntN(6) {
				case 0: // lost
				case 1:
					late = append(late, result)
				default:
					said = true
					c.say(result)
				}
			}
			if said && rnd.IntN(2) == 0 {
				continue
			}
			c.say(append(randomContent(rnd), transcript.TextBlock{Text: "Go on."})...)
		}
		for api, n := range c.check(0) {
			back[api] += n
		}
	}
	for _, s := range providers {
		if back[s.model] == 0 && s.name != "openai-chat" && s.model != "gemini-2.5-pro" {
			t.Errorf("no reasoning went back to %s: the test checks nothing of it", s.model)
		}
	}
}

// A conversation is recorded and read back by a fold.
type conversation struct {
	t    *testing.T
	m    *guardtest.Model
	fold *rebuild.Fold
	ids  int
}

func newConversation(t *testing.T, rule guardtest.Rule) *conversation {
	return &conversation{t: t, m: &guardtest.Model{Answer: rule, Keep: -1}, fold: rebuild.New(nil)}
}

// say records a user's blocks.
func (c *conversation) say(content ...transcript.Block) {
	c.t.Helper()
	c.record(transcript.Message{Role: transcript.RoleUser, Content: content})
}

// ask sends the history to a model and records the received part of its answer.
func (c *conversation) ask(s speaker, stream bool) *transcript.Response {
	c.t.Helper()
	h := c.fold.History()
	req := transcript.Request{
		Model: s.model, System: "Be brief.", Messages: h.Messages, MaxOutput: 4000,
		Tools: []transcript.Tool{{Name: "look", InputSchema: json.RawMessage(`{"type":"object"}`)}},
	}
	resp, err := s.ask(c.t.Context(), inProcess(c.m), req, stream)
	if resp == nil {
		last := c.m.Requests()
		c.t.Fatalf("%s: %v\n%s", s.name, err, last[len(last)-1].Body)
	}
	c.record(resp)
	return resp
}

// record appends entries as a session would read them back.
func (c *conversation) record(item transcript.Item) {
	c.t.Helper()
	newID := func() string { c.ids++; return fmt.Sprint("e", c.ids) }
	entries, err := transcript.NewBatch(time.Unix(0, 0), newID, item)
	require.NoError(c.t, err)
	for i, e := range entries {
		entries[i], err = transcript.ParseEntry(e.Line())
		require.NoError(c.t, err)
	}
	require.NoError(c.t, c.fold.Add(transcript.Batch{Entries: entries, Complete: true}))
}

// check checks that nothing was refused and that signed reasoning was sent to
// its maker alone. It returns how often, which is least at least.
func (c *conversation) check(least int) map[string]int {
	c.t.Helper()
	back := map[string]int{}
	for _, r := range c.m.Requests() {
		if r.Outcome == guardtest.Invalid || r.Outcome == guardtest.Overflow {
			c.t.Fatalf("refused: %s\n%s", r.Refused, r.Body)
		}
		for _, s := range providers {
			n := bytes.Count(r.Body, []byte(signature(s.model)))
			if n > 0 && s.model != r.Model {
				c.t.Fatalf("%s is sent what %s signed: %s", r.Model, s.model, r.Body)
			}
			back[s.model] += n
		}
	}
	for _, model := range []string{"claude-x", "gpt-y", geminiModel, bedrockModel} {
		if back[model] < least {
			c.t.Errorf("%s was sent %d of its signatures", model, back[model])
		}
	}
	return back
}

// signature is the signature of a model's reasoning.
func signature(model string) string {
	return base64.StdEncoding.EncodeToString([]byte("signed by " + model + ".."))
}

// signed is the ext of a block of Gemini's, nil of others.
func signed(model string) transcript.Extra {
	if !strings.HasPrefix(model, "gemini") {
		return nil
	}
	return transcript.Extra{"ext": json.RawMessage(`{"thoughtSignature":"` + signature(model) + `"}`)}
}

func thought(model string) transcript.Block {
	return transcript.ThinkingBlock{Thinking: "Hm.", Signature: signature(model), Extra: signed(model)}
}

// odd is a call whose ID not every provider takes.
func odd(model, id string) transcript.Block {
	return transcript.ToolCallBlock{ID: id, Name: "look", Input: json.RawMessage(`{"at": "a b c d e f g h i j k l m n"}`), Extra: signed(model)}
}

// shown are images and documents, of which no provider takes all.
var shown = []transcript.Block{
	transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: "iVBORw0KGgo="}},
	transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/heic", Data: "AAAA"}},
	transcript.ImageBlock{Source: transcript.Source{Type: "url", URL: "https://x.example/a.png"}},
	transcript.ImageBlock{Source: transcript.Source{Type: "file", FileID: "file-1"}},
	transcript.DocumentBlock{Source: transcript.Source{Type: "base64", MediaType: "application/pdf", Data: "JVBERi0x"}, Title: "Q4"},
	transcript.DocumentBlock{Source: transcript.Source{Type: "base64", MediaType: "text/csv", Data: "AAAA"}},
	transcript.DocumentBlock{Source: transcript.Source{Type: "text", MediaType: "text/plain", Data: "All of it."}, Context: "C"},
	transcript.DocumentBlock{Source: transcript.Source{Type: "url", URL: "https://x.example/a.pdf"}},
	transcript.ContextBlock{URI: "file:a", Kind: "resource", Abstract: "About a."},
	transcript.RawBlock{JSON: json.RawMessage(`{"type":"search_result","source":"s","title":"t","content":[{"type":"text","text":"x"}]}`)},
}

func randomContent(rnd *rand.Rand) (content []transcript.Block) {
	for range rnd.IntN(3) {
		content = append(content, shown[rnd.IntN(len(shown))])
	}
	return content
}

// randomAnswer is one of a model, or one that goes wrong.
func randomAnswer(rnd *rand.Rand, r guardtest.Request) guardtest.Answer {
	model := r.Model
	var blocks []transcript.Block
	for range rnd.IntN(3) {
		blocks = append(blocks, thought(model))
	}
	ids := []string{"a", "call.1", "call 1", "ü", strings.Repeat("x", 41), strings.Repeat("x", 65), "toolu_1", "srvtoolu_1"}
	rnd.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for range rnd.IntN(4) {
		switch rnd.IntN(4) {
		case 0:
			blocks = append(blocks, transcript.TextBlock{Text: "I look.", Extra: signed(model)})
		case 1:
			blocks = append(blocks, transcript.RawBlock{JSON: json.RawMessage(`{"type":"gemini_part","part":{"executableCode":{"language":"PYTHON","code":"1"}}}`)})
			if !strings.HasPrefix(model, "gemini") {
				blocks[len(blocks)-1] = transcript.TextBlock{Text: "So it is."}
			}
		default:
			blocks = append(blocks, odd(model, ids[len(blocks)]))
		}
	}
	a := guardtest.Answer{Blocks: blocks}
	if blocks == nil {
		a = guardtest.Say("Done.")
	}
	switch rnd.IntN(10) {
	case 0:
		return guardtest.Answer{Text: "No.", Stop: transcript.StopRefusal}
	case 1:
		a.Stop = transcript.StopMaxTokens
	}
	if !r.Stream { // half of it is not an answer
		return a
	}
	switch rnd.IntN(8) {
	case 0:
		return guardtest.EndAfter(1+rnd.IntN(8), a)
	case 1:
		return guardtest.CutInput(a)
	case 2:
		return guardtest.FailAfter(1+rnd.IntN(8), "overloaded_error", "Overloaded", a)
	}
	return a
}
