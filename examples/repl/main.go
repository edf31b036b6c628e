// Repl talks to a model in a terminal, and its conversations survive everything: quit
// it, kill it, start it again.
//
//	go run ./examples/repl
//
// The model is a script that needs no network: it calls tools and streams its answers.
// With a small window, long results are shortened and the history is compacted:
//
//	go run ./examples/repl -window 4000
//
// Ctrl-C stops an answer and keeps its beginning; at the prompt it ends the program. For
// an editor, Markdown and real models, see convolog chat in examples/convolog.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/examples/internal/plain"
	"github.com/convolog/convolog/examples/internal/script"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

const system = "You are a helpful assistant in a terminal. You may look at files with your tools."

// maxRounds limits the calls of the model for one line of the user.
const maxRounds = 30

// repl is the state of the program.
type repl struct {
	dir    string // of the store
	key    string // of the conversation to continue
	window int    // of the model, in tokens
	model  turn.Model

	store   *session.Store
	session *session.Session
	guard   *guard.Guard
	compact compact.Options
	out     io.Writer
}

func main() {
	r := &repl{model: script.Model{Pace: 25 * time.Millisecond}}
	flag.StringVar(&r.dir, "dir", home.Default, "`folder` that the conversations are kept in")
	flag.StringVar(&r.key, "key", "main:cli:user", "`key` of the conversation to continue")
	flag.IntVar(&r.window, "window", 180_000, "context window in `tokens`")
	flag.Parse()
	if err := r.run(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "repl:", err)
		os.Exit(1)
	}
}

// run opens the store, continues the conversation, and reads lines from in until they
// end.
func (r *repl) run(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	key, err := session.ParseKey(r.key)
	if err != nil {
		return err
	}
	if err := home.Check(r.dir); err != nil {
		return err
	}
	r.out = plain.Writer{Writer: out}
	r.guard = &guard.Guard{
		System: system, Tools: script.Tools, Window: r.window, MaxOutput: min(wire.DefaultMaxOutput, r.window/4), Observe: r.guarded,
	}
	overhead := tokens.Estimator{}.Count(system, script.Tools, nil)
	r.compact = compact.Options{Trigger: compact.Trigger{Window: r.window, Overhead: overhead}}
	r.store, err = session.Open(r.dir, &session.Options{Compact: r.compact, Observe: r.stored})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.store.Close()) }()
	if r.session, err = r.store.Load(ctx, key); err != nil { // restored, or created
		return err
	}
	if err := r.greet(ctx); err != nil {
		return err
	}
	for lines := bufio.NewReader(in); err == nil; {
		var line string
		fmt.Fprint(r.out, "> ")
		line, err = lines.ReadString('\n') // the last line may lack the newline
		if line = strings.TrimSpace(line); line != "" && !r.handle(ctx, line) {
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		_, err = fmt.Fprintln(r.out)
	}
	return err
}

// handle runs a command or a turn, and reports whether the program continues.
func (r *repl) handle(ctx context.Context, line string) bool {
	do := r.turn
	if strings.HasPrefix(line, "/") {
		do = r.command
	}
	switch err := do(ctx, line); {
	case errors.Is(err, io.EOF):
		return false
	case errors.Is(err, context.Canceled):
		r.note("Stopped. The answer so far is kept.")
	case err != nil:
		r.note("Error: %v", err)
	}
	return true
}

// turn appends a text of the user, unless it is empty, and lets the model answer.
// Ctrl-C cancels it. Each step is on disk before the next one begins, so a kill is
// harmless at any point.
func (r *repl) turn(ctx context.Context, text string) (err error) {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	t, err := turn.TryBegin(ctx, r.session) // fails while another program runs a turn
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.End()) }()
	if text != "" {
		if _, err := r.session.Append(ctx, transcript.UserText(text)); err != nil {
			return err
		}
	}
	if err := r.answer(ctx, t); err != nil {
		return err
	}
	_, err = r.session.AfterTurn(ctx) // compacts the history if that is due
	return err
}

// answer asks the model, runs the called tools, and asks again.
func (r *repl) answer(ctx context.Context, t *turn.Turn) error {
	for range maxRounds {
		resp, err := t.Ask(ctx, r.guard, r.model, func(text string) { fmt.Fprint(r.out, text) })
		fmt.Fprintln(r.out)
		if err != nil || len(resp.Message.ToolCalls()) == 0 {
			return err
		}
		for _, c := range resp.Message.ToolCalls() {
			r.note("[tool] %s(%s)", c.Name, plain.Line(string(c.Input), 100))
		}
		if err := errors.Join(turn.RunTools(ctx, r.session, 4, script.Run), ctx.Err()); err != nil {
			return err
		}
	}
	return fmt.Errorf("the model asked for tools %d times: /continue lets it continue", maxRounds)
}

// guarded prints each stage that makes a request fit.
func (r *repl) guarded(_ context.Context, e guard.Event) {
	if e.Changed {
		r.note("[guard] %s: prompt ~%s -> ~%s tokens", e.Stage, plain.Thousands(e.Before), plain.Thousands(e.After))
	}
}

// stored prints compactions.
func (r *repl) stored(ctx context.Context, e session.Event) context.Context {
	if e.Kind == session.EventCompactionDone {
		r.note("[compact] %d messages -> summary: history ~%s -> ~%s tokens",
			e.Cut.At, plain.Thousands(e.Compaction.TokensBefore), plain.Thousands(e.Compaction.TokensAfter))
	}
	return ctx
}

// note prints a line outside of the conversation.
func (r *repl) note(format string, args ...any) { fmt.Fprintf(r.out, "  "+format+"\n", args...) }
