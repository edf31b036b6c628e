package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// The next start continues the work of a killed program.
func TestResume(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		m := &guardtest.Model{}
		c := testConfig(t, api, m)
		call := guardtest.Tool("read", "{}")
		withSession(t, c, func(s *session.Session) {
			one, two := call, call
			one.ID, two.ID = "toolu_1", "toolu_2"
			_, err := s.Append(t.Context(), transcript.UserText("read both"), transcript.Response{
				StopReason: transcript.StopToolUse, Message: transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{one, two}},
			}, transcript.ToolResult("toolu_2", "two"))
			if err != nil {
				t.Fatal(err)
			}
		})
		contains(t, drive(t, c), "1 previous turns", "Continuing the last turn.", "two")
		contains(t, string(m.Requests()[0].Body), "interrupted", `two"`)
		if out := drive(t, c, ""); strings.Contains(out, "Going on") || m.Stats().Requests != 1 {
			t.Errorf("the turn continued again: %d requests\n%s", m.Stats().Requests, out)
		}
		valid(t, m)
	})
}

// The text of an answer that a kill has cut is kept, and the next start continues it.
func TestResumeAnswer(t *testing.T) {
	eachAPI(t, func(t *testing.T, api string) {
		m := &guardtest.Model{}
		c := testConfig(t, api, m)
		withSession(t, c, func(s *session.Session) {
			held, err := turn.Begin(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Append(t.Context(), transcript.UserText("tell me")); err != nil {
				t.Fatal(err)
			}
			draft := held.Draft("", c.model, transcript.Made{})
			if err := errors.Join(draft.Write(t.Context(), "Once upon"), draft.Flush(t.Context()), held.End()); err != nil {
				t.Fatal(err)
			}
		})
		contains(t, drive(t, c), "Continuing the last turn.")
		contains(t, string(m.Requests()[0].Body), "tell me", "Once upon", "Go on")
		valid(t, m)
	})
}
