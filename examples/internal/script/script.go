// Package script has a model that needs no network, and tools for it.
package script

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/convolog/convolog/examples/internal/plain"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/transcript"
)

// A Model answers by a rule, a word after each Pace. It calls [Tools] for questions about
// files or the time. Its other answers prove that it has received the whole conversation.
type Model struct{ Pace time.Duration }

// Stream shows an answer as it comes. A cancelled Stream returns the shown part.
func (m Model) Stream(ctx context.Context, req transcript.Request, show func(wire.Delta)) (*transcript.Response, error) {
	text, calls := Reply(req.Messages)
	shown := ""
	for word := range strings.SplitAfterSeq(text, " ") {
		select {
		case <-ctx.Done():
		case <-time.After(m.Pace):
		}
		if err := ctx.Err(); err != nil {
			return &transcript.Response{Message: transcript.AssistantText(shown), StopReason: transcript.StopAborted}, err
		}
		show(wire.Delta{Text: word})
		shown += word
	}
	answer := transcript.AssistantText(text)
	for _, c := range calls {
		answer.Content = append(answer.Content, c)
	}
	return &transcript.Response{Message: answer}, nil
}

// Reply is the rule.
func Reply(messages []transcript.Message) (text string, calls []transcript.ToolCallBlock) {
	asked, found := "", "This is what I found:"
	for _, b := range messages[len(messages)-1].Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			asked = b.Text // a summary may precede it
		case transcript.ToolResultBlock:
			found += "\n" + plain.Cut(b.Text(), 300)
		}
	}
	if asked == "" {
		return found, nil
	}
	call := func(name, path string) {
		input, _ := json.Marshal(map[string]string{"path": path}) // of strings
		calls = append(calls, transcript.ToolCallBlock{ID: "call_" + rand.Text(), Name: name, Input: input})
	}
	words := strings.FieldsFunc(asked, func(c rune) bool { return strings.ContainsRune(" \n\t,;:?!", c) })
	for i, word := range words {
		switch strings.ToLower(word) {
		case "read":
			for _, file := range words[i+1:] {
				if strings.ContainsAny(file, "./") {
					call("read_file", file)
				}
			}
		case "time":
			call("current_time", "")
		}
	}
	if len(calls) > 0 {
		return "Let me look.", calls
	}
	var said []string
	for _, m := range messages {
		if m.Role == transcript.RoleUser && m.Text() != "" {
			said = append(said, m.Text())
		}
	}
	text = fmt.Sprintf("You said \"%s\".", plain.Line(asked, 80))
	if n := len(said) - 1; n > 0 {
		text += fmt.Sprintf(" Earlier messages of yours that I remember: %d; the first was \"%s\".", n, plain.Line(said[0], 60))
	}
	return text + " (I am a script. Ask me to read README.md or for the time.)", nil
}

// Tools describes the tools to a model.
var Tools = []transcript.Tool{
	{
		Name: "read_file", Description: "Read a text file in the working folder.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
	},
	{Name: "current_time", Description: "Tell the time, in UTC.", InputSchema: json.RawMessage(`{"type":"object","properties":{}}`)},
}

// Run runs a call of [Tools]. The model sees an error as a result. No file outside of the
// working folder can be read.
func Run(_ context.Context, c rebuild.PendingCall) (transcript.Message, error) {
	var args struct{ Path string }
	if err := json.Unmarshal(c.Call.Input, &args); err != nil {
		return transcript.Message{}, err
	}
	switch c.Call.Name {
	case "read_file":
		root, err := os.OpenRoot(".")
		if err != nil {
			return transcript.Message{}, err
		}
		defer func() { _ = root.Close() }() // only read
		text, err := readFile(root, args.Path)
		return transcript.ToolResult(c.Call.ID, plain.Cut(strings.ToValidUTF8(text, "\uFFFD"), 50_000)), err
	case "current_time":
		return transcript.ToolResult(c.Call.ID, time.Now().UTC().Format(time.RFC3339)), nil
	}
	return transcript.Message{}, fmt.Errorf("the tool %q does not exist", c.Call.Name)
}

// readFile reads the beginning of a file. A pipe could block it, whatever the user presses.
func readFile(root *os.Root, path string) (string, error) {
	info, err := root.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", path)
	}
	f, err := root.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(f, 200_000))
	return string(text), err
}
