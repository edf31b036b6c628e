package main

import (
	"bufio"
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
	erasure *session.ErasePlan // what /erase has shown

	mu     sync.Mutex         // guards cancel
	cancel context.CancelFunc // of what is running; nil at the prompt
}

// fail prints an error. The conversation goes on.
func (r *repl) fail(err error) {
	if errors.Is(err, fs.ErrNotExist) && errors.Is(err, session.ErrReplaced) {
		r.out.say("This session was deleted by another program; what you typed was not saved. /new starts another one.")
		return
	}
	if _, ok := errors.AsType[*guard.OverflowError](err); ok { // the guard has said of what size
		r.out.note("guard", "given up, there is nothing left to shorten; /rewind takes the turn back")
		return
	}
	r.out.say("Error: %v", err)
}

// watch cancels what is running at each interrupt. The function it returns
// ends it.
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
			} else {
				r.out.say("Nothing is running. /quit or Ctrl-D ends the program.")
				_, _ = io.WriteString(r.out, r.prompt())
			}
		}
	})
	return func() { close(done); wg.Wait() }
}

const frame = "============================================================"

func (r *repl) banner(ctx context.Context) {
	name := r.model
	if r.url == "" {
		name += " (no network; see -h for a real one)"
	}
	_, _ = fmt.Fprintf(r.out, "%s\nConvolog REPL\nModel: %s\nSession: %s  %s\n", frame, name, r.key, shortID(r.session.ID()))
	if n := r.session.Turns(); n > 0 {
		_, _ = fmt.Fprintf(r.out, "Restored: %d previous turns\n", n)
	}
	r.showPending(ctx)
	_, _ = fmt.Fprintf(r.out, "Type a message, or /help.\n%s\n", frame)
}

// showPending says what was left unfinished.
func (r *repl) showPending(ctx context.Context) {
	p, err := r.session.Pending(ctx)
	if err != nil {
		r.fail(err)
		return
	}
	if p.Cut {
		_, _ = fmt.Fprintf(r.out, "Pending: the last answer was cut off; what there is of it was kept\n")
	}
	for _, c := range p.Calls {
		_, _ = fmt.Fprintf(r.out, "Pending: the tool call %s(%s) has no result: %s\n", c.Call.Name, cut(string(c.Call.Input), 60), c.State)
	}
	if p.User != "" {
		_, _ = fmt.Fprintf(r.out, "Pending: %q has no answer yet\n", cut(p.User, 60))
	}
	if p.Owed {
		_, _ = fmt.Fprintf(r.out, "Pending: /continue lets the model go on\n")
	}
}

func (r *repl) prompt() string { return fmt.Sprintf("[%s] > ", r.key) }

// loop reads and handles lines until they end. A last line without a newline
// counts.
func (r *repl) loop(ctx context.Context, in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		_, _ = io.WriteString(r.out, r.prompt())
		line, err := lines.ReadString('\n')
		r.out.entered()
		if line = strings.TrimSpace(line); line != "" && !r.handle(ctx, line) {
			return nil
		}
		if errors.Is(err, io.EOF) {
			_, _ = io.WriteString(r.out, "\nBye.\n")
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading input: %w", err)
		}
	}
}

// handle does what one line says. It returns false to end the program.
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
		_, _ = io.WriteString(r.out, "Bye.\n")
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

// turn runs the agent after begin has appended what it is to answer, and
// compacts the history if that is due. One turn at a time runs on a session, in
// whatever program.
func (r *repl) turn(ctx context.Context, begin func(context.Context) error) {
	turn, err := r.session.TryBeginTurn(ctx)
	switch {
	case errors.Is(err, session.ErrBusy):
		r.out.say("Another program is in the middle of a turn on this session. Nothing was sent; try again later.")
		return
	case err != nil:
		r.fail(err)
		return
	}
	defer func() {
		if err := turn.End(); err != nil {
			r.fail(err)
		}
	}()
	err = r.cancellable(ctx, func(ctx context.Context) error {
		if err := begin(ctx); err != nil {
			return err
		}
		if err := r.agent.answer(ctx, turn, r.session); err != nil {
			return err
		}
		if _, err := r.session.AfterTurn(ctx); err != nil {
			r.out.compactionFailed(err) // the turn is good all the same
		}
		return nil
	})
	switch {
	case errors.Is(err, context.Canceled):
		r.out.say("Cancelled. What was said so far is kept.")
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
	return f(ctx)
}

func (r *repl) setCancel(cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
}

// shortID is enough of an ID to tell sessions apart: its time in milliseconds.
func shortID(id string) string { return id[:min(len(id), 13)] }
