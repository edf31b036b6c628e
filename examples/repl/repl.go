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
	"unicode"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// repl is the state of the program.
type repl struct {
	config
	key     session.Key
	store   *session.Store
	session *session.Session
	agent   *agent
	out     io.Writer

	mu     sync.Mutex         // guards cancel
	cancel context.CancelFunc // of the running answer; nil at the prompt
}

// lockedWriter lets the answer and the tools print at the same time.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.w.Write(p)
}

// say prints one line, indented as all that is not the conversation.
func (r *repl) say(format string, args ...any) {
	_, _ = fmt.Fprintf(r.out, "  "+format+"\n", args...)
}

// fail prints an error. The conversation goes on.
func (r *repl) fail(err error) {
	if errors.Is(err, fs.ErrNotExist) && errors.Is(err, session.ErrReplaced) {
		r.say("This session was deleted by another program; what you typed was not saved. /new starts another one.")
		return
	}
	r.say("Error: %v", err)
}

// watch cancels the running answer at each interrupt. The function it returns
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
				_, _ = fmt.Fprintf(r.out, "\n  Nothing is running. /quit or Ctrl-D ends the program.\n%s", r.prompt())
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
		_, _ = fmt.Fprintf(r.out, "Pending: the tool call %s(%s) has no result\n", c.Name, cut(string(c.Input), 60))
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
	r.say("Unknown command: %s (not sent to the model; /help lists the commands)", name)
	return true
}

// turn runs the agent after begin has appended what it is to answer. One turn
// at a time runs on a session, in whatever program.
func (r *repl) turn(ctx context.Context, begin func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	turn, err := r.session.TryBeginTurn(ctx)
	switch {
	case errors.Is(err, session.ErrBusy):
		r.say("Another program is in the middle of a turn on this session. Nothing was sent; try again later.")
		return
	case err != nil && !errors.Is(err, errors.ErrUnsupported):
		r.fail(err)
		return
	case err == nil:
		defer func() {
			if err := turn.End(); err != nil {
				r.fail(err)
			}
		}()
	}
	r.setCancel(cancel)
	defer r.setCancel(nil)
	if err = begin(ctx); err == nil {
		err = r.agent.answer(ctx, r.session, r.out)
	}
	switch {
	case errors.Is(err, context.Canceled):
		r.say("Cancelled. What was said so far is kept.")
	case err != nil:
		r.fail(err)
	}
}

func (r *repl) setCancel(cancel context.CancelFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel = cancel
}

// shortID is enough of an ID to tell sessions apart: its time in milliseconds.
func shortID(id string) string { return id[:min(len(id), 13)] }

// clean takes out of a text what a terminal would obey: control characters
// other than line breaks and tabs.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// cut shortens a text to n runes, on one line.
func cut(s string, n int) string {
	s = strings.Join(strings.Fields(clean(s)), " ")
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n]) + "..."
	}
	return s
}
