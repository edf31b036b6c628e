package turn_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

func written(t *testing.T, s *session.Session, write func(context.Context, *session.Session, io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, write(t.Context(), s, &b))
	return b.String()
}

// Hide also hides paired entries and reports them once, and Show brings all back; a
// rewind, a fork, a compaction, searches and exports heed it.
func TestHide(t *testing.T) {
	dir := t.TempDir()
	st := storetest.Open(t, dir, nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("book the zeppelin"), storetest.Answer("Booking.", "c1", "c2"),
		transcript.ToolResult("c1", "the zeppelin is booked"), transcript.ToolResult("c2", "paid"), storetest.Answer("Done."), transcript.UserText("thanks"))
	// user, answer, call, call, result, result, answer, user
	require.Len(t, ids, 8)
	require.NoError(t, s.SetMeta(t.Context(), transcript.Meta{Title: new("T")})) // else it is the first text
	require.NoError(t, turn.Pin(t.Context(), s, ids[0]))
	history := func() string {
		h, err := s.History(t.Context())
		require.NoError(t, err)
		return storetest.JSON(t, h.Messages)
	}
	before := history()
	hide := func(want []string, entries ...string) {
		t.Helper()
		got, err := turn.Hide(t.Context(), s, entries...)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	hide([]string{ids[2], ids[4]}, ids[4]) // a result, with its call
	require.NotContains(t, history(), "booked")
	require.Contains(t, history(), "paid")
	end := storetest.End(t, s)
	hide(nil, ids[2])
	require.Equal(t, end, storetest.End(t, s), "twice: no line")
	hide([]string{ids[1], ids[3], ids[5]}, ids[1]) // the answer, with the rest
	hide([]string{ids[0]}, ids[0])
	require.NotContains(t, history(), "zeppelin")

	// Searches, exports, forks, compactions.
	found := 0
	for hit, err := range search.Session(t.Context(), s, search.Query{Text: "zeppelin"}) {
		require.NoError(t, err)
		require.True(t, hit.Hidden)
		found++
	}
	require.Equal(t, 2, found)
	tools := search.RecallTools(s)
	text, err := tools[0].Call(t.Context(), []byte(`{"query":"zeppelin"}`))
	require.NoError(t, err)
	require.NotContains(t, text, "book")
	for _, tool := range tools[1:] {
		_, err = tool.Call(t.Context(), []byte(`{"entry":"`+ids[0]+`"}`))
		require.ErrorIs(t, err, session.ErrNoEntry)
	}
	text, err = tools[1].Call(t.Context(), []byte(`{"entry":"`+ids[6]+`"}`))
	require.NoError(t, err)
	require.NotContains(t, text, "zeppelin")
	md := written(t, s, exchange.Markdown)
	require.NotContains(t, md, "zeppelin")
	require.Contains(t, md, "Hidden entries: 6")
	lines := written(t, s, exchange.Lines)
	require.Contains(t, lines, "zeppelin")
	fork, err := s.Fork(t.Context(), ids[7], nil) // before the hides
	require.NoError(t, err)
	require.Contains(t, written(t, fork, exchange.Lines), "zeppelin")
	all := storetest.EntryIDs(t, s)
	last := all[len(all)-1]
	fork, err = s.Fork(t.Context(), last, nil)
	require.NoError(t, err)
	require.NotContains(t, written(t, fork, exchange.Lines), "zeppelin")
	_, err = s.Compact(t.Context(), &compact.Options{
		Keep: compact.Keep{Turns: 1}, Summarizer: compact.SummarizerFunc(func(_ context.Context, in compact.Input) (string, error) {
			require.NotContains(t, storetest.JSON(t, in.Messages), "zeppelin")
			return storetest.WholeSummary, nil
		}),
	})
	require.NoError(t, err)
	require.NotContains(t, history(), "zeppelin")

	// Show takes back whole hides, also after a restart; a rewind takes all of them back.
	storetest.Close(t, st)
	s, err = storetest.Open(t, dir, nil).Get(t.Context(), s.Ref())
	require.NoError(t, err)
	shown, err := turn.Show(t.Context(), s, ids[2])
	require.NoError(t, err)
	require.Equal(t, []string{ids[2], ids[4]}, shown)
	shown, err = turn.Show(t.Context(), s, ids[2])
	require.NoError(t, err)
	require.Empty(t, shown)
	require.NoError(t, s.Rewind(t.Context(), ids[7]))
	require.Equal(t, before, history())

	for _, wrong := range []string{"nowhere", s.Ref().ID, last} {
		_, err = turn.Hide(t.Context(), s, wrong)
		require.ErrorIs(t, err, session.ErrNoEntry)
	}
	open := storetest.Add(t, s, storetest.Answer("Paying.", "c3"))
	_, err = turn.Hide(t.Context(), s, open[0])
	require.ErrorIs(t, err, session.ErrConflict, "a call without a result must not vanish")
}

// A late result, after the next answer, is hidden with its call, and the call with
// it.
func TestHideLateResult(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	s := storetest.Load(t, st, storetest.CLI)
	ids := storetest.Add(t, s, transcript.UserText("q"), storetest.Answer("Booking.", "c1"))
	storetest.Add(t, s, transcript.UserText("and?"))
	h, err := s.History(t.Context())
	require.NoError(t, err)
	still := &transcript.Response{Message: transcript.AssistantText("still running"), StopReason: transcript.StopEndTurn}
	still.Made.After = h.After
	storetest.Add(t, s, still)
	late := storetest.Add(t, s, transcript.ToolResult("c1", "zeppelin"))
	require.Contains(t, texts(t, s)[len(texts(t, s))-1], "late result")
	for _, hidden := range []string{ids[1], ids[2], late[0]} {
		got, err := turn.Hide(t.Context(), s, hidden)
		require.NoError(t, err)
		require.Subset(t, got, []string{ids[2], late[0]})
		_, err = turn.Show(t.Context(), s, hidden)
		require.NoError(t, err)
	}
}

// Calls that another program wrote without the ID of their answer are hidden
// with it.
func TestHideFlatCalls(t *testing.T) {
	st := storetest.Open(t, t.TempDir(), nil)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("q"))
	var lines []transcript.Entry
	for _, line := range []string{
		`{"type":"assistant","id":"a1","content":"Looking."}`,
		`{"type":"tool_use","id":"t1","tool_use_id":"c1","name":"f","input":{}}`,
		`{"type":"tool_use","id":"t2","tool_use_id":"c2","name":"f","input":{}}`,
		`{"type":"tool_result","id":"r1","tool_use_id":"c1","content":"first"}`,
		`{"type":"tool_result","id":"r2","tool_use_id":"c2","content":"second"}`,
		`{"type":"tool_use","id":"t3","tool_use_id":"c3","name":"f","input":{}}`,
		`{"type":"tool_result","id":"r3","tool_use_id":"c3","content":"third"}`,
		`{"type":"assistant","id":"a2","content":"Done."}`,
	} {
		e, err := transcript.ParseEntry([]byte(line))
		require.NoError(t, err)
		lines = append(lines, e)
	}
	_, err := s.AppendLines(t.Context(), storetest.End(t, s), lines...)
	require.NoError(t, err)
	got, err := turn.Hide(t.Context(), s, "t1")
	require.NoError(t, err)
	require.Equal(t, []string{"t1", "r1"}, got)
	got, err = turn.Hide(t.Context(), s, "a1")
	require.NoError(t, err)
	require.Equal(t, []string{"a1", "t2", "r2"}, got)
	got, err = turn.Hide(t.Context(), s, "r3")
	require.NoError(t, err)
	require.Equal(t, []string{"t3", "r3"}, got)
	require.Equal(t, []string{"q", "Done."}, texts(t, s))
}
