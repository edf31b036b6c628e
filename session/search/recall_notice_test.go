package search_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/internal/wiretest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// In place of removed content, a stored line names the reading tools to a model
// that is offered them: a restart shows the same, and no summary repeats the
// line.
func TestRecallNotice(t *testing.T) {
	for _, offered := range []bool{false, true} {
		t.Run(fmt.Sprint(offered), func(t *testing.T) {
			drv := memdriver.New(nil)
			opts := &session.Options{Compact: compact.Options{Trigger: compact.Trigger{Window: 8_000}, Recall: offered}}
			st := session.OpenDriver(drv, opts)
			s := storetest.Load(t, st, storetest.CLI)
			g := &guard.Guard{Model: "m", Window: 8_000, Tools: storetest.AgentTools()}
			if offered {
				for _, tool := range search.RecallTools(s) {
					g.Tools = append(g.Tools, tool.Tool)
				}
			}
			var last transcript.Request
			turn := func(text string, result string) {
				storetest.Add(t, s, transcript.UserText(text))
				for n := range 2 {
					resp, err := guard.Do(t.Context(), g, s, func(_ context.Context, c guard.Call) (*transcript.Response, error) {
						require.Empty(t, wiretest.Validate(c.Request))
						last = c.Request
						if result != "" && n == 0 {
							return storetest.Answer("", "c1"), nil
						}
						return storetest.Answer(strings.Repeat("It is done as it was asked for. ", 20)), nil
					})
					require.NoError(t, err)
					storetest.Add(t, s, resp)
					if calls := resp.Message.ToolCalls(); len(calls) > 0 {
						storetest.Add(t, s, transcript.ToolResult("c1", result))
						continue
					}
					break
				}
				_, err := s.AfterTurn(t.Context())
				require.NoError(t, err)
			}
			turn("read it", strings.Repeat("a line of a long file\n", 3_000))
			text := fmt.Sprint(last.Messages)
			require.Contains(t, text, "all of it is in entry ")
			require.Equal(t, offered, strings.Contains(text, "which the tool recall_read reads"))
			for n := range 60 {
				turn(fmt.Sprintf("Please do part %d of it, as %s.", n, strings.Repeat("we have said ", 30)), "")
			}
			text = fmt.Sprint(last.Messages)
			require.Contains(t, text, "[Previous conversation summary]")
			want := 0
			if offered {
				want = 1
			}
			require.Equal(t, want, strings.Count(text, "[Left out: "))
			before := storetest.Request(t, s)
			again := session.OpenDriver(drv, opts)
			require.Equal(t, before, storetest.Request(t, storetest.Load(t, again, storetest.CLI)))
			storetest.Close(t, again)
		})
	}
}
