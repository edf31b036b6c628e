package guardtest_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/transcript"
)

func TestRecorded(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		var observed []guardtest.Recorded
		ended := make(chan guardtest.Recorded, 1)
		// An answer reaches the client before it is recorded as done.
		end := func() { observed = append(observed, <-ended) }
		m := &guardtest.Model{
			Counter: counter{}, Window: 30,
			Answer:  guardtest.Script(guardtest.Say("Hi."), guardtest.Overloaded()),
			Observe: func(r guardtest.Recorded) { ended <- r },
		}
		c := start(m)
		long := hello()
		long.System = words(10)
		_, err := c.ask(t.Context(), true, hello())
		require.NoError(t, err)
		end()
		_, err = c.ask(t.Context(), false, hello())
		require.Equal(t, true, err != nil)
		end()
		_, err = c.ask(t.Context(), false, long)
		require.Equal(t, true, err != nil)
		end()
		c.refuse(t, `{}`)
		end()

		type row struct {
			N       int
			Outcome guardtest.Outcome
			Status  int
			Refused string
			Tokens  int
			Stream  bool
		}
		var got []row
		for _, r := range m.Requests() {
			got = append(got, row{r.N, r.Outcome, r.Status, r.Refused, r.Tokens, r.Stream})
			require.Equal(t, true, r.Done)
			require.Equal(t, "2023-06-01", r.Header.Get("Anthropic-Version"))
		}
		require.Equal(t, []row{
			{1, guardtest.Answered, 200, "", 13, true},
			{2, guardtest.Failed, 529, "Overloaded", 13, false},
			{3, guardtest.Overflow, 400, "prompt is too long: 62 tokens > 30 maximum", 62, false},
			{4, guardtest.Invalid, 400, "model: Field required", 0, false},
		}, got)
		require.Equal(t, m.Requests(), observed)
		require.Equal(t, "Hello, model.", m.Requests()[0].UserText())
		require.Equal(t, guardtest.Stats{Requests: 4, Answered: 1, Failed: 1, Overflows: 1, Invalid: 1}, m.Stats())
		require.Equal(t, 4, m.Invalid()[0].N)
	})
}

// However many requests there are, no more than Keep are remembered of a kind,
// and all are counted.
func TestKeep(t *testing.T) {
	for keep, want := range map[int]int{0: 100, 3: 3, -1: 150} {
		m := &guardtest.Model{Keep: keep}
		c := inProcess(m)
		c.refuse(t, "first")
		for range 149 {
			_, err := c.ask(t.Context(), false, hello())
			require.NoError(t, err)
		}
		got := m.Requests()
		require.Equal(t, want, len(got))
		for i, r := range got {
			require.Equal(t, 150-want+i+1, r.N)
		}
		require.Equal(t, "first", string(m.Invalid()[0].Body))
		require.Equal(t, guardtest.Stats{Requests: 150, Answered: 149, Invalid: 1}, m.Stats())
	}
}

func TestSeveralGoroutines(t *testing.T) {
	overBoth(t, func(t *testing.T, start func(*guardtest.Model) client) {
		m := &guardtest.Model{Answer: func(r guardtest.Request) guardtest.Answer {
			return []guardtest.Answer{guardtest.Say(words(10)), guardtest.Overloaded(), guardtest.CutAfter(3, guardtest.Say(words(10)))}[r.N%3]
		}}
		c := start(m)
		var wg sync.WaitGroup
		const workers, each = 8, 9
		for i := range workers {
			wg.Go(func() {
				for range each {
					_, _ = c.ask(t.Context(), i%2 == 0, hello()) // two of three fail
					_, _, _ = m.Requests(), m.Stats(), m.Invalid()
				}
			})
		}
		wg.Wait()
		s := m.Stats()
		require.Equal(t, workers*each, s.Requests)
		require.Equal(t, workers*each/3, s.Answered)
		require.Equal(t, workers*each*2/3, s.Failed)
	})
}

// An agent that sends answers back sends valid requests, for all tool calls,
// and only the window stops it.
func TestConversation(t *testing.T) {
	m := &guardtest.Model{
		Window: 2010, // it ends between two answers and not within one
		Answer: guardtest.When(guardtest.AfterTools, guardtest.Always(guardtest.Say("Found it.")), func(r guardtest.Request) guardtest.Answer {
			return guardtest.Answer{Text: "Let me look.", Calls: []transcript.ToolCallBlock{
				guardtest.Tool("read", `{"path":"a.txt"}`), guardtest.Tool("read", `{"path":"b.txt"}`),
			}}
		}),
	}
	c := inProcess(m)
	req := transcript.Request{
		Model: "m", MaxOutput: 100,
		Tools: []transcript.Tool{{Name: "read", InputSchema: json.RawMessage(`{"type":"object"}`)}},
	}
	for {
		req.Messages = append(req.Messages, transcript.UserText("Find it."))
		resp, err := c.ask(t.Context(), true, req)
		if err != nil {
			require.Equal(t, true, strings.HasPrefix(apiError(t, err).Message, "prompt is too long: "))
			break
		}
		calls := resp.Message.ToolCalls()
		results := transcript.Message{Role: transcript.RoleUser}
		for _, call := range calls {
			results.Content = append(results.Content, transcript.ToolResult(call.ID, "some text").Content...)
		}
		req.Messages = append(req.Messages, resp.Message, results)
		if resp, err = c.ask(t.Context(), false, req); err != nil {
			require.Equal(t, true, strings.HasPrefix(apiError(t, err).Message, "prompt is too long: "))
			break
		}
		req.Messages = append(req.Messages, resp.Message)
	}
	require.Equal(t, 0, len(m.Invalid()))
	require.Equal(t, 1, m.Stats().Overflows)
	require.Equal(t, true, m.Stats().Answered > 10)
}
