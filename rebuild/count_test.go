package rebuild_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// bytesCounter counts the JSON of messages, and the messages.
type bytesCounter struct{ calls int }

func (c *bytesCounter) Count(system string, _ []transcript.Tool, messages []transcript.Message) int {
	n := len(system)
	for _, m := range messages {
		c.calls++
		n += len(mustJSON(m))
	}
	return n
}

// A tally gives the same result with and without earlier counts, for all lines.
func TestTally(t *testing.T) {
	for seed := range uint64(rebuild.Amount(150, 400)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 40+rnd.IntN(200))
		for i := range data {
			data[i] = byte(rnd.Uint32())
		}
		f := rebuild.New(&rebuild.Options{Summary: rebuild.SummaryForm(seed % 3)})
		live := rebuild.Tally{Counter: new(bytesCounter)}
		for i, b := range script(data) {
			require.NoError(t, f.Add(b))
			if rnd.IntN(3) == 0 {
				fresh := rebuild.Tally{Counter: new(bytesCounter)}
				require.Equal(t, fresh.Count(f), live.Count(f), "seed %d, batch %d: %s", seed, i, mustJSON(f.History()))
			}
		}
		h := f.History()
		var c bytesCounter
		want := c.Count(h.SystemPrompt(""), nil, nil)
		for i := range h.Messages {
			want += c.Count("", nil, h.Messages[i:i+1])
		}
		require.Equal(t, want, live.Count(f), "seed %d", seed)
		require.Equal(t, answered(h), f.Answered(), "seed %d: %s", seed, mustJSON(h))
	}
}

// answered is the model that the last answer of a history names.
func answered(h rebuild.History) (model string) {
	for _, m := range h.Messages {
		for _, o := range m.Origins {
			if m.Role == transcript.RoleAssistant && o.Batch > 0 {
				model = o.Model
			}
		}
	}
	return model
}

// Asking after every turn counts every message about once, and asking again
// counts nothing.
func TestTallyCountsOnce(t *testing.T) {
	var c bytesCounter
	live := rebuild.Tally{Counter: &c}
	f := rebuild.New(nil)
	id := 0
	add := func(items ...transcript.Item) {
		entries, err := transcript.NewBatch(testTime, func() string { id++; return fmt.Sprint("e", id) }, items...)
		require.NoError(t, err)
		require.NoError(t, f.Add(transcript.Batch{Entries: entries, Complete: true}))
	}
	const turns = 200
	for i := range turns {
		add(transcript.UserText("q"))
		call := fmt.Sprint("c", i)
		add(transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: call, Name: "f", Input: []byte("{}")}}})
		add(transcript.ToolResult(call, "r"))
		add(transcript.AssistantText("a"))
		live.Count(f)
		before := c.calls
		live.Count(f)
		require.Equal(t, before, c.calls)
		require.Zero(t, testing.AllocsPerRun(1, func() { live.Count(f) }), "asked again")
	}
	require.Equal(t, 4*turns, len(f.History().Messages))
	require.LessOrEqual(t, c.calls, 4*turns)

	late := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: "late", Name: "f", Input: []byte("{}")}}}
	add(transcript.UserText("q"), late)
	for range 3 {
		add(transcript.AssistantText("a"), transcript.UserText("q"))
	}
	live.Count(f)
	before := c.calls
	add(transcript.ToolResult("late", "r"))
	fresh := rebuild.Tally{Counter: new(bytesCounter)}
	require.Equal(t, fresh.Count(f), live.Count(f))
	require.LessOrEqual(t, c.calls-before, 12)
}
