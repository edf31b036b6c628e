package wire_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/wiretest"
	"github.com/convolog/convolog/transcript"
)

// go test ./rebuild/wire samples what the tests of random histories can do.
// -soak=gate does what .ci/run asks for; -soak=long is for a night.
var soak = flag.String("soak", "short", "how many histories the random tests try: short, gate or long")

// amount is how far a test goes.
func amount[T any](short, gate, long T) T {
	switch *soak {
	case "long":
		return long
	case "gate":
		return gate
	}
	return short
}

// A speaker is a format with a model and the service that answers it.
type speaker struct {
	name, model string
	request     func(transcript.Request) ([]byte, rebuild.Report, error)
	response    func([]byte) (*transcript.Response, error)
	service     wiretest.API
}

var speakers = []speaker{
	{"anthropic", "claude-opus-5-5", wire.Anthropic{Cache: wire.Cache5m}.Request, wire.Anthropic{}.Response, wiretest.Anthropic{}},
	{"openai-chat", "deepseek-v4", wire.OpenAIChat{Reasoning: true}.Request, wire.OpenAIChat{}.Response, wiretest.OpenAIChat{Reasoning: true}},
	{"openai-responses", "gpt-6", wire.OpenAIResponses{}.Request, wire.OpenAIResponses{}.Response, wiretest.OpenAIResponses{}},
	{"gemini", "gemini-4", wire.Gemini{}.Request, wire.Gemini{}.Response, wiretest.Gemini{Model: "gemini-4"}},
	{
		"bedrock", "anthropic.claude-opus-5-5-v1:0", wire.Bedrock{Cache: wire.Cache1h}.Request,
		wire.Bedrock{Model: "anthropic.claude-opus-5-5-v1:0"}.Response,
		wiretest.Bedrock{},
	},
}

var nextTools = []transcript.Tool{{Name: "f", InputSchema: json.RawMessage(`{"type":"object"}`)}}

// A flight is a request whose answer has not come yet.
type flight struct {
	to      int // index of the speaker
	req     transcript.Request
	body    []byte
	made    transcript.Made
	reasons int // how many there were when it was made
}

// A talk is a random conversation with one model, and at times with others.
type talk struct {
	t       *testing.T
	rng     *rand.Rand
	fold    *rebuild.Fold
	home    int
	n       int
	flying  []flight
	open    []string // calls without a result
	results []string // entries that can be clipped
	entries []string
	system  string
	prev    map[int]flight // the last request that each model has answered
	trace   []string

	reasons []string       // for a request that is no continuation, with what is logged about them
	counts  map[string]int // requests with one before them, by speaker; and those that only add to it
}

func (k *talk) append(items ...transcript.Item) []string {
	entries, err := transcript.NewBatch(time.Unix(int64(k.n), 0), func() string { k.n++; return fmt.Sprintf("e%d", k.n) }, items...)
	require.NoError(k.t, err)
	require.NoError(k.t, k.fold.Add(transcript.Batch{Entries: entries, Complete: true}))
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	k.entries = append(k.entries, ids...)
	k.trace = append(k.trace, fmt.Sprintf("%v %T", ids, items[0]))
	return ids
}

// why notes an entry or an event that explains a request that is no continuation.
func (k *talk) why(reason string) { k.reasons = append(k.reasons, reason) }

// send renders a request as a guard does, and compares it with the one before.
func (k *talk) send() {
	h := k.fold.History()
	if n := len(h.Messages); n == 0 || h.Messages[n-1].Role == transcript.RoleAssistant || len(k.flying) > 1 {
		return
	}
	f := flight{to: k.home}
	if k.rng.IntN(8) == 0 {
		f.to = k.rng.IntN(len(speakers))
	}
	s := speakers[f.to]
	f.req = transcript.Request{Model: s.model, System: k.system + h.Prompt + h.System, Messages: h.Messages, Tools: nextTools}
	f.made = transcript.Made{After: h.After, PromptHash: rebuild.PromptHash(f.req.System, nextTools)}
	f.req.Messages, f.made.Thought = rebuild.Reasoned(f.req.Messages, f.made.PromptHash)
	if k.rng.IntN(20) == 0 {
		f.req.Messages, f.made.Thought = rebuild.WithoutReasoning(f.req.Messages), ""
		k.why("a retry without reasoning")
	}
	f.reasons = len(k.reasons)
	var err error
	f.body, _, err = s.request(f.req)
	require.NoError(k.t, err)
	if _, found := s.service.Decode(f.body); len(found) > 0 {
		k.t.Fatalf("%s: %v\n%s\n%s", s.name, found, strings.Join(k.trace, "\n"), f.body)
	}
	k.compare(f)
	k.trace = append(k.trace, fmt.Sprintf("request to %s after %s", s.name, f.made.After))
	k.flying = append(k.flying, f)
}

func (k *talk) compare(f flight) {
	prev, ok := k.prev[f.to]
	if !ok {
		return
	}
	name := speakers[f.to].name
	k.counts[name]++
	found := wiretest.ValidateNext(prev.body, f.body)
	switch {
	case len(found) == 0:
		k.counts[name+" continued"]++
	case f.reasons == prev.reasons:
		k.t.Fatalf("%s: nothing says why a request does not go on from the one before: %v\n%s\n%s\n%s",
			name, found, strings.Join(k.trace, "\n"), prev.body, f.body)
	default:
		k.counts["because of "+k.reasons[f.reasons-1]]++
	}
}

// answer takes the answer to one of the requests.
func (k *talk) answer() {
	if len(k.flying) == 0 {
		return
	}
	i := k.rng.IntN(len(k.flying))
	f := k.flying[i]
	k.flying = slices.Delete(k.flying, i, i+1)
	if len(k.flying) > 0 {
		k.why("an answer to a request that others overtook")
	}
	if f.made.After != "" && k.fold.Has(f.made.After) && !k.fold.Live(f.made.After) {
		return // ErrConflict
	}
	s := speakers[f.to]
	resp, err := s.response(s.service.Whole(wiretest.Message{ID: k.n, Model: s.model, Content: k.content(s), Stop: transcript.StopEndTurn}))
	require.NoError(k.t, err)
	resp.Made = f.made
	if k.rng.IntN(12) == 0 {
		resp.StopReason = transcript.StopAborted
	}
	calls := resp.Message.ToolCalls()
	for _, c := range calls {
		k.open = append(k.open, c.ID)
	}
	k.append(*resp)
	if resp.StopReason != transcript.StopAborted || len(calls) < len(resp.Message.Content) {
		k.prev[f.to] = f // something of its answer is shown
	}
}

// content is what a model says: reasoning, texts and calls, in its order.
func (k *talk) content(s speaker) (content []transcript.Block) {
	if k.rng.IntN(5) > 0 {
		thought := transcript.ThinkingBlock{Thinking: fmt.Sprint("t", k.n), Signature: "c2ln"}
		if k.rng.IntN(4) == 0 && s.name != "openai-chat" {
			thought.Thinking = ""
		}
		content = append(content, thought)
	}
	if k.rng.IntN(3) > 0 {
		content = append(content, transcript.TextBlock{Text: fmt.Sprint("a", k.n)})
	}
	for i := range k.rng.IntN(3) {
		content = append(content, transcript.ToolCallBlock{ID: fmt.Sprintf("call_%d_%d", k.n, i), Name: "f", Input: json.RawMessage(`{"x":1}`)})
	}
	if len(content) < 2 {
		content = append(content, transcript.TextBlock{Text: fmt.Sprint("b", k.n)})
	}
	return content
}

func (k *talk) result() {
	if len(k.open) == 0 {
		return
	}
	i := k.rng.IntN(len(k.open))
	id := k.open[i]
	k.open = slices.Delete(k.open, i, i+1)
	k.results = append(k.results, k.append(transcript.ToolResult(id, "r"+id))[0])
}

// edit writes an entry that changes what is shown of the past, or only adds to
// what is said of the system.
func (k *talk) edit() {
	switch k.rng.IntN(5) {
	case 0, 1:
		if len(k.results) > 0 {
			k.why("a clip")
			k.append(transcript.Clip{Clips: []transcript.Clipping{{Entry: k.results[k.rng.IntN(len(k.results))], Content: "short"}}})
		}
	case 2:
		if k.rng.IntN(2) == 0 {
			k.append(transcript.System{Text: fmt.Sprint("prompt ", k.n)})
		} else if k.rng.IntN(3) == 0 {
			k.why("another system prompt")
			k.system = fmt.Sprint("system ", k.rng.IntN(2))
		}
	case 3:
		k.why("a rewind")
		k.append(transcript.Rewind{To: k.entries[k.rng.IntN(len(k.entries))]})
	case 4:
		if k.rng.IntN(2) == 0 {
			k.compact()
		}
	}
}

func (k *talk) compact() {
	k.why("a compaction")
	h := k.fold.History()
	first := ""
	for i, m := range h.Messages {
		if i > 0 && m.Role == transcript.RoleUser && h.StartsTurn(i) && m.Origins[0].Entry != "" && (first == "" || k.rng.IntN(2) == 0) {
			first = m.Origins[0].Entry
		}
	}
	k.append(transcript.System{Text: "p"}, transcript.Compaction{Summary: "S", FirstKept: first, CoversTo: h.After})
}

func (k *talk) step() {
	switch k.rng.IntN(16) {
	case 0, 1:
		k.append(transcript.UserText(fmt.Sprint("u", k.n)))
	case 2, 3, 4, 5:
		k.send()
	case 6, 7, 8, 9, 10:
		k.answer()
	case 11, 12, 13:
		k.result()
	case 14:
		k.edit()
	}
}

// Whatever is written while requests are on their way, the next request to a model
// holds the one that it has answered, block for block; where it does not, an entry
// or an event says why. Every request is one that the provider accepts.
func TestNextRequest(t *testing.T) {
	histories := uint64(amount(20, 300, 100_000))
	for home, s := range speakers {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			counts := map[string]int{}
			for seed := range histories {
				k := &talk{
					t: t, rng: rand.New(rand.NewPCG(seed, uint64(home))), fold: rebuild.New(nil), home: home,
					prev: map[int]flight{}, counts: counts,
				}
				k.append(transcript.UserText("u"))
				for range 60 {
					k.step()
				}
			}
			t.Logf("%d of %d requests go on from the one before", counts[s.name+" continued"], counts[s.name])
			require.Greater(t, counts[s.name+" continued"], int(histories))
			for _, name := range slices.Sorted(maps.Keys(counts)) {
				if strings.HasPrefix(name, "because of ") {
					t.Logf("%d not, %s", counts[name], name)
				}
			}
		})
	}
}
