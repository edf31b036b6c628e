// Package chat is a conversation with a model in a terminal.
package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/convolog/convolog/examples/internal/plain"
	"github.com/convolog/convolog/examples/internal/script"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

const system = "You are a helpful assistant in a terminal. You may look at files with your tools."

// maxRounds limits the calls of the model for one text of the user.
const maxRounds = 30

// A Chat is a conversation. Commands may replace the session.
type Chat struct {
	Store   *session.Store
	Session *session.Session
	Model   turn.Model
	Guard   *guard.Guard // needs no prompt and no tools
	out     output
}

// An output shows a conversation. One goroutine uses it at a time.
type output interface {
	lines(text string) // shows a text that is not a part of the answer
	part(text string)  // continues the answer
	end()              // ends the answer
}

// Plain reads lines from in until they end, and prints plain lines. It is for pipes and for
// terminals that can neither move the cursor nor erase.
func (c *Chat) Plain(ctx context.Context, in io.Reader, out io.Writer) error {
	c.prepare(lines{plain.Writer{Writer: out}})
	c.greet(ctx)
	for r := bufio.NewReader(in); ; {
		fmt.Fprint(out, "> ")
		text, err := r.ReadString('\n') // the last line may lack the newline
		if text = strings.TrimSpace(text); text != "" && !c.enter(ctx, text) {
			return nil
		}
		if err != nil {
			fmt.Fprintln(out)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
	}
}

// lines is the output of Plain.
type lines struct{ io.Writer }

func (l lines) lines(text string) { fmt.Fprintln(l, text) }
func (l lines) part(text string)  { fmt.Fprint(l, text) }
func (l lines) end()              { fmt.Fprintln(l) }

func (c *Chat) prepare(out output) {
	c.out = out
	c.Guard.System, c.Guard.Tools = system, slices.Clip(script.Tools)
	for _, t := range search.RecallTools(nil) {
		c.Guard.Tools = append(c.Guard.Tools, t.Tool)
	}
	c.Guard.Observe = func(_ context.Context, e guard.Event) {
		switch {
		case e.Kind == guard.EventRetry:
			c.out.end()
			c.note("asking again; an answer above this line does not count")
		case e.Changed:
			c.note("%s: prompt ~%s -> ~%s tokens", e.Stage, plain.Thousands(e.Before), plain.Thousands(e.After))
		}
	}
}

// note shows a line outside of the conversation.
func (c *Chat) note(format string, args ...any) { c.out.lines("  " + fmt.Sprintf(format, args...)) }

// greet shows where the conversation has stopped.
func (c *Chat) greet(ctx context.Context) {
	t, err := turn.TryBegin(ctx, c.Session) // stores the text of a killed turn
	if err == nil {
		err = t.End()
	}
	if err != nil && !errors.Is(err, session.ErrBusy) {
		c.note("Error: %v", err)
	}
	info, err := c.Session.Info(ctx)
	h, historyErr := c.Session.History(ctx)
	p, pendingErr := c.Session.Pending(ctx)
	if err := errors.Join(err, historyErr, pendingErr); err != nil {
		c.note("Error: %v", err)
		return
	}
	c.note("Session: %s  %s", info.Key, info.ID)
	if info.Turns > 0 {
		c.note("Restored: %d previous turns", info.Turns)
	}
	for _, m := range h.Messages[max(0, len(h.Messages)-2):] {
		c.out.lines(strings.TrimSuffix(plain.Message(m), "\n"))
	}
	if p.Owed || p.Cut {
		c.note("Pending: /continue lets the model continue")
	}
	c.note("Type a message, or /help.")
}

// enter carries out a text of the user, and reports whether the conversation continues.
func (c *Chat) enter(ctx context.Context, text string) bool {
	do := c.turn
	if strings.HasPrefix(text, "/") {
		do = c.command
	}
	switch err := do(ctx, text); {
	case errors.Is(err, io.EOF):
		return false
	case errors.Is(err, context.Canceled):
		c.note("Stopped. The answer so far is kept.")
	case errors.Is(err, session.ErrBusy):
		c.note("Another program is in the middle of a turn. Nothing was sent; try again later.")
	case err != nil:
		c.note("Error: %v", err)
	}
	return true
}

// turn appends a text of the user, unless it is empty, and lets the model answer.
func (c *Chat) turn(ctx context.Context, text string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	t, err := turn.TryBegin(ctx, c.Session)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.End()) }()
	if text != "" {
		if _, err := c.Session.Append(ctx, transcript.UserText(text)); err != nil {
			return err
		}
	}
	for range maxRounds {
		answer, err := t.Ask(ctx, c.Guard, c.Model, c.out.part)
		c.out.end()
		if answer != nil && answer.StopReason == transcript.StopMaxTokens {
			c.note("The answer was cut at its limit of %s tokens.", plain.Thousands(answer.Usage.Output))
		}
		if err != nil || len(answer.Message.ToolCalls()) == 0 {
			return err
		}
		for _, call := range answer.Message.ToolCalls() {
			c.note("[tool] %s(%s)", call.Name, plain.Line(string(call.Input), 100))
		}
		if err := errors.Join(turn.RunTools(ctx, c.Session, 4, c.run), ctx.Err()); err != nil {
			return err
		}
	}
	return fmt.Errorf("the model asked for tools %d times: /continue lets it continue", maxRounds)
}

// run runs a tool that reads the conversation, or files.
func (c *Chat) run(ctx context.Context, call rebuild.PendingCall) (transcript.Message, error) {
	for _, t := range search.RecallTools(c.Session) {
		if t.Name == call.Call.Name {
			text, err := t.Call(ctx, call.Call.Input)
			return transcript.ToolResult(call.Call.ID, text), err
		}
	}
	return script.Run(ctx, call)
}
