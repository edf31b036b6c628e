package main

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An object is a JSON object.
type object = map[string]any

// A part is a part of a message of the client.
type part struct {
	Type, Text, State string
	Output            json.RawMessage
	Approval          *struct{ ID string }
}

type message struct {
	ID, Role string
	Parts    []part
	Metadata struct {
		Usage struct{ InputTokens, OutputTokens int }
	}
}

func (m message) text() (text string) {
	for _, p := range m.Parts {
		if p.Type == "text" {
			text += p.Text
		}
	}
	return text
}

// kinds lists the types and states of the parts.
func (m message) kinds() (kinds []string) {
	for _, p := range m.Parts {
		kinds = append(kinds, strings.TrimSuffix(p.Type+" "+p.State, " "))
	}
	return kinds
}

// An event is a line of the client.
type event struct {
	ID, Event, Status, Error, Err string
	Message                       message
	Messages                      []message
	Finish                        struct {
		IsError      bool
		FinishReason string
	}
}

func (e event) last() message { return e.Messages[len(e.Messages)-1] }

// A client is a process of node with the npm packages.
type client struct {
	testing.TB
	in io.Writer

	mu     sync.Mutex // guards events
	events map[string]chan event
}

func newClient(t testing.TB) *client {
	t.Helper()
	cmd := exec.Command("node", "client.mjs")
	cmd.Dir, cmd.Stderr = built, os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &client{TB: t, in: in, events: map[string]chan event{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewReader(out); ; {
			line, err := lines.ReadBytes('\n')
			var e event
			if err != nil || json.Unmarshal(line, &e) != nil {
				return
			}
			c.of(e.ID) <- e
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-read
		_ = cmd.Wait()
	})
	return c
}

func (c *client) of(id string) chan event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.events[id] == nil {
		c.events[id] = make(chan event, 10_000)
	}
	return c.events[id]
}

// A chat is a chat of the client at a server.
type chat struct {
	*client
	id, url string
}

// do gives the client a command.
func (ch *chat) do(command string, args object) {
	ch.Helper()
	line := object{"do": command, "id": ch.id, "url": ch.url, "token": "ann"}
	maps.Copy(line, args)
	text, err := json.Marshal(line)
	require.NoError(ch, err)
	_, err = ch.in.Write(append(text, '\n'))
	require.NoError(ch, err)
}

// until returns the end of a command, or the first change that ok accepts, with the longest
// text before it.
func (ch *chat) until(command string, ok func(message) bool) (e event, seen string) {
	ch.Helper()
	for {
		select {
		case e = <-ch.of(ch.id):
		case <-time.After(time.Minute):
			require.FailNow(ch, "no event", command)
		}
		if e.Message.Role == "assistant" {
			seen = e.Message.text()
		}
		if e.Event == command || e.Event == "seen" && ok != nil && ok(e.Message) {
			return e, seen
		}
	}
}

// call gives a command and waits for its end.
func (ch *chat) call(command string, args object) event {
	ch.Helper()
	ch.do(command, args)
	e, _ := ch.until(command, nil)
	require.Empty(ch, e.Err)
	return e
}
