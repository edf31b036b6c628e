package rebuild_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// lines turns JSON lines into batches of one line each.
func hideLines(t *testing.T, lines ...string) (batches []transcript.Batch) {
	t.Helper()
	for _, line := range lines {
		e, err := transcript.ParseEntry([]byte(line))
		require.NoError(t, err)
		batches = append(batches, transcript.Batch{Entries: []transcript.Entry{e}, Complete: true})
	}
	return batches
}

// said returns the blocks of a history as text, with the role before each message.
func said(h rebuild.History) (texts []string) {
	for _, m := range h.Messages {
		texts = append(texts, string(m.Role))
		for _, b := range m.Content {
			switch b := b.(type) {
			case transcript.TextBlock:
				texts = append(texts, b.Text)
			case transcript.ToolCallBlock:
				texts = append(texts, "call "+b.ID)
			case transcript.ToolResultBlock:
				texts = append(texts, "result "+b.Text())
			case transcript.ThinkingBlock:
				texts = append(texts, "thinking")
			}
		}
	}
	return texts
}

func message(id, kind, rest string) string {
	return `{"type":"` + kind + `","id":"` + id + `",` + rest + `}`
}

// A hidden line leaves the history, and an answer that was made with it is not intact:
// after each step a fold of all lines equals the one that grew.
func TestHide(t *testing.T) {
	talk := []string{
		message("u1", "user", `"content":"one"`),
		message("a1", "assistant", `"api":"anthropic","after":"u1","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"looking"}]`),
		message("t1", "tool_use", `"mid":"a1","tool_use_id":"c1","name":"f","input":{}`),
		message("t2", "tool_use", `"mid":"a1","tool_use_id":"c2","name":"f","input":{}`),
		message("r1", "tool_result", `"tool_use_id":"c1","content":"first"`),
		message("r2", "tool_result", `"tool_use_id":"c2","content":"second"`),
		message("a2", "assistant", `"api":"anthropic","after":"r2","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"text","text":"done"}]`),
		message("u2", "user", `"content":"two"`),
	}
	f := rebuild.New(nil)
	var all []transcript.Batch
	add := func(lines ...string) rebuild.History {
		batches := hideLines(t, lines...)
		for _, b := range batches {
			require.NoError(t, f.Add(b))
		}
		all = append(all, batches...)
		h, fresh := f.History(), foldAll(t, nil, all).History()
		require.Equal(t, fresh, h)
		return h
	}
	intact := func(h rebuild.History) (list []bool) {
		for _, m := range h.Messages {
			if m.Role == transcript.RoleAssistant {
				list = append(list, m.Origins[0].Answer.Intact)
			}
		}
		return list
	}
	before := add(talk...)
	require.Equal(t, []bool{true, true}, intact(before))
	require.Equal(t, 2, f.Turns())

	// Of a call: its result, and the reasoning of its answer.
	h := add(message("h1", "hide", `"entries":["t1","r1"]`))
	require.Equal(t, []string{"user", "one", "assistant", "looking", "call c2", "user", "result second", "assistant", "thinking", "done", "user", "two"}, said(h))
	require.Equal(t, []bool{true, false}, intact(h))
	require.Equal(t, "anthropic", before.Messages[1].Origins[0].API)
	require.Empty(t, h.Messages[1].Origins[0].API, "it does not go back as its maker's own")
	w, _ := f.Where("r1")
	require.Equal(t, rebuild.Where{Hidden: true}, w)
	w, _ = f.Where("r2")
	require.Zero(t, w)
	require.Contains(t, f.Report(), rebuild.Repair{Rule: "hidden-entry", Entry: "t1"})

	// Shown again, it is a change as well.
	h = add(message("h2", "hide", `"entries":["t1","r1"],"off":true`))
	require.Equal(t, said(before), said(h))
	require.Equal(t, []bool{true, false}, intact(h))

	// A rewind takes a hide back.
	h = add(message("h3", "hide", `"entries":["u1"]`))
	require.Equal(t, "[conversation continues]", said(h)[1])
	require.Equal(t, 1, f.Turns())
	h = add(message("w", "rewind", `"to":"u2"`))
	require.Equal(t, before.Messages, h.Messages)

	// An answer whose request was rendered before the hide.
	add(message("h4", "hide", `"entries":["u2"]`))
	h = add(message("a3", "assistant", `"after":"u2","content":"late"`))
	require.Equal(t, []bool{true, true}, intact(h)[:2])
	require.False(t, h.Messages[len(h.Messages)-1].Origins[1+1].Answer.Intact)

	// In a compaction the summary stays, and the carried words go.
	h = add(message("c", "compaction", `"summary":"S","coversTo":"a3","said":[{"entry":"u1","text":"one"},{"entry":"a2","text":"two"}]`),
		message("h5", "hide", `"entries":["u1"]`))
	require.NotContains(t, said(h)[2], "one")
	require.Contains(t, said(h)[2], "two")
	require.Len(t, h.Compaction.Said, 1)
	require.Contains(t, f.Report(), rebuild.Repair{Rule: "hidden-entry", Entry: "u1", Detail: "a summary may have its words"})
}

// The end of a turn without an answer is a note, and nothing else.
func TestEndedTurn(t *testing.T) {
	u1, u2 := message("u1", "user", `"content":"Delete old.txt"`), message("u2", "user", `"content":"Stop"`)
	answer, ended := message("a", "assistant", `"content":"Done."`), message("i", "interrupt", `"ended":"failed"`)
	cut := message("a", "assistant", `"stop_reason":"aborted","content":"I am"`)
	const note, stop = "[This turn ended without an answer]", "[The user stopped this turn]"
	for name, c := range map[string]struct{ lines, want []string }{
		"stopped":     {[]string{u1, message("i", "interrupt", `"ended":"stopped"`), u2}, []string{"user", "Delete old.txt", stop, "Stop"}},
		"failed":      {[]string{u1, ended, u2}, []string{"user", "Delete old.txt", note, "Stop"}},
		"twice":       {[]string{u1, ended, ended, u2}, []string{"user", "Delete old.txt", note, "Stop"}},
		"a request":   {[]string{u1, message("i", "interrupt", `"by":"x"`), u2}, []string{"user", "Delete old.txt", "Stop"}},
		"answered":    {[]string{u1, answer, ended, u2}, []string{"user", "Delete old.txt", "assistant", "Done.", "user", "Stop"}},
		"prompted":    {[]string{u1, answer, message("s", "system", `"text":"P"`), ended, u2}, []string{"user", "Delete old.txt", "assistant", "Done.", "user", "[The system prompt from here on]\nP", "Stop"}},
		"cut":         {[]string{u1, cut, ended, u2}, []string{"user", "Delete old.txt", "assistant", "I am", "user", note, "Stop"}},
		"without one": {[]string{ended, u2}, []string{"user", "Stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			batches := hideLines(t, c.lines...)
			f := foldAll(t, nil, batches)
			require.Equal(t, c.want, said(f.History()))
			if name != "without one" {
				require.Equal(t, 2, f.Turns(), "the note starts no turn")
			}
			grown := rebuild.New(nil)
			for _, b := range batches {
				require.NoError(t, grown.Add(b))
				grown.History()
			}
			require.Equal(t, f.History(), grown.History())
		})
	}
	f := foldAll(t, nil, hideLines(t, u1, cut, ended))
	require.False(t, f.Pending().Owed)
	require.True(t, f.Pending().Cut)
	require.Equal(t, rebuild.WaitAnswer, f.Pending().Waits())
	failed := foldAll(t, nil, hideLines(t, u1, ended)).Pending()
	require.True(t, failed.Owed)
	require.Equal(t, "Delete old.txt", failed.User)

	// A turn that the user stopped is not to be run again.
	halt := message("i", "interrupt", `"ended":"stopped"`)
	for _, lines := range [][]string{{u1, halt}, {u1, cut, halt}, {u1, ended, halt}, {u1, ended, halt, ended, halt}} {
		p := foldAll(t, nil, hideLines(t, lines...)).Pending()
		require.False(t, p.Owed)
		require.False(t, p.Cut)
		require.Empty(t, p.User)
		require.Empty(t, p.Waits())
	}
	stopped := foldAll(t, nil, hideLines(t, u1, ended, halt, ended, halt, u2))
	require.Equal(t, []string{"user", "Delete old.txt", note, stop, "Stop"}, said(stopped.History()))

	// A later system prompt makes no turn of the model's.
	prompt := message("s", "system", `"text":"P"`)
	for _, lines := range [][]string{{u1, halt, prompt}, {u1, answer, prompt}, {u1, cut, prompt}} {
		require.False(t, foldAll(t, nil, hideLines(t, lines...)).Pending().Owed)
	}
	require.True(t, foldAll(t, nil, hideLines(t, u1, prompt)).Pending().Owed)
	covered := message("c", "compaction", `"summary":"S","coversTo":"u1"`)
	for _, lines := range [][]string{{u1, covered}, {u1, covered, prompt}, {u1, covered, prompt, ended}} {
		require.False(t, foldAll(t, nil, hideLines(t, lines...)).Pending().Owed)
	}
	next := foldAll(t, nil, hideLines(t, u1, halt, u2)).Pending()
	require.True(t, next.Owed)
	require.Equal(t, "Stop", next.User)
}
