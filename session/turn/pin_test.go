package turn_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A pinned text survives every compaction whole, once.
func TestPins(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	ctx := t.Context()
	rule := "Never touch the production database. " + strings.Repeat("Not even on Sundays. ", 100) + "This is the end of the rule."
	id := storetest.Add(t, s, transcript.UserText(rule), storetest.Answer("Understood."))[0]
	require.NoError(t, turn.Pin(ctx, s, id))
	require.NoError(t, turn.Pin(ctx, s, id))
	require.ErrorIs(t, turn.Pin(ctx, s, "nobody"), session.ErrNoEntry)
	require.ErrorIs(t, turn.Pin(ctx, s, ""), session.ErrNoEntry)
	require.Error(t, turn.Pin(ctx, s, s.Ref().ID))
	for i := range 3 {
		storetest.Talk(t, s, i*20, 20)
		require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary)), MaxCarried: -1})))
		require.Equal(t, 1, strings.Count(storetest.History(t, s), "This is the end of the rule."), "compaction %d", i)
	}
	pins, err := turn.Pins(ctx, s)
	require.NoError(t, err)
	require.Equal(t, []transcript.Carried{{Entry: id, Text: rule}}, pins)
	large := storetest.Add(t, s, transcript.UserText(strings.Repeat("large ", 3000)))[0]
	require.ErrorContains(t, turn.Pin(ctx, s, large), "limit")
	require.NoError(t, turn.Unpin(ctx, s, id))
	storetest.Talk(t, s, 100, 20)
	require.NoError(t, storetest.ErrOf(s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 2}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary)), MaxCarried: -1})))
	require.NotContains(t, storetest.History(t, s), "This is the end of the rule.")
}

// A pinned text that was rewound is in no summary, also when a restart no longer
// reads its line.
func TestRewoundPinAfterRestart(t *testing.T) {
	mem := memdriver.New(nil)
	for i := range 3 {
		st := session.OpenDriver(mem, nil)
		s := storetest.Load(t, st, storetest.CLI)
		if i == 0 {
			storetest.Talk(t, s, 0, 2)
			head := storetest.EntryIDs(t, s)[4]
			for _, text := range []string{"taken back", "kept"} {
				id := storetest.Add(t, s, transcript.UserText(text), storetest.Answer("ok"))[0]
				require.NoError(t, turn.Pin(t.Context(), s, id))
				if text == "taken back" {
					require.NoError(t, s.Rewind(t.Context(), head))
				}
			}
		}
		storetest.Talk(t, s, 10, 5)
		c, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})
		require.NoError(t, err)
		require.Len(t, c.Compaction.Pins, 1)
		require.Equal(t, "kept", c.Compaction.Pins[0].Text)
		storetest.Close(t, st)
		mem = memdriver.Reopen(mem)
	}
}

// A pin of an entry that was rewound is not carried, even if an earlier line of its
// batch is damaged.
func TestRewoundPinInADamagedBatch(t *testing.T) {
	t.Parallel()
	dir := storetest.Scratch(t)
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("one"), transcript.AssistantText("damaged"), transcript.UserText("taken back"))
	require.NoError(t, turn.Pin(t.Context(), s, ids[2]))
	storetest.Close(t, st)
	files, err := filepath.Glob(filepath.Join(dir, "agents", "*", "sessions", "*.jsonl"))
	require.NoError(t, err)
	data, err := os.ReadFile(files[0])
	require.NoError(t, err)
	damaged := bytes.Replace(data, []byte(`{"type":"assistant"`), []byte("\x00\x00ype\":\"assistant\""), 1)
	require.NotEqual(t, data, damaged)
	require.NoError(t, os.WriteFile(files[0], damaged, 0o600))

	st = storetest.Open(t, dir, nil)
	defer storetest.Close(t, st)
	s, err = st.Get(t.Context(), s.Ref())
	require.NoError(t, err)
	require.NoError(t, s.Rewind(t.Context(), ids[0]))
	for range 4 {
		storetest.Add(t, s, transcript.AssistantText("ok ok ok ok ok ok"))
		storetest.Add(t, s, transcript.UserText("and more and more and more"))
	}
	for hit, err := range search.Session(t.Context(), s, search.Query{Text: "taken"}) {
		require.NoError(t, err)
		require.True(t, hit.Rewound)
	}
	done, err := s.Compact(t.Context(), &compact.Options{Keep: compact.Keep{Turns: 1}})
	require.NoError(t, err)
	require.NotEmpty(t, done.Entry)
	require.Empty(t, done.Compaction.Pins)
}

// If an entry was rewound before the place of a fork, its pin is neither in the
// fork nor in its summary, although the fork lacks the rewind. If it was
// rewound later, both have the pin.
func TestForkRewoundPin(t *testing.T) {
	t.Parallel()
	storetest.EachFollowed(t, func(t *testing.T, st *session.Store) {
		defer storetest.Close(t, st)
		s := storetest.Load(t, st, storetest.CLI)
		ctx := t.Context()
		said := storetest.Add(t, s, transcript.UserText("remember the blue door"), storetest.Answer("yes"))
		said = append(said, storetest.Add(t, s, transcript.UserText("and the red one"), storetest.Answer("yes"))...)
		require.NoError(t, turn.Pin(ctx, s, said[0]))
		require.NoError(t, turn.Pin(ctx, s, said[2]))
		require.NoError(t, s.Rewind(ctx, said[1]))
		for n := range 4 {
			storetest.Talk(t, s, n, 1)
		}
		_, err := s.Compact(ctx, &compact.Options{Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(storetest.Says(storetest.WholeSummary))})
		require.NoError(t, err)
		last := storetest.Add(t, s, transcript.UserText("on"), storetest.Answer("on"))[1]
		require.NoError(t, s.Rewind(ctx, s.Ref().ID))
		for range 2 { // the second one is a fork of the fork
			s, err = s.Fork(ctx, last, nil)
			require.NoError(t, err)
			pins, err := turn.Pins(ctx, s)
			require.NoError(t, err)
			require.Equal(t, []transcript.Carried{{Entry: said[0], Text: "remember the blue door"}}, pins)
			last = storetest.Add(t, s, transcript.UserText("on"), storetest.Answer("on"))[1]
		}
	})
}
