package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// repl is the state of the program.
type repl struct {
	config
	key     session.Key
	store   *session.Store
	session *session.Session
	compact compact.Options
	agent   *agent
	out     *terminal
	lines   lines
	console *console      // lines, as a console; nil without a terminal
	listed  []session.Ref // last shown by /sessions
	erasure *erase.Plan   // last shown by /erase

	mu     sync.Mutex         // guards cancel
	cancel context.CancelFunc // of the running turn; nil at the prompt
}

func (r *repl) fail(err error) {
	if errors.Is(err, fs.ErrNotExist) && errors.Is(err, session.ErrReplaced) {
		r.out.say("This session was deleted by another program; what you typed was not saved. /new starts another one.")
		return
	}
	if _, ok := errors.AsType[*guard.OverflowError](err); ok { // the guard printed the size
		r.out.note("guard", "given up, there is nothing left to shorten; /rewind takes the turn back")
		return
	}
	r.out.say("Error: %v", err)
}

// watch cancels the running turn at each interrupt. The returned function ends
// this.
func (r *repl) watch(interrupts <-chan os.Signal) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-interrupts:
			}
			r.mu.Lock()
			cancel := r.cancel
			r.mu.Unlock()
			if cancel != nil {
				cancel()
			} else if r.console == nil {
				r.out.say("Nothing is running. /quit or Ctrl-D ends the program.")
				r.out.print("%s", r.prompt())
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

// frame is a line above and below the banner.
func (r *repl) frame() string {
	const full = 60
	if width := r.out.columns(); width > 0 {
		return strings.Repeat("=", min(full, width))
	}
	return strings.Repeat("=", full)
}

func (r *repl) banner(ctx context.Context) {
	name := r.model
	if r.url == "" {
		name += " (no network; see -h for a real one)"
	}
	r.out.print("%s\nConvolog REPL\nModel: %s\nSession: %s  %s\n", r.frame(), name, r.key, shortID(r.session.Ref().ID))
	if info, err := r.session.Info(ctx); err == nil && info.Turns > 0 {
		r.out.print("Restored: %d previous turns\n", info.Turns)
		r.showLast(ctx)
	}
	r.showPending(ctx)
	r.out.print("Type a message, or /help.\n%s\n", r.frame())
}

// showLast reminds people at a terminal of where they were.
func (r *repl) showLast(ctx context.Context) {
	h, err := r.session.History(ctx)
	if err != nil || r.console == nil {
		return // the next read returns the error too
	}
	r.showMessages(h.Messages[max(0, len(h.Messages)-2):])
}

func (r *repl) showPending(ctx context.Context) {
	p, err := r.session.Pending(ctx)
	if err != nil {
		r.fail(err)
		return
	}
	if p.Cut {
		r.out.print("Pending: the last answer was cut off; its beginning was kept\n")
	}
	for _, c := range p.Calls {
		r.out.print("Pending: the tool call %s(%s) has no result: %s\n", c.Call.Name, cut(string(c.Call.Input), 60), c.State)
	}
	if p.User != "" {
		r.out.print("Pending: %q has no answer yet\n", cut(p.User, 60))
	}
	if p.Owed {
		r.out.print("Pending: /continue lets the model continue\n")
	}
}

func (r *repl) prompt() string { return fmt.Sprintf("[%s] > ", r.key) }

// loop reads and handles lines until they end. A last line without a newline
// counts.
func (r *repl) loop(ctx context.Context) error {
	for {
		line, err := r.lines.read(r.prompt())
		r.out.entered()
		if line = strings.TrimSpace(line); line != "" && !r.handle(ctx, line) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			r.out.print("\nBye.\n")
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading input: %w", err)
		}
	}
}

func (r *repl) handle(ctx context.Context, line string) bool {
	if !strings.HasPrefix(line, "/") {
		r.turn(ctx, func(ctx context.Context) error {
			_, err := r.session.Append(ctx, transcript.UserText(line))
			return err
		})
		return true
	}
	name, arg, _ := strings.Cut(line, " ")
	if name == "/quit" || name == "/exit" {
		r.out.print("Bye.\n")
		return false
	}
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		if err := c.do(ctx, r, strings.TrimSpace(arg)); err != nil {
			r.fail(err)
		}
		return true
	}
	r.out.say("Unknown command: %s (not sent to the model; /help lists the commands)", name)
	return true
}

// turn lets begin append a message, runs the agent, and compacts the history if
// that is due. Only one turn at a time runs on a session, in all programs.
func (r *repl) turn(ctx context.Context, begin func(context.Context) error) {
	t, err := turn.TryBegin(ctx, r.session)
	switch {
	case errors.Is(err, session.ErrBusy):
		r.out.say("Another program is in the middle of a turn on this session. Nothing was sent; try again later.")
		return
	case err != nil:
		r.fail(err)
		return
	}
	defer func() {
		if err := t.End(); err != nil {
			r.fail(err)
		}
	}()
	err = r.cancellable(ctx, func(ctx context.Context) error {
		if err := begin(ctx); err != nil {
			return err
		}
		if err := r.agent.answer(ctx, r.session); err != nil {
			return err
		}
		if _, err := r.session.AfterTurn(ctx); err != nil {
			r.out.compactionFailed(err) // the turn is still good
		}
		return nil
	})
	switch {
	case errors.Is(err, context.Canceled):
		r.out.say("Cancelled. The answer so far is kept.")
	case err != nil:
		r.fail(err)
	}
}

// cancellable calls f with a context that an interrupt cancels.
func (r *repl) cancellable(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.setCancel(cancel)
	defer r.setCancel(nil)
	defer r.out.spin()()
	return f(ctx)
}

func (r *repl) setCancel(cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
}

// shortID is enough of an ID to tell sessions apart: its time in milliseconds.
func shortID(id string) string { return id[:min(len(id), 13)] }
