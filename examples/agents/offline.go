package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/transcript"
)

// offline returns an endpoint for a model in this process, without a port or a key.
func offline(m *guardtest.Model) *endpoint {
	return &endpoint{http: &http.Client{Transport: m}, url: "http://model.test", key: "offline"}
}

// scripted returns a model that calls tools, remembers, and can be interrupted.
func scripted(window int) *guardtest.Model {
	say := func(r guardtest.Request) guardtest.Answer { return guardtest.Say(reply(r)) }
	look := guardtest.Call(guardtest.Tool("list_files", `{"path":"."}`), guardtest.Tool("read_file", `{"path":"go.mod"}`))
	look.Text = "Let me look."
	return &guardtest.Model{
		Window: window,
		Pace:   pace,
		Answer: guardtest.When(guardtest.UserHas("file"), guardtest.Always(look), say),
	}
}

// reply is the scripted model's answer.
func reply(r guardtest.Request) string {
	text := r.UserText()
	switch results := r.Results(); {
	case strings.HasPrefix(r.System, "You summarise"):
		return "The user tried out a scripted model."
	case len(results) > 0:
		var sb strings.Builder
		sb.WriteString("This is what I found:")
		for _, result := range results {
			first, _, _ := strings.Cut(result.Text(), "\n")
			fmt.Fprintf(&sb, "\n- %d bytes that begin with %q", len(result.Text()), first)
		}
		return sb.String()
	case strings.Contains(text, "count"):
		var sb strings.Builder
		for n := range 300 {
			fmt.Fprint(&sb, n+1, " ")
		}
		return sb.String()
	}
	earlier := 0
	for _, m := range r.Messages {
		if m.Role == transcript.RoleUser && m.Text() != "" {
			earlier++
		}
	}
	return fmt.Sprintf("You said %q. Earlier messages of yours that I remember: %d.", text, earlier-1)
}

// pace slows answers down, so that a person can read and interrupt them.
func pace(ctx context.Context) error {
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
