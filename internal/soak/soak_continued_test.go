package soak_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/anthropic"
	"github.com/convolog/convolog/rebuild/wire/bedrock"
	"github.com/convolog/convolog/rebuild/wire/gemini"
	"github.com/convolog/convolog/rebuild/wire/openaichat"
	"github.com/convolog/convolog/rebuild/wire/openairesponses"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/transcript"
)

// A speaker is a format, with a model that uses it.
type speaker struct {
	name, model, path string
	format            storetest.Format
}

var speakers = []speaker{
	{"anthropic", "claude-opus-5-5", "/v1/messages", anthropic.Format{Cache: wire.Cache5m}},
	{"openai-chat", "deepseek-v4", "/v1/chat/completions", openaichat.Format{Reasoning: true}},
	{"openai-responses", "gpt-6", "/v1/responses", openairesponses.Format{}},
	{"gemini", "gemini-4", "/v1beta/models/gemini-4:generateContent", gemini.Format{}},
	{
		"bedrock", "anthropic.claude-opus-5-5-v1:0", "/model/anthropic.claude-opus-5-5-v1:0/converse",
		bedrock.Format{Cache: wire.Cache5m, Model: "anthropic.claude-opus-5-5-v1:0"},
	},
}

// editDriver counts the lines that change the history sent so far.
type editDriver struct {
	driver.Driver
	edits int
}

func (d *editDriver) Append(ctx context.Context, ref driver.Ref, lines []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (driver.Result, error) {
	res, err := d.Driver.Append(ctx, ref, lines, at, decide)
	for _, l := range lines {
		switch kind, _ := jsontext.Member(l.Data, "type"); string(kind) {
		case `"clip"`, `"compaction"`, `"rewind"`, `"system"`:
			if err == nil {
				d.edits++
			}
		}
	}
	return res, err
}

// continuation counts requests after another one to the same model: those whose
// difference an entry explains, and others that contain the one before, block
// for block. It also counts the tokens of their prompts, and the cached ones.
type continuation struct{ all, explained, continued, prompts, cached int }

// run makes the turns of a workload with a model that thinks in every answer, and
// whose user has a word to add now and then. Window is 0 for no limit at all.
func (c *continuation) run(t *testing.T, s speaker, seed uint64, window, turns int) {
	var turn soakTurn
	steps := 0
	model := &guardtest.Model{Window: window, Bind: true, Cache: true, Answer: func(guardtest.Request) guardtest.Answer {
		a := turn.reply(steps)
		blocks := []transcript.Block{transcript.ThinkingBlock{Thinking: "Let me think about it."}}
		if a.Text != "" {
			blocks = append(blocks, transcript.TextBlock{Text: a.Text})
		}
		for _, call := range a.Calls {
			blocks = append(blocks, call)
		}
		return guardtest.Answer{Blocks: blocks}
	}}
	work := soakLoad{Seed: seed, Window: window}
	drv := &editDriver{Driver: memdriver.New(nil)}
	st := session.OpenDriver(drv, &session.Options{Compact: compact.Options{Trigger: compact.Trigger{Window: window}}})
	defer func() { storetest.Close(t, st) }()
	sess := storetest.Load(t, st, storetest.CLI)
	g := &guard.Guard{Model: s.model, System: storetest.AgentSystem, Tools: storetest.AgentTools(), Window: window}
	rng := rand.New(rand.NewPCG(seed, 1))
	var prev []byte
	edits := 0
	for n := range turns {
		turn, steps = work.turn(n), 0
		storetest.Add(t, sess, turn.User)
		for ; steps <= len(turn.Steps); steps++ {
			if steps == len(turn.Steps) && turn.Answer == "" {
				break // given up
			}
			var body []byte
			then := 0
			resp, err := guard.Do(t.Context(), g, sess, func(ctx context.Context, call guard.Call) (answer *transcript.Response, err error) {
				then = drv.edits
				body, answer, err = storetest.Ask(ctx, model, s.format, "http://model.invalid"+s.path, call.Request)
				if rng.IntN(10) == 0 {
					storetest.Add(t, sess, transcript.UserText("By the way, hurry."))
				}
				return answer, err
			})
			require.NoError(t, err, "turn %d, step %d", n, steps)
			if prev != nil {
				c.note(t, prev, body, then > edits)
			}
			prev, edits = body, then
			c.prompts += resp.Usage.Prompt()
			c.cached += resp.Usage.CacheRead
			storetest.Add(t, sess, resp)
			if steps == len(turn.Steps) {
				break
			}
			for _, r := range turn.Steps[steps].Results {
				storetest.Add(t, sess, r)
			}
		}
		_, err := sess.AfterTurn(t.Context())
		require.NoError(t, err)
	}
	require.Empty(t, model.Invalid())
}

func (c *continuation) note(t *testing.T, prev, next []byte, edited bool) {
	c.all++
	if edited {
		c.explained++
		return
	}
	if found := wiretest.ValidateNext(prev, next); len(found) > 0 {
		t.Logf("request %d: %.500v", c.all, found)
		return
	}
	c.continued++
}

// In ordinary conversations, with a guard that has nothing to do and with one that
// clips and compacts, nearly every request is the one before plus additions, or an
// entry explains the difference.
func TestSoakContinued(t *testing.T) {
	conversations, turns := storetest.Extent(*storetest.Soak, 1, 1, 20), storetest.Extent(*storetest.Soak, 6, 50, 50)
	for _, s := range speakers {
		for name, window := range map[string]int{"plain": 0, "guarded": storetest.Extent(*storetest.Soak, 4_000, 16_000, 32_000)} {
			t.Run(s.name+" "+name, func(t *testing.T) {
				t.Parallel()
				var c continuation
				for seed := range uint64(conversations) {
					c.run(t, s, seed, window, turns)
				}
				rest := c.all - c.explained
				t.Logf("%d requests with one before them, an edit in front of %d; %d of the other %d go on from it (%.1f %%)",
					c.all, c.explained, c.continued, rest, 100*float64(c.continued)/float64(rest))
				require.GreaterOrEqual(t, float64(c.continued), 0.99*float64(rest))
				if s.name == "anthropic" { // its marks make the cache
					t.Logf("%.1f %% of %d tokens in prompts are cached", 100*float64(c.cached)/float64(c.prompts), c.prompts)
					require.Greater(t, 2*c.cached, c.prompts)
				}
				if window > 0 {
					require.Positive(t, c.explained)
				}
			})
		}
	}
}
