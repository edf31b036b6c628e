package search_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// hits returns the hits of a search of a session.
func hits(t *testing.T, s *session.Session, q search.Query) (list []search.Hit) {
	t.Helper()
	for hit, err := range search.Session(t.Context(), s, q) {
		require.NoError(t, err)
		list = append(list, hit)
	}
	return list
}

// found returns the matches of hits, with their places.
func found(list []search.Hit) (texts []string) {
	for _, h := range list {
		var text strings.Builder
		text.WriteString(h.Role + " " + h.Type + ": " + h.Excerpt[h.Start:h.End])
		for name, is := range map[string]bool{"rewound": h.Rewound, "compacted": h.Compacted, "clipped": h.Clipped} {
			if is {
				text.WriteString(", " + name)
			}
		}
		texts = append(texts, text.String())
	}
	return texts
}

// useTool is an answer with a call.
func useTool(id, name, input string) transcript.Response {
	return transcript.Response{Message: transcript.Message{
		Role: transcript.RoleAssistant, Content: []transcript.Block{transcript.ToolCallBlock{ID: id, Name: name, Input: json.RawMessage(input)}},
	}}
}

func TestSearch(t *testing.T) {
	c := &storetest.Clock{Now: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)}
	st := session.OpenDriver(memdriver.New(nil), &session.Options{Now: c.Tick})
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, transcript.UserText("Please read the Budget of a/b/plan.go, 预算很重要"))
	storetest.Add(t, s, useTool("c1", "read_file", `{"path":"a/b/plan.go","n":17}`))
	storetest.Add(t, s, transcript.ToolResult("c1", "the budget is 4,200 for getUserByID"))
	storetest.Add(t, s, transcript.AssistantText("The budget\nis  4,200."))
	storetest.Add(t, s, useTool("c1", recalltool.Search, `{"text":"budget"}`))
	storetest.Add(t, s, transcript.ToolResult("c1", "you said: read the budget"))
	other, err := st.Create(t.Context(), session.Key{Agent: "main", Channel: "web", Peer: "q"}, &session.CreateOptions{Owner: "ann", Labels: []string{"x"}})
	require.NoError(t, err)
	storetest.Add(t, other, transcript.UserText("no budget here"))

	for _, tt := range []struct {
		q    search.Query
		want []string
	}{
		{search.Query{Text: "budget"}, []string{"assistant text: budget", "tool tool_result: budget", "user text: Budget"}},
		{search.Query{Text: "budget read"}, []string{"user text: read"}},
		{search.Query{Text: `"budget is 4,200"`}, []string{"assistant text: budget\nis  4,200", "tool tool_result: budget is 4,200"}},
		{search.Query{Text: "user"}, []string{"tool tool_result: User"}},
		{search.Query{Text: "预算"}, []string{"user text: 预算"}},
		{search.Query{Text: "b/plan.go"}, []string{"assistant tool_use: b/plan.go", "user text: b/plan.go"}},
		{search.Query{Text: "17"}, []string{"assistant tool_use: 17"}},
		{search.Query{Text: "bud*", Role: "user"}, []string{"user text: Bud"}},
		{search.Query{Regexp: `[0-9],\d+`}, []string{"assistant text: 4,200", "tool tool_result: 4,200"}},
		{search.Query{Regexp: `(?i)BUDGET`, Block: "tool_result"}, []string{"tool tool_result: budget"}},
		{search.Query{Text: "budget", Tool: "read_file"}, []string{"tool tool_result: budget"}},
		{search.Query{Text: "plan.go", Tool: "read_file"}, []string{"assistant tool_use: plan.go"}},
		{search.Query{Text: "budget", Limit: 1}, []string{"assistant text: budget"}},
		{search.Query{Text: "budget", Since: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)}, nil},
		{search.Query{Text: "budget", Until: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, nil},
		{search.Query{Text: "nothing"}, nil},
		{search.Query{Text: "path"}, nil},
	} {
		require.Equal(t, tt.want, found(hits(t, s, tt.q)), "%+v", tt.q)
	}

	all := func(q search.Query) (list []search.Hit) {
		for hit, err := range search.Store(t.Context(), st, q) {
			require.NoError(t, err)
			list = append(list, hit)
		}
		return list
	}
	require.Equal(t, []string{"user text: budget", "assistant text: budget", "tool tool_result: budget", "user text: Budget"}, found(all(search.Query{Text: "budget"})))
	for _, in := range []session.ListOptions{{Owner: "ann"}, {Label: "x"}, {Key: session.Key{Channel: "web"}}} {
		got := all(search.Query{Text: "budget", Sessions: in})
		require.Len(t, got, 1)
		require.Equal(t, other.Ref(), got[0].Session)
	}
	best := all(search.Query{Text: "budget read zebra", Ranked: true})
	require.Equal(t, "Please read the Budget of a/b/plan.go, 预算很重要", best[0].Excerpt)
	require.Len(t, best, 4)
	require.Greater(t, best[0].Score, best[1].Score)
	require.Len(t, all(search.Query{Text: "budget", Ranked: true, Limit: 2}), 2)

	bad, n := []search.Query{{}, {Text: "a", Regexp: "a"}, {Regexp: "("}, {Text: "..."}, {Regexp: "a", Ranked: true}, {Text: "a", Limit: -1}, {Text: "a", Role: "model"}}, 0
	for _, q := range bad {
		for hit, err := range search.Store(t.Context(), st, q) {
			require.ErrorIs(t, err, search.ErrQuery)
			require.Zero(t, hit)
			n++
		}
		for hit, err := range search.Session(t.Context(), s, q) {
			require.ErrorIs(t, err, search.ErrQuery)
			require.ErrorContains(t, err, s.Ref().ID)
			require.Zero(t, hit)
			n++
		}
	}
	require.Equal(t, 2*len(bad), n)
	require.NoError(t, st.Delete(t.Context(), other.Ref()))
	var gone error
	for _, gone = range search.Session(t.Context(), other, search.Query{Text: "x"}) {
		require.Error(t, gone)
	}
	require.ErrorIs(t, gone, fs.ErrNotExist)
	for _, err := range search.Store(t.Context(), st, search.Query{Text: "budget"}) {
		require.NoError(t, err)
		break // all goroutines ended
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range search.Store(ctx, st, search.Query{Text: "budget"}) {
		require.ErrorIs(t, err, context.Canceled)
	}
}

// In every conversation, a text is in the history iff its hit is neither
// rewound nor compacted.
func TestSearchMarks(t *testing.T) {
	for seed := range uint64(storetest.Extent(*storetest.Soak, 10, 100, 1000)) {
		r := rand.New(rand.NewPCG(seed, 3))
		st := session.OpenDriver(memdriver.New(nil), &session.Options{Compact: compact.Options{Keep: compact.Keep{Turns: 2}}})
		s := storetest.Load(t, st, storetest.CLI)
		ids := []string{s.Ref().ID}
		texts := map[string]string{} // by entry
		for n := range 40 {
			switch r.IntN(9) {
			case 0:
				if r.IntN(4) > 0 {
					require.NoError(t, s.Rewind(t.Context(), ids[r.IntN(len(ids))]))
					continue
				}
				var end int64
				for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
					require.NoError(t, err)
					end = rec.End
				}
				_, err := s.AppendLines(t.Context(), end, transcript.Entry{ID: fmt.Sprint("lost", n), Body: transcript.Rewind{To: "nowhere"}})
				require.NoError(t, err)
			case 1:
				_, err := s.Compact(t.Context(), nil)
				if err != nil {
					require.ErrorAs(t, err, new(*compact.Error))
				}
			case 2:
				got, err := s.Append(t.Context(),
					transcript.UserText(fmt.Sprintf("needle x%d", n)), transcript.AssistantText(fmt.Sprintf("needle y%d", n)))
				require.NoError(t, err)
				ids = append(ids, got...)
				texts[got[0]], texts[got[1]] = fmt.Sprintf("needle x%d", n), fmt.Sprintf("needle y%d", n)
			default:
				text := fmt.Sprintf("needle u%d. %s", n, strings.Repeat("Some more words of the same kind. ", 20))
				got, err := s.Append(t.Context(), transcript.UserText(text))
				require.NoError(t, err)
				reply, err := s.Append(t.Context(), transcript.AssistantText(fmt.Sprintf("ok %d", n)))
				require.NoError(t, err)
				ids = append(ids, got[0], reply[0])
				texts[got[0]] = text
			}
		}
		h, err := s.History(t.Context())
		require.NoError(t, err)
		shown := map[string]bool{}
		for _, m := range h.Messages {
			for _, o := range m.Origins {
				if o.Batch > 0 {
					shown[o.Entry] = true
				}
			}
		}
		newest := hits(t, s, search.Query{Text: "needle"})
		for _, hit := range hits(t, s, search.Query{Text: "needle", Ranked: true, Limit: len(newest)}) {
			hit.Score = 0
			require.Contains(t, newest, hit, "seed %d: a ranked search says the same of where it stands", seed)
		}
		got := map[string]bool{}
		for _, hit := range newest {
			if hit.Type == "summary" {
				continue
			}
			got[hit.Entry] = true
			require.Equal(t, shown[hit.Entry], !hit.Rewound && !hit.Compacted, "seed %d: %s %+v", seed, texts[hit.Entry], hit)
		}
		require.Len(t, got, len(texts))
		storetest.Close(t, st)
	}
}

// The score of a hit depends on the number of occurrences, the length of its line, and the
// number of lines with the word.
func TestSearchScore(t *testing.T) {
	storetest.EachStore(t, func(t *testing.T, st *session.Store) {
		s := storetest.Load(t, st, storetest.CLI)
		storetest.Add(t, s, transcript.UserText("a zebra beside a zebra"+strings.Repeat(" in the sun", 30)))
		storetest.Add(t, s, transcript.UserText("a zebra"))
		for range 9 {
			storetest.Add(t, s, transcript.UserText(strings.Repeat("Nothing. ", 300)))
		}
		with, all, size := 0.0, 0.0, 0.0
		lines := map[string]string{}
		for _, e := range storetest.Entries(t, s) {
			line := string(e.Line())
			lines[e.ID] = line
			all, size = all+1, size+float64(len(line)+1)
			if strings.Contains(line, "zebra") {
				with++
			}
		}
		require.Equal(t, 2.0, with)
		got := hits(t, s, search.Query{Text: "zebra", Ranked: true})
		require.Len(t, got, 2)
		require.Contains(t, got[0].Excerpt, "beside", "the line has it twice")
		require.Equal(t, got[:1], hits(t, s, search.Query{Text: "zebra", Ranked: true, Limit: 1}))
		for _, hit := range got {
			line := lines[hit.Entry]
			n := float64(strings.Count(line, "zebra"))
			long := 1.2 * (.25 + .75*float64(len(line))*all/size)
			require.InDelta(t, math.Log(1+(all-with+.5)/(with+.5))*n*2.2/(n+long), hit.Score, 1e-9)
		}
	})
}

// A result belongs to the call before it, even if another call has the ID later, or the
// call is in the same line.
func TestSearchToolOfResult(t *testing.T) {
	st := session.OpenDriver(memdriver.New(nil), nil)
	defer storetest.Close(t, st)
	s := storetest.Load(t, st, storetest.CLI)
	storetest.Add(t, s, useTool("c1", "first", `{}`))
	storetest.Add(t, s, transcript.ToolResult("c1", "zebra one"))
	storetest.Add(t, s, useTool("c1", "second", `{}`))
	storetest.Add(t, s, transcript.ToolResult("c1", "zebra two"))
	e, err := transcript.ParseEntry([]byte(`{"type":"assistant","id":"x","ts":"2026-01-01T00:00:00Z","content":[` +
		`{"type":"tool_use","id":"c1","name":"third","input":{}},{"type":"tool_result","tool_use_id":"c1","content":"zebra three"}]}`))
	require.NoError(t, err)
	require.NoError(t, storetest.ErrOf(s.AppendLines(t.Context(), storetest.End(t, s), e)))
	storetest.Add(t, s, transcript.ToolResult("c9", "zebra four"))
	var tools []string
	for _, hit := range hits(t, s, search.Query{Text: "zebra"}) {
		tools = append(tools, hit.Tool)
	}
	require.Equal(t, []string{"", "third", "second", "first"}, tools)
}
