package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/transcript"
)

// scripted is a model that needs no network. It enforces a window and refuses
// every request that the real service would refuse.
func scripted(window int) *guardtest.Model {
	return &guardtest.Model{Window: window, Answer: reply, Pace: pace}
}

// pace waits long enough to make an answer visibly stream.
func pace(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(25 * time.Millisecond):
		return nil
	}
}

// reply is the model's rule: it calls tools for questions about files or the
// time.
func reply(r guardtest.Request) guardtest.Answer {
	if len(r.Tools) == 0 {
		return summary(r)
	}
	text := asked(r)
	if results := r.Results(); text == "" && len(results) > 0 {
		found := []string{"This is what I found:"}
		for _, res := range results {
			found = append(found, cut(res.Text(), 300))
		}
		return guardtest.Say(strings.Join(found, "\n"))
	}
	if calls := callsFor(text); len(calls) > 0 {
		return guardtest.Answer{Text: "Let me look.", Calls: calls}
	}
	return guardtest.Say(remember(r, text))
}

// asked returns the user's last text. A summary may precede it in the same
// message.
func asked(r guardtest.Request) string {
	if r.UserText() == "" {
		return ""
	}
	for _, m := range slices.Backward(r.Messages) {
		for _, b := range slices.Backward(m.Content) {
			if text, ok := b.(transcript.TextBlock); ok {
				return text.Text
			}
		}
	}
	return ""
}

// summary answers a summarizer: it lists the user's texts.
func summary(r guardtest.Request) guardtest.Answer {
	const mark = "The user said: "
	var lines []string
	for line := range strings.Lines(r.UserText()) {
		if said, ok := strings.CutPrefix(line, "[user]: "); ok {
			lines = append(lines, mark+cut(said, 60))
		} else if strings.HasPrefix(line, mark) { // in an earlier summary
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return guardtest.Say(strings.Join(lines, "\n"))
}

// callsFor returns the tool calls for a text.
func callsFor(text string) (calls []transcript.ToolCallBlock) {
	add := func(name string, args map[string]string) {
		input, err := json.Marshal(args)
		if err == nil {
			calls = append(calls, guardtest.Tool(name, string(input)))
		}
	}
	words := strings.Fields(text)
	for i, w := range words {
		switch strings.ToLower(strings.Trim(w, ".,;:?!")) {
		case "read":
			for _, file := range words[i+1:] {
				if file = strings.Trim(file, ",;:?!"); strings.ContainsAny(file, "./") {
					add("read_file", map[string]string{"path": file})
				}
			}
		case "list":
			add("list_directory", map[string]string{"path": "."})
		case "time":
			add("current_time", map[string]string{})
		}
	}
	return calls
}

// remember proves that the model received the whole conversation.
func remember(r guardtest.Request, text string) string {
	var said []string
	for _, m := range r.Messages {
		if m.Role == transcript.RoleUser && m.Text() != "" {
			said = append(said, m.Text())
		}
	}
	answer := fmt.Sprintf("You said %q.", cut(text, 80))
	if n := len(said); n > 1 {
		answer += fmt.Sprintf(" Earlier messages of yours that I remember: %d; the first was %q.", n-1, cut(said[0], 60))
	}
	return answer + " (I am a script. Ask me to list the folder, to read README.md or for the time.)"
}
