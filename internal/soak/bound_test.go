package soak_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// A boundTurn is a long agent turn with a model that refuses reasoning after a
// changed request.
type boundTurn struct {
	t     *testing.T
	rng   *rand.Rand
	dir   string
	opts  *session.Options
	store *session.Store
	s     *session.Session
	model *guardtest.Model
	g     *guard.Guard
	late  []string // calls whose results come later

	bare int // how many requests had to be sent again without reasoning

	edited int         // how often the guard has clipped or compacted
	edits  map[int]int // the same, when a request was answered, by its number
}

func newBoundTurn(t *testing.T, seed uint64, window int) *boundTurn {
	storetest.SkipRace(t)
	b := &boundTurn{t: t, rng: rand.New(rand.NewPCG(seed, 2)), dir: t.TempDir(), edits: map[int]int{}}
	b.model = &guardtest.Model{Window: window, Bind: true, Answer: b.answer}
	b.opts = &session.Options{Sync: session.SyncNever, Compact: compact.Options{Summarizer: compact.SummarizerFunc(storetest.Says("What was done so far."))}}
	b.g = &guard.Guard{Model: "claude-opus-5-5", System: "You are an agent.", Window: window, Observe: func(_ context.Context, e guard.Event) {
		switch e.Kind { //nolint:exhaustive // the others edit nothing
		case guard.EventRefused:
			if !e.Changed {
				b.bare++
			}
		case guard.EventStage:
			b.edited++
		}
	}}
	b.store = storetest.Open(t, b.dir, b.opts)
	b.s = storetest.Load(t, b.store, storetest.CLI)
	return b
}

// answer thinks and calls up to three tools.
func (b *boundTurn) answer(r guardtest.Request) guardtest.Answer {
	b.edits[r.N] = b.edited
	content := []transcript.Block{transcript.ThinkingBlock{Thinking: strings.Repeat("Hm. ", b.rng.IntN(60))}}
	if b.rng.IntN(2) == 0 {
		content = append(content, transcript.TextBlock{Text: "Let me look."})
	}
	for i := range 1 + b.rng.IntN(3) {
		if i > 0 && b.rng.IntN(4) == 0 {
			content = append(content, transcript.ThinkingBlock{Thinking: "And this."})
		}
		content = append(content, transcript.ToolCallBlock{ID: fmt.Sprintf("toolu_%x", b.rng.Uint64()), Name: "read_file", Input: []byte(`{"path":"a.go"}`)})
	}
	return guardtest.Answer{Blocks: content}
}

func (b *boundTurn) add(items ...transcript.Item) {
	_, err := b.s.Append(b.t.Context(), items...)
	require.NoError(b.t, err)
}

// step is one call of the model, and the events around it.
func (b *boundTurn) step(window int) {
	ctx := b.t.Context()
	if b.rng.IntN(12) == 0 {
		b.g.Model = []string{"claude-opus-5-5", "claude-sonnet-5-5"}[b.rng.IntN(2)]
	}
	if b.rng.IntN(15) == 0 {
		storetest.Close(b.t, b.store)
		b.store = storetest.Open(b.t, b.dir, b.opts)
		b.s = storetest.Load(b.t, b.store, storetest.CLI)
	}
	if b.rng.IntN(60) == 0 {
		b.erase()
	}
	resp, err := guard.Do(ctx, b.g, b.s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
		if b.rng.IntN(6) == 0 {
			b.add(transcript.UserText("By the way, hurry."))
		}
		if len(b.late) > 0 && b.rng.IntN(3) == 0 {
			b.result(b.late[0], window)
			b.late = b.late[1:]
		}
		return storetest.Client{Model: b.model}.Complete(ctx, c.Request)
	})
	require.NoError(b.t, err)
	b.add(resp)
	for _, call := range resp.Message.ToolCalls() {
		if b.rng.IntN(10) == 0 {
			b.late = append(b.late, call.ID)
			continue
		}
		b.result(call.ID, window)
	}
	if b.rng.IntN(20) == 0 { // another maker's answer
		b.add(transcript.UserText("And you?"))
		b.add(transcript.Response{Message: transcript.AssistantText("I agree."), API: "openai-chat", Model: "gpt-6"}, transcript.UserText("Go on."))
	}
}

// erase erases some existing entry.
func (b *boundTurn) erase() {
	all := storetest.Entries(b.t, b.s)
	id := all[1+b.rng.IntN(len(all)-1)].ID
	plan, err := erase.Preview(b.t.Context(), b.store, erase.Erasure{Entries: []erase.Selection{{Session: b.s.Ref(), Entries: []string{id}}}})
	require.NoError(b.t, err)
	_, err = erase.Run(b.t.Context(), b.store, plan)
	require.NoError(b.t, err)
	b.edited++
}

func (b *boundTurn) result(id string, window int) {
	text := strings.Repeat("some text of a file, ", b.rng.IntN(window/60))
	b.add(transcript.ToolResult(id, text))
}

// continued counts the requests that hold, block for block, the last one that the
// same model answered. Before the others the guard has clipped or compacted
// something.
func (b *boundTurn) continued() {
	prev, all, kept := map[string]guardtest.Recorded{}, 0, 0
	for _, r := range b.model.Requests() {
		if r.Outcome != guardtest.Answered {
			continue
		}
		if before, ok := prev[r.Model]; ok {
			all++
			found := wiretest.ValidateNext(before.Body, r.Body)
			if len(found) == 0 {
				kept++
			} else if b.edits[r.N] == b.edits[before.N] {
				b.t.Fatalf("nothing says why request %d does not go on from %d: %v", r.N, before.N, found)
			}
		}
		prev[r.Model] = r
	}
	b.t.Logf("%d of %d requests go on from the one before", kept, all)
}

// A model that binds reasoning to its request refuses nothing, despite the
// guard's changes to a long turn, entries during a request, and restarts.
func TestReasoningIsBound(t *testing.T) {
	more := storetest.Extent(*storetest.Soak, 0, 40, 1000)
	seeds := []uint64{661} // erases an entry twice that was carried in between
	for seed := range uint64(more) {
		seeds = append(seeds, seed)
	}
	slices.Sort(seeds)
	for _, seed := range slices.Compact(seeds) {
		window := []int{8_000, 16_000, 40_000, 200_000}[seed%4]
		t.Run(fmt.Sprint(seed, " ", window), func(t *testing.T) {
			t.Parallel()
			b := newBoundTurn(t, seed, window)
			defer func() { storetest.Close(t, b.store) }()
			b.add(transcript.UserText("Do all of it."))
			for range 60 {
				b.step(window)
			}
			for _, r := range b.model.Invalid() {
				t.Fatalf("request %d was refused: %s\n%.3000s", r.N, r.Refused, r.Body)
			}
			require.Zero(t, b.bare, "requests without reasoning")
			b.continued()
			h, err := b.s.History(t.Context())
			require.NoError(t, err)
			require.NotEmpty(t, h.After)
		})
	}
}

// The model enforces the rule: after the first compaction it refuses a request
// with all the reasoning of the history, but not the guard's request.
func TestReasoningBehindCompaction(t *testing.T) {
	const window = 40_000
	b := newBoundTurn(t, 0, window)
	defer func() { storetest.Close(t, b.store) }()
	b.add(transcript.UserText("Do all of it."))
	for b.edited == 0 {
		b.step(window)
	}
	h, err := b.s.History(t.Context())
	require.NoError(t, err)
	for _, m := range h.Messages {
		for j, o := range m.Origins {
			if o.Answer != nil { // it may be sent, with everything before it
				a := *o.Answer
				a.Intact, a.Made.Thought = true, "one that is gone"
				m.Origins[j].Answer = &a
			}
		}
	}
	all := transcript.Request{Model: b.g.Model, System: b.g.System, Messages: h.Messages}
	_, err = storetest.Client{Model: b.model}.Complete(t.Context(), all)
	require.ErrorContains(t, err, "different conversation")
	b.step(window)
	require.Zero(t, b.bare)
}

// If reasoning is refused nevertheless, the guard sends the request once more
// without any, and later requests hold only later reasoning.
func TestRefusedReasoning(t *testing.T) {
	b := newBoundTurn(t, 1, 40_000)
	defer func() { storetest.Close(t, b.store) }()
	b.add(transcript.UserText("Do all of it."))
	b.step(40_000)
	b.g.Tools = []transcript.Tool{{Name: "read_file"}} // which the hash knows
	b.step(40_000)
	require.Zero(t, b.bare)
	refuse := true
	_, err := guard.Do(t.Context(), b.g, b.s, func(ctx context.Context, c guard.Call) (*transcript.Response, error) {
		if c.Attempt == 0 {
			require.NotEmpty(t, c.Made.Thought)
			return nil, errors.New("messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.")
		}
		require.Equal(t, "reasoning", c.Overflow.Refused)
		require.Empty(t, c.Made.Thought)
		refuse = false
		resp, err := storetest.Client{Model: b.model}.Complete(ctx, c.Request)
		return resp, err
	})
	require.NoError(t, err)
	require.False(t, refuse)
	require.Equal(t, 1, b.bare)
}

// A model that binds reasoning to its request refuses nothing, whichever answers,
// texts and results are redacted, and with pictures in blobs.
func TestRedactBoundReasoning(t *testing.T) {
	for seed := range uint64(storetest.Extent(*storetest.Soak, 1, 20, 200)) {
		b := newBoundTurn(t, seed, 40_000)
		storetest.Close(t, b.store)
		b.opts.Filters = []session.Filter{session.Redact(redact.Secrets), blobs.Filter(blobs.Folder(b.dir), nil)}
		b.store = storetest.Open(t, b.dir, b.opts)
		b.s = storetest.Load(t, b.store, storetest.CLI)
		answer := b.model.Answer
		secret := func() string { return []string{"", " password=Hunter27", " " + storetest.Secret}[b.rng.IntN(3)] }
		b.model.Answer = func(r guardtest.Request) guardtest.Answer {
			a := answer(r)
			for i, block := range a.Blocks {
				switch block := block.(type) {
				case transcript.ThinkingBlock:
					block.Thinking += secret()
					a.Blocks[i] = block
				case transcript.TextBlock:
					block.Text += secret()
					a.Blocks[i] = block
				}
			}
			return a
		}
		b.add(transcript.UserText("Do all of it." + secret()))
		for range storetest.Extent(*storetest.Soak, 15, 30, 30) {
			if b.rng.IntN(4) == 0 {
				b.add(transcript.Message{Role: transcript.RoleUser, Content: []transcript.Block{transcript.TextBlock{Text: "See." + secret()}, storetest.Screenshot(20_000, seed)}})
			}
			b.step(40_000)
		}
		for _, r := range b.model.Invalid() {
			t.Fatalf("request %d was refused: %s\n%.3000s", r.N, r.Refused, r.Body)
		}
		require.Zero(t, b.bare, "requests without reasoning")
		b.continued()
		storetest.Close(t, b.store)
		require.Empty(t, storetest.Grep(t, b.dir, storetest.Secret))
		require.Empty(t, storetest.Grep(t, b.dir, "Hunter27"))
	}
}
