package wire_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A flight is a request whose answer has not come yet.
type flight struct {
	to      int // index of the speaker
	req     transcript.Request
	body    []byte
	made    transcript.Made
	reasons int // number of reasons at its time
}

// A talk is a random conversation with one model, and at times with others.
type talk struct {
	t    *testing.T
	rng  *rand.Rand
	fold *rebuild.Fold
	tail bool // the fold lacks lines before the last compaction
	home int
	said
	flying []flight

	early  *said          // the conversation at an earlier entry
	counts map[string]int // by speaker: requests after another, and those that only add to it
}

// said is a conversation up to some entry. It is copied to cut the conversation
// there.
type said struct {
	n       int
	lines   []transcript.Batch
	live    []int            // indexes of live batches
	after   map[string][]int // the same, right after an entry
	open    []string         // calls without a result
	results []string         // entries that can be clipped
	entries []string
	system  string
	prev    map[int]flight // the last request that each model has answered
	reasons []string       // for requests that are not continuations
	trace   []string
}

func newTalk(t *testing.T, home int, seed uint64, counts map[string]int) *talk {
	k := &talk{t: t, rng: rand.New(rand.NewPCG(seed, uint64(home))), fold: rebuild.New(nil), home: home, counts: counts}
	k.prev, k.after = map[int]flight{}, map[string][]int{}
	k.append(transcript.UserText("u"))
	return k
}

func (k *talk) append(items ...transcript.Item) []string {
	entries, err := transcript.NewBatch(time.Unix(int64(k.n), 0), func() string { k.n++; return fmt.Sprintf("e%d", k.n) }, items...)
	require.NoError(k.t, err)
	b := transcript.Batch{Entries: entries, Complete: true}
	k.lines = append(k.lines, b)
	if to, ok := items[0].(transcript.Rewind); ok {
		k.live = k.after[to.To]
	} else {
		k.live = append(slices.Clip(k.live), len(k.lines)-1)
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
		k.after[e.ID] = k.live
	}
	k.entries = append(k.entries, ids...)
	k.trace = append(k.trace, fmt.Sprintf("%v %T", ids, items[0]))
	if _, ok := items[0].(transcript.Rewind); ok && k.tail {
		k.reopen() // it refers to a line that a tail may lack
		return ids
	}
	require.NoError(k.t, k.fold.Add(b))
	return ids
}

// resume reads the conversation again, like a session, from the first line that
// its last compaction keeps. The history must stay the same.
func (k *talk) resume() {
	before := shown(k.fold.History())
	k.reopen()
	require.Equal(k.t, before, shown(k.fold.History()), "%s", strings.Join(k.trace, "\n"))
}

// shown is the part of a history that goes into requests.
func shown(h rebuild.History) string {
	text, _ := json.Marshal(h) // never fails
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s after %s\n", text, h.After)
	for _, m := range h.Messages {
		for _, o := range m.Origins {
			fmt.Fprint(&sb, o.Entry)
			if o.Answer != nil {
				fmt.Fprint(&sb, " ", *o.Answer)
			}
			sb.WriteString("\n")
		}
	}
	return sb.String()
}

func (k *talk) reopen() {
	from := 0
	for _, i := range k.live {
		for _, e := range k.lines[i].Entries {
			if c, ok := e.Body.(transcript.Compaction); ok {
				from = k.firstKept(c)
			}
		}
	}
	if k.tail = from > 0; k.tail {
		k.counts["tail"]++
	}
	k.fold = k.read(k.lines[from:], k.tail)
	k.trace = append(k.trace, fmt.Sprintf("resumed from %d of %d lines", from, len(k.lines)))
}

// firstKept returns the index of the first batch of the history.
func (k *talk) firstKept(c transcript.Compaction) int {
	kept := cmp.Or(c.FirstKept, c.CoversTo)
	for _, i := range k.live {
		if slices.ContainsFunc(k.lines[i].Entries, func(e transcript.Entry) bool { return e.ID == kept }) {
			return i
		}
	}
	return 0
}

func (k *talk) read(lines []transcript.Batch, tail bool) *rebuild.Fold {
	f := rebuild.New(&rebuild.Options{Tail: tail})
	for _, b := range lines {
		require.NoError(k.t, f.Add(b))
	}
	return f
}

// mark remembers the conversation as it is now.
func (k *talk) mark() {
	early := k.said
	early.open, early.prev = slices.Clone(k.open), maps.Clone(k.prev)
	early.results, early.entries = slices.Clip(k.results), slices.Clip(k.entries)
	early.reasons, early.trace = slices.Clip(k.reasons), slices.Clip(k.trace)
	k.early = &early
}

// fork copies the lines that were live at an earlier entry, and continues them
// in another way. Its first requests continue the ones before that entry.
func (k *talk) fork(steps int) {
	f := &talk{t: k.t, rng: k.rng, home: k.home, counts: k.counts, said: *k.early}
	k.early = nil
	k.counts["fork"]++
	f.after, f.lines, f.live = map[string][]int{}, nil, nil
	for _, i := range k.after[f.entries[len(f.entries)-1]] {
		b := k.lines[i]
		f.lines, f.live = append(f.lines, b), append(slices.Clip(f.live), len(f.lines))
		for _, e := range b.Entries {
			f.after[e.ID] = f.live
		}
	}
	here := func(id string) bool { return f.after[id] != nil }
	f.entries, f.results = filter(f.entries, here), filter(f.results, here)
	f.fold = f.read(f.lines, false)
	f.trace = append(f.trace, fmt.Sprint("forked at ", f.entries[len(f.entries)-1]))
	f.run(steps)
}

// filter returns the elements of a list for which ok is true.
func filter(list []string, ok func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return !ok(s) })
}

// why notes an entry or an event that explains why a request is not a
// continuation.
func (k *talk) why(reason string) { k.reasons = append(k.reasons, reason) }

// send renders a request like a guard, and compares it with the one before.
func (k *talk) send() {
	h := k.fold.History()
	if n := len(h.Messages); n == 0 || h.Messages[n-1].Role == transcript.RoleAssistant || len(k.flying) > 1 {
		return
	}
	if k.rng.IntN(8) == 0 {
		k.resume()
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
		f.req.Messages, f.made.Thought = rebuild.Without(f.req.Messages, func(b transcript.Block, o transcript.Origin) bool {
			return transcript.IsReasoning(b) && (o.API == "anthropic" || o.API == "bedrock")
		}), ""
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
	if k.fold.Has(f.made.After) && !k.fold.Live(f.made.After) {
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
		k.prev[f.to] = f // a part of its answer is shown
	}
}

// content is the content of an answer: reasoning, texts and calls, in order.
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

// edit writes an entry that changes the shown past, or only adds to the system
// prompt.
func (k *talk) edit() {
	switch k.rng.IntN(5) {
	case 0, 1:
		if len(k.results) > 0 {
			k.why("a clip")
			k.append(transcript.Clip{Clips: []transcript.Clipping{{Entry: k.results[k.rng.IntN(len(k.results))], Content: "short"}}})
		}
	case 2:
		if n := k.rng.IntN(4); n == 0 {
			k.append(transcript.System{Text: fmt.Sprint("prompt ", k.n)})
		} else if n == 1 {
			k.append(transcript.Tools{Names: []string{"read", fmt.Sprint("tool", k.n)}})
		} else if k.rng.IntN(3) == 0 {
			k.why("another system prompt")
			k.system = fmt.Sprint("system ", k.rng.IntN(2))
		}
	case 3:
		k.why("a rewind")
		k.append(transcript.Rewind{To: k.entries[k.rng.IntN(len(k.entries))]})
	case 4:
		switch k.rng.IntN(8) {
		case 0, 1, 2, 3:
			k.compact()
		case 4:
			k.why("a hide")
			k.append(transcript.Hide{Entries: []string{k.entries[k.rng.IntN(len(k.entries))]}, Off: k.rng.IntN(3) == 0})
		case 5:
			k.append(transcript.Interrupt{Ended: "stopped"})
		}
	}
}

func (k *talk) compact() {
	k.why("a compaction")
	h := k.fold.History()
	var starts []int
	for i, m := range h.Messages {
		if i > 0 && m.Origins[0].Entry != "" && h.StartsTurn(i) {
			starts = append(starts, i)
		}
	}
	c := transcript.Compaction{Summary: "S", CoversTo: h.After}
	if len(starts) > 0 {
		at := starts[k.rng.IntN(len(starts))]
		if c.FirstKept = h.Messages[at].Origins[0].Entry; k.rng.IntN(2) == 0 {
			c = planned(h, at)
		}
	}
	_, turns := k.fold.Preview(c)
	c.TurnsBefore = k.fold.Turns() - turns
	k.append(transcript.System{Text: "p"}, c)
}

// planned is a compaction where a plan would cut: Read names the entries after
// the first kept one that are shown before the cut.
func planned(h rebuild.History, at int) transcript.Compaction {
	var first, last transcript.Origin
	for _, m := range h.Messages[at:] {
		for _, o := range m.Origins {
			if o.Batch > 0 && (first.Batch == 0 || o.Batch < first.Batch) {
				first = o
			}
		}
	}
	c := transcript.Compaction{Summary: "S", FirstKept: first.Entry}
	for _, m := range h.Messages[:at] {
		for _, o := range m.Origins {
			if o.Batch > first.Batch {
				c.Read = append(c.Read, o.Entry)
			} else if o.Batch >= last.Batch && o.Batch < first.Batch {
				last = o
			}
		}
	}
	c.CoversTo = last.Entry
	return c
}

func (k *talk) run(steps int) {
	for i := range steps {
		k.step(steps - i)
	}
}

func (k *talk) step(left int) {
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
	case 15:
		switch {
		case k.rng.IntN(3) == 0:
			k.resume()
		case k.early == nil:
			k.mark()
		default:
			k.fork(left / 2)
		}
	}
}
