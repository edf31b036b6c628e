// Agents is an agent on the official SDKs of Anthropic, OpenAI and Google. Its
// conversation survives Ctrl-C, kill -9, a full context window, and a change of the
// provider in the middle.
//
//	go -C examples/agents run .
//
// This needs no network and no key: the SDK talks to a scripted model inside the
// program. The model is as strict as the real service. Ask it to look at the files, or
// to count; interrupt it, kill it, start it again with another -api. With -real the SDK
// talks to the service, with the key in ANTHROPIC_API_KEY, OPENAI_API_KEY or
// GEMINI_API_KEY:
//
//	go -C examples/agents run . -real -api gemini -dir ~/.convolog-agent
//
// Copy agent.go and the file of your SDK: they hold the loop around the model, and the
// use of the SDK in one function. Package rebuild/wire renders requests and reads
// answers, so this program converts no messages.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/examples/internal/plain"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/tokens"
)

const system = "You are a helpful assistant in a terminal. You may look at files with your tools."

// config holds the values of flags.
type config struct {
	dir       string // the folder of the store
	key       string // the key of the session
	api       string // a key of apis
	model     string
	window    int             // in tokens; 0 means unknown
	maxOutput int             // in tokens
	reasoning json.RawMessage // in the form of the API; nil lets the model decide
	tools     []tool
	at        *endpoint
	// interruptible returns the context of one turn, which Ctrl-C cancels.
	interruptible func(context.Context) (context.Context, context.CancelFunc)
}

func main() {
	c := config{interruptible: func(ctx context.Context) (context.Context, context.CancelFunc) {
		return signal.NotifyContext(ctx, os.Interrupt)
	}}
	flag.StringVar(&c.dir, "dir", home.Default, "`folder` of the conversations")
	flag.StringVar(&c.key, "key", "main:cli:user", "`key` of the conversation to continue")
	flag.StringVar(&c.api, "api", "anthropic", "`API` to use: "+strings.Join(slices.Sorted(maps.Keys(apis)), ", "))
	flag.StringVar(&c.model, "model", "", "`name` of the model; empty for the default model of the API")
	flag.IntVar(&c.window, "window", 0, "context window of the model in `tokens`; 0 for the window of the default model")
	flag.IntVar(&c.maxOutput, "max-output", wire.DefaultMaxOutput, "longest answer in `tokens`")
	reasoning := flag.String("reasoning", "", "setting for reasoning, as `JSON` of the API: {\"type\":\"adaptive\"}, {\"effort\":\"medium\"}, {\"includeThoughts\":true}")
	work := flag.String("work", ".", "`folder` that the model's tools may read")
	real := flag.Bool("real", false, "talk to the real service; the SDK reads the key from its environment variable")
	flag.Parse()
	if *reasoning != "" {
		c.reasoning = json.RawMessage(*reasoning)
	}
	c.model = cmp.Or(c.model, apis[c.api].model)
	c.window = cmp.Or(c.window, apis[c.api].window)
	if !*real {
		c.at = offline(scripted(c.window))
	}
	root, err := os.OpenRoot(*work)
	if err == nil {
		c.tools = fileTools(root)
		err = run(context.Background(), c, os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agents:", err)
		os.Exit(1)
	}
}

// run reads lines until the input ends, and answers each line.
func run(ctx context.Context, c config, in io.Reader, out io.Writer) (err error) {
	key, err := session.ParseKey(c.key)
	if err != nil {
		return err
	}
	a, err := newAgent(ctx, c, out)
	if err != nil {
		return err
	}
	if err := home.Check(c.dir); err != nil {
		return err
	}
	store, err := session.Open(c.dir, &session.Options{Compact: a.compaction(), Observe: a.observe})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := store.Load(ctx, key)
	if err != nil {
		return err
	}
	info, err := s.Info(ctx)
	if err != nil {
		return err
	}
	a.say("Session %s, %d previous turns. Ctrl-C cancels an answer, Ctrl-D ends.", key, info.Turns)

	// A killed turn continues at once. A cancelled or failed turn waits for the user.
	pending, err := s.Pending(ctx)
	if err != nil {
		return err
	}
	if pending.Cut {
		a.say("The last turn has no whole answer. An empty line lets the model continue.")
	} else if pending.Owed {
		a.handle(ctx, s, "")
	}
	for lines := bufio.NewReader(in); ; {
		_, _ = io.WriteString(out, "> ")
		line, err := lines.ReadString('\n')
		if line != "" {
			a.handle(ctx, s, strings.TrimSpace(line))
		}
		if errors.Is(err, io.EOF) {
			_, _ = io.WriteString(out, "\n")
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading input: %w", err)
		}
	}
}

// handle runs a turn, which Ctrl-C cancels. It prints a failure, and the program
// continues.
func (a *agent) handle(ctx context.Context, s *session.Session, text string) {
	ctx, stop := a.interruptible(ctx)
	defer stop()
	switch err := a.turn(ctx, s, text); {
	case errors.Is(err, session.ErrBusy):
		a.say("Another program is in the middle of a turn on this session; nothing was sent.")
	case errors.Is(err, context.Canceled):
		a.say("Cancelled. The answer so far is kept.")
	case err != nil:
		a.say("Error: %v", err)
	}
}

func newAgent(ctx context.Context, c config, out io.Writer) (*agent, error) {
	api, ok := apis[c.api]
	if !ok {
		return nil, fmt.Errorf("unknown API %q, see -h", c.api)
	}
	service, err := api.open(ctx, c.at, c.reasoning)
	if err != nil {
		return nil, err
	}
	a := &agent{
		config: c, service: service, out: out,
		guard: guard.Guard{Model: c.model, System: system, MaxOutput: c.maxOutput, Window: c.window},
	}
	a.guard.Observe = func(_ context.Context, e guard.Event) {
		if e.Kind == guard.EventRetry {
			a.say("The request did not fit (%s) and is sent again; the answer shown so far is void.", e.Overflow.Kind)
		}
	}
	for _, t := range slices.Concat(c.tools, recallTools(nil)) {
		a.guard.Tools = append(a.guard.Tools, t.Tool)
	}
	return a, nil
}

// compaction returns the options of compactions. The model writes the summary; if it
// fails, code extracts one.
func (a *agent) compaction() compact.Options {
	model := compact.Model{Name: a.model, Window: a.window, Complete: a.summarize}
	return compact.Options{
		Trigger:    compact.Trigger{Window: a.window, Overhead: tokens.Estimator{}.Count(system, a.guard.Tools, nil)},
		Summarizer: compact.Either(model, compact.Extractive{}),
		Recall:     true,
	}
}

// summarize asks the model outside of the conversation.
func (a *agent) summarize(ctx context.Context, req transcript.Request) (*transcript.Response, error) {
	return a.service.complete(ctx, req, true, func(wire.Delta) {})
}

// observe prints the library's actions on the conversation.
func (a *agent) observe(ctx context.Context, e session.Event) context.Context {
	switch e.Kind {
	case session.EventCompactionDone:
		a.say("The conversation was compacted: %d tokens of it are a summary now.", e.Cut.Covered)
	case session.EventCompactionFailed:
		a.say("The conversation was not compacted: %v", e.Err)
	default:
	}
	return ctx
}

func (a *agent) say(format string, args ...any) {
	_, _ = fmt.Fprintf(a.out, "  %s\n", plain.Clean(fmt.Sprintf(format, args...)))
}
