package rebuild

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/transcript"
)

// A signer is a provider that binds reasoning to its request, as the Messages
// API does: to the system prompt and the tools, to the earlier messages, and to
// the reasoning right before it.
type signer struct{ made int }

// sign returns reasoning for an answer to a request.
func (s *signer) sign(req transcript.Request) transcript.ThinkingBlock {
	s.made++
	prefix, last := bindings(req)
	id := fmt.Sprint("t", s.made)
	return transcript.ThinkingBlock{Thinking: id, Signature: strings.Join([]string{id, prefix, last}, "|")}
}

func (s *signer) check(req transcript.Request) error {
	var before []string
	last := ""
	first := true
	for i, m := range req.Messages {
		for j, b := range m.Content {
			t, ok := b.(transcript.ThinkingBlock)
			if !ok {
				before = append(before, shape(m.Role, b))
				continue
			}
			parts := strings.Split(t.Signature, "|")
			// Blocks of an answer before its reasoning do not count here.
			if want := digest(req, before); parts[1] != want {
				return fmt.Errorf("messages.%d.content.%d (%s): bound to a different conversation", i, j, parts[0])
			}
			if !first && parts[2] != last {
				return fmt.Errorf("messages.%d.content.%d (%s): made behind the reasoning %q, not %q", i, j, parts[0], parts[2], last)
			}
			first, last = false, parts[0]
		}
	}
	return nil
}

func bindings(req transcript.Request) (prefix, last string) {
	var before []string
	for _, m := range req.Messages {
		for _, b := range m.Content {
			if t, ok := b.(transcript.ThinkingBlock); ok {
				last, _, _ = strings.Cut(t.Signature, "|")
				continue
			}
			before = append(before, shape(m.Role, b))
		}
	}
	return digest(req, before), last
}

func shape(role transcript.Role, b transcript.Block) string {
	return string(role) + string(transcript.MarshalBlock(b))
}

func digest(req transcript.Request, before []string) string {
	text, _ := json.Marshal([]any{req.System, req.Tools, before})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// A flight is a request whose answer has not come yet.
type flight struct {
	req   transcript.Request
	made  transcript.Made
	edits int // how many there were when it was made
}

// A talk is a random conversation.
type talk struct {
	t      *testing.T
	rng    *rand.Rand
	fold   *Fold
	tail   bool // the fold holds only the part kept by the last compaction, and later lines
	log    []transcript.Batch
	signer signer
	n      int
	flying []flight
	open   []string // calls without a result
	done   []string // results that can be clipped, by entry
	system string
	edits  int     // clips, compactions, rewinds, other prompts, and answers to other requests
	prev   *flight // the request that was answered last
	trace  []string
	known  [2]transcript.Calibration // of two models
	model  int                       // that the next request goes to

	compared, kept int // requests with the one before, and those that only add to it
}

func (k *talk) append(items ...transcript.Item) []string {
	entries, err := transcript.NewBatch(time.Unix(int64(k.n), 0), func() string { k.n++; return fmt.Sprintf("e%d", k.n) }, items...)
	require.NoError(k.t, err)
	b := transcript.Batch{Entries: entries, Complete: true}
	k.log = append(k.log, b)
	if _, rewinds := items[0].(transcript.Rewind); rewinds && k.tail {
		k.read(0)
	} else {
		require.NoError(k.t, k.fold.Add(b))
	}
	ids := make([]string, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

// read folds the lines from a batch on.
func (k *talk) read(from int) {
	k.tail = from > 0
	k.fold = New(&Options{Tail: k.tail})
	for _, b := range k.log[from:] {
		require.NoError(k.t, k.fold.Add(b))
	}
}

// resume reads the conversation again, from the first line that its compaction
// keeps. The history must stay the same.
func (k *talk) resume() {
	kept := ""
	for _, node := range k.fold.path() {
		if c, ok := node.body.(transcript.Compaction); ok {
			kept = cmp.Or(c.FirstKept, c.CoversTo)
		}
	}
	from := slices.IndexFunc(k.log, func(b transcript.Batch) bool {
		return slices.ContainsFunc(b.Entries, func(e transcript.Entry) bool { return e.ID == kept })
	})
	before := k.fold.History()
	k.read(max(from, 0))
	after := k.fold.History()
	require.Equal(k.t, dump(transcript.Request{Messages: before.Messages}), dump(transcript.Request{Messages: after.Messages}), "%s", k.trace)
	require.Equal(k.t, before.Prompt+before.After, after.Prompt+after.After)
	k.tracef("resumed from %d", from)
}

// fork continues for a while with a copy of the lines that were in force right
// after a batch.
func (k *talk) fork(at int) {
	whole := &talk{t: k.t, log: k.log[:at+1]}
	whole.read(0)
	f := &talk{t: k.t, rng: k.rng, signer: k.signer, n: k.n, done: slices.Clone(k.done), system: k.system, trace: slices.Clone(k.trace)}
	last := 0
	for _, node := range whole.fold.path() {
		if n := node.batch; n != last {
			f.log, last = append(f.log, k.log[n-1]), n
		}
	}
	f.read(0)
	f.tracef("forked behind %d", at)
	for range 20 {
		f.step()
	}
}

func (k *talk) tracef(format string, args ...any) {
	k.trace = append(k.trace, fmt.Sprintf(format, args...))
}

// request renders a request as a guard does.
func (k *talk) request() flight {
	h := k.fold.History()
	req := transcript.Request{System: k.system + h.Prompt + h.System, Messages: h.Messages}
	made := transcript.Made{After: h.After, PromptHash: PromptHash(req.System, nil)}
	if k.rng.IntN(12) == 0 {
		k.model = 1 - k.model
		k.edits++
	}
	messages, mark := For(req.Messages, k.known[k.model])
	req.Messages, made.Thought = Reasoned(messages, made.PromptHash)
	again, thought := Reasoned(req.Messages, made.PromptHash)
	require.Equal(k.t, made.Thought, thought, "%s", k.trace)
	require.Equal(k.t, req.Messages, again)
	made.PromptHash += mark
	return flight{req, made, k.edits}
}

// refuse has a model refuse a part of the history.
func (k *talk) refuse() {
	c := &k.known[k.model]
	h := k.fold.History().Messages
	switch k.rng.IntN(4) {
	case 0:
		if len(h) > 0 {
			m := h[k.rng.IntN(len(h))]
			c.Unread = m.Origins[len(m.Origins)-1].Entry
		}
	case 1:
		for _, m := range h {
			for j, o := range m.Origins {
				if holdsMedia(m.Content[j]) && k.rng.IntN(2) == 0 {
					*c = c.Merge(transcript.Calibration{Left: []transcript.BlockRef{{Entry: o.Entry, Block: o.Block}}})
				}
			}
		}
	case 2:
		*c = c.Merge(transcript.Calibration{Without: []transcript.Form{transcript.Images}})
	default:
		*c = transcript.Calibration{}
	}
	k.edits++
	k.tracef("model %d refuses: %+v", k.model, *c)
}

func holdsMedia(b transcript.Block) bool {
	r, ok := b.(transcript.ToolResultBlock)
	return transcript.IsMedia(b) || ok && slices.ContainsFunc(r.Content, transcript.IsMedia)
}

func picture(n int) transcript.Block {
	return transcript.ImageBlock{Source: transcript.Source{Type: "base64", MediaType: "image/png", Data: fmt.Sprintf("%04d", n)}}
}

// compare counts the requests that only add to the one that was answered before.
func (k *talk) compare(req transcript.Request) {
	if k.prev == nil {
		return
	}
	before, now := flat(k.prev.req), flat(req)
	k.compared++
	if len(now) >= len(before) && slices.Equal(now[:len(before)], before) {
		k.kept++
		return
	}
	if k.edits == k.prev.edits {
		k.t.Fatalf("the request does not begin with the one before\n%s\n%s\n%s", strings.Join(k.trace, "\n"), dump(k.prev.req), dump(req))
	}
}

func flat(req transcript.Request) (blocks []string) {
	for _, m := range req.Messages {
		for _, b := range m.Content {
			blocks = append(blocks, shape(m.Role, b))
		}
	}
	return blocks
}

func (k *talk) step() {
	switch k.rng.IntN(19) {
	case 18:
		if k.rng.IntN(3) == 0 {
			k.refuse()
		}
	case 0, 1:
		k.tracef("user")
		if k.rng.IntN(3) == 0 {
			k.append(transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: fmt.Sprint("u", k.n)}, picture(k.n)}})
			return
		}
		k.append(transcript.UserText(fmt.Sprint("u", k.n)))
	case 2, 3, 4, 5:
		if k.rng.IntN(8) == 0 {
			k.resume()
		}
		h := k.fold.History()
		if n := len(h.Messages); n == 0 || h.Messages[n-1].Role == transcript.RoleAssistant || len(k.flying) > 1 {
			return
		}
		f := k.request()
		if err := k.signer.check(f.req); err != nil {
			k.t.Fatalf("%v\n%s\n%s", err, strings.Join(k.trace, "\n"), dump(f.req))
		}
		k.compare(f.req)
		k.tracef("request after=%s thought=%s", f.made.After, f.made.Thought)
		k.flying = append(k.flying, f)
	case 6, 7, 8, 9, 10:
		if len(k.flying) == 0 {
			return
		}
		i := k.rng.IntN(len(k.flying))
		f := k.flying[i]
		k.flying = slices.Delete(k.flying, i, i+1)
		if len(k.flying) > 0 {
			k.edits++
		}
		if f.made.After != "" && k.fold.Has(f.made.After) && !k.fold.Live(f.made.After) {
			return // ErrConflict
		}
		resp := transcript.Response{API: "anthropic", Model: "claude-opus-5-5", Made: f.made, StopReason: transcript.StopEndTurn}
		resp.Message.Role = transcript.RoleAssistant
		if k.rng.IntN(5) > 0 {
			resp.Message.Content = append(resp.Message.Content, k.signer.sign(f.req))
		}
		if k.rng.IntN(3) > 0 {
			resp.Message.Content = append(resp.Message.Content, transcript.TextBlock{Text: fmt.Sprint("a", k.n)})
		}
		for range k.rng.IntN(3) {
			id := fmt.Sprint("c", k.n, k.rng.IntN(1000))
			resp.Message.Content = append(resp.Message.Content, transcript.ToolCallBlock{ID: id, Name: "f", Input: json.RawMessage(`{}`)})
			k.open = append(k.open, id)
		}
		if len(resp.Message.Content) < 2 {
			resp.Message.Content = append(resp.Message.Content, transcript.TextBlock{Text: fmt.Sprint("b", k.n)})
		}
		if k.rng.IntN(12) == 0 {
			resp.StopReason = transcript.StopAborted
		}
		ids := k.append(resp)
		if resp.StopReason != transcript.StopAborted || len(resp.Message.ToolCalls()) < len(resp.Message.Content) {
			k.prev = &f // something of its answer is shown
		}
		k.tracef("answer %v made=%+v %s calls=%d", ids, resp.Made, resp.StopReason, len(resp.Message.ToolCalls()))
	case 11, 12, 13:
		if len(k.open) == 0 {
			return
		}
		i := k.rng.IntN(len(k.open))
		id := k.open[i]
		k.open = slices.Delete(k.open, i, i+1)
		result := transcript.ToolResult(id, "r"+id)
		if b, ok := result.Content[0].(transcript.ToolResultBlock); ok && k.rng.IntN(4) == 0 {
			result.Content[0] = b.WithContent(transcript.TextBlock{Text: "r" + id}, picture(k.n))
		}
		ids := k.append(result)
		k.done = append(k.done, ids[0])
		k.tracef("result %s of %s", ids, id)
	case 15, 16:
		calls := k.fold.Pending().Calls
		if len(calls) == 0 {
			return
		}
		c := calls[k.rng.IntN(len(calls))]
		said := []transcript.Item{
			transcript.Dispatch{Call: c.Entry, CallID: c.Call.ID},
			transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: transcript.Hold},
			transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: transcript.Approve},
			transcript.Decision{Call: c.Entry, CallID: c.Call.ID, Verdict: transcript.Reject, Reason: "no"},
		}[k.rng.IntN(4)]
		k.tracef("%s %+v", k.append(said), said)
	case 14:
		switch k.rng.IntN(5) {
		case 0, 1:
			if len(k.done) > 0 {
				k.edits++
				e := k.done[k.rng.IntN(len(k.done))]
				ids := k.append(transcript.Clip{Clips: []transcript.Clipping{{Entry: e, Content: "short"}}})
				k.tracef("clip %s of %s", ids, e)
			}
			if k.rng.IntN(3) == 0 {
				k.edits++
				e := k.log[k.rng.IntN(len(k.log))].Entries
				hide := transcript.Hide{Entries: []string{e[len(e)-1].ID}, Off: k.rng.IntN(3) == 0}
				k.tracef("%s %+v", k.append(hide), hide)
			}
		case 2:
			if n := k.rng.IntN(4); n == 0 {
				ids := k.append(transcript.System{Text: fmt.Sprint("prompt ", k.n)})
				k.tracef("prompt %s", ids)
			} else if n == 1 {
				ids := k.append(transcript.Tools{Names: []string{"read", fmt.Sprint("tool", k.n)}})
				k.tracef("tools %s", ids)
			} else if k.rng.IntN(3) == 0 {
				k.edits++
				k.system = fmt.Sprint("system ", k.rng.IntN(2))
				k.tracef("%s", k.system)
			}
		case 3:
			k.edits++
			e := k.log[k.rng.IntN(len(k.log))].Entries[0].ID
			k.append(transcript.Rewind{To: e})
			k.tracef("rewind to %s", e)
		case 4:
			if k.rng.IntN(2) == 0 {
				return
			}
			k.edits++
			h := k.fold.History()
			var keep []string
			for i, m := range h.Messages {
				if i > 0 && m.Role == transcript.RoleUser && h.StartsTurn(i) && m.Origins[0].Entry != "" {
					keep = append(keep, m.Origins[0].Entry)
				}
			}
			first := ""
			if len(keep) > 0 {
				first = keep[k.rng.IntN(len(keep))]
			}
			ids := k.append(transcript.System{Text: "p"}, transcript.Compaction{Summary: "S", FirstKept: first, CoversTo: h.After})
			k.tracef("compaction %s from %s", ids, first)
		}
	}
}

func dump(req transcript.Request) string {
	var sb strings.Builder
	for i, m := range req.Messages {
		for j, b := range m.Content {
			fmt.Fprintf(&sb, "%d.%d %s %s %+v\n", i, j, m.Role, transcript.MarshalBlock(b), m.Origins[j].Answer)
		}
	}
	return sb.String()
}

// Reasoning that a provider has signed is never sent where it would be refused,
// despite entries written during a request, clips, compactions and rewinds.
func TestReasoningIsNeverRefused(t *testing.T) {
	compared, kept, sent := 0, 0, 0
	talks := Amount(130, 400)
	for seed := range uint64(talks) {
		k := &talk{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fold: New(nil)}
		k.append(transcript.UserText("u"))
		for range 60 {
			k.step()
		}
		f := k.request()
		if err := k.signer.check(f.req); err != nil {
			t.Fatalf("seed %d: %v\n%s\n%s", seed, err, strings.Join(k.trace, "\n"), dump(f.req))
		}
		shown := k.fold.History()
		wasTail := k.tail
		k.read(0)
		if wasTail {
			require.Equal(t, dump(transcript.Request{Messages: k.fold.History().Messages}), dump(transcript.Request{Messages: shown.Messages}), "seed %d", seed)
		} else {
			require.Equal(t, k.fold.History(), shown, "seed %d", seed)
		}
		k.fork(k.rng.IntN(len(k.log)))
		compared, kept = compared+k.compared, kept+k.kept
		whole := New(&Options{Full: true})
		for _, b := range k.log {
			require.NoError(t, whole.Add(b))
		}
		for _, m := range whole.History().Messages {
			for _, o := range m.Origins {
				require.Nil(t, o.Answer, "in a view that no request was made of")
			}
		}
		if f.made.Thought != "" {
			sent++
		}
	}
	t.Logf("%d of %d requests begin with the one before", kept, compared)
	require.Greater(t, sent, talks*3/20, "conversations that end with reasoning to send")
}
