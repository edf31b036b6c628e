package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/transcript"
)

// The conversation continues in a window that is far too small for it, whether
// the window is known or learned from refusals through the SDK, and whether or
// not the model can summarise.
func TestSmallWindow(t *testing.T) {
	const rounds = 12 // of tools in one turn
	summary := guardtest.Always(guardtest.Say("They read files."))
	tests := []struct {
		name      string
		known     bool // the window
		summarize guardtest.Rule
		overflows bool
	}{
		{"known", true, summary, false},
		{"not known", false, summary, true},
		{"no summaries", true, guardtest.Always(guardtest.Fail(400, "invalid_request_error", "no")), false},
	}
	for _, tt := range tests {
		eachAPI(t, func(t *testing.T, api string) {
			left := 0 // rounds in this turn
			m := &guardtest.Model{Window: 8000, Keep: -1}
			m.Answer = guardtest.When(guardtest.SystemHas("You summarise"), tt.summarize, func(r guardtest.Request) guardtest.Answer {
				if text := r.UserText(); strings.HasSuffix(text, "go") {
					left = rounds
				}
				if left--; left < 0 {
					return guardtest.Say("Done.")
				}
				return guardtest.Call(guardtest.Tool("read", fmt.Sprint(`{"n":`, left, `}`)))
			})
			c := testConfig(t, api, m, newTool("read", func(_ context.Context, input json.RawMessage) (string, error) {
				return strings.Repeat("lorem ipsum dolor sit amet ", 200) + string(input), nil
			}))
			if !tt.known {
				c.window = 0
			}
			out := drive(t, c, "go", "thanks", "go", "thanks")
			if got := strings.Count(out, "Done."); got != 4 || strings.Contains(out, "Error:") {
				t.Errorf("%d answers in\n%s", got, out)
			}
			contains(t, out, "The conversation was compacted")
			if got := m.Stats().Overflows; got > 0 != tt.overflows {
				t.Errorf("%d overflows", got)
			}
			if tt.overflows {
				contains(t, out, "The request did not fit (tokens) and is sent again")
			}
			before := m.Stats().Requests
			contains(t, drive(t, c, "thanks"), "4 previous turns", "Done.")
			if got := m.Stats().Requests; got != before+1 {
				t.Errorf("a restart makes %d requests for one answer", got-before)
			}
			withSession(t, c, func(s *session.Session) {
				full, err := exchange.FullHistory(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				results := 0
				for _, msg := range full.Messages {
					for _, b := range msg.Content {
						if transcript.BlockType(b) == "tool_result" {
							results++
						}
					}
				}
				if results != 2*rounds {
					t.Errorf("%d results are in the transcript", results)
				}
			})
			valid(t, m)
		})
	}
}

// After a turn the model compacts the history through the same client, if that
// is due, before it is too long.
func TestAfterTurn(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		const summary = "The user sends the same filler again and again, the words lorem ipsum dolor sit amet, without asking for anything; " +
			"each time the assistant says yes. No tool was called, no file was looked at, and nothing is open."
		m := &guardtest.Model{Window: 8000, Answer: guardtest.When(guardtest.SystemHas("You summarise"),
			guardtest.Always(guardtest.Say(summary)), guardtest.Always(guardtest.Say("Yes.")))}
		c := testConfig(t, api, m)
		line := strings.Repeat("lorem ipsum dolor sit amet ", 100)
		out := drive(t, c, slices.Repeat([]string{line}, 20)...)
		contains(t, out, "> Yes.", "The conversation was compacted")
		if m.Stats().Overflows > 0 || strings.Contains(out, "Error:") || strings.Contains(out, "sent again") {
			t.Errorf("%d overflows; it printed\n%s", m.Stats().Overflows, out)
		}
		drive(t, c, "last")
		requests := m.Requests()
		contains(t, string(requests[len(requests)-1].Body), summary, "last")
		valid(t, m)
	})
}
