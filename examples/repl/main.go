// Repl talks to a model in a terminal, and its conversations survive
// everything: quit it, kill it, start it again.
//
//	go run ./examples/repl
//
// Without -url it needs no network: a scripted model inside the program calls
// tools, streams its answers, has a window and refuses every invalid request as
// the real service does. With -url (and a key in ANTHROPIC_API_KEY) it talks to
// any Anthropic-compatible endpoint.
//
// With a small window you soon see it work: results of tools are shortened and
// the history is compacted, each reported in one line.
//
//	go run ./examples/repl -window 4000
//
// Summaries are extracts of the conversation; with -url the model writes them.
//
// On a terminal, lines can be edited and recalled, a paste of any length is one
// text, Alt-Enter or a backslash at the end of a line continues it, and Ctrl-C
// stops an answer and keeps its beginning. NO_COLOR leaves out colour; with
// TERM=dumb, or through a pipe, it reads and prints plain lines.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/guardtest"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/transcript/tokens"
)

// config holds the values of flags.
type config struct {
	dir    string // of the store
	work   string // of the files that the tools may see
	key    string // of the session to start with
	url    string
	model  string
	apiKey string
	window int // tokens; 0 means none

	summarizer string // "model" or "extract"; empty is model if there is a URL

	now     func() time.Time
	offline *guardtest.Model // without a URL
}

func main() {
	c := config{now: time.Now}
	flag.StringVar(&c.dir, "dir", home.Default, "`folder` that the conversations are kept in")
	flag.StringVar(&c.work, "work", ".", "`folder` that the model's tools may read")
	flag.StringVar(&c.key, "key", "main:cli:user", "`key` of the conversation to continue")
	flag.StringVar(&c.url, "url", "", "base `URL` of an Anthropic-compatible service, with its key in ANTHROPIC_API_KEY; empty for the scripted model")
	flag.StringVar(&c.model, "model", "", "`name` of the model at the service of -url")
	flag.IntVar(&c.window, "window", 180_000, "context window in `tokens`; 0 for an unknown one")
	flag.StringVar(&c.summarizer, "summarizer", "", "who writes summaries, `model or extract`; default extract, with -url model")
	flag.Parse()
	c.offline = scripted(c.window)
	c.apiKey = os.Getenv("ANTHROPIC_API_KEY")

	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	if err := run(context.Background(), c, os.Stdin, os.Stdout, interrupts); err != nil {
		fmt.Fprintln(os.Stderr, "repl:", err)
		os.Exit(1)
	}
}

// checkModel names the model without a service; with a service the name is
// required.
func (c *config) checkModel() error {
	switch {
	case c.model != "":
	case c.url != "":
		return errors.New("-url needs -model, the name of a model of the service")
	default:
		c.model = "scripted"
	}
	return nil
}

// run is the program: it reads lines from in until they end or /quit. A value
// from interrupts cancels the running answer.
func run(ctx context.Context, c config, in io.Reader, out io.Writer, interrupts <-chan os.Signal) (err error) {
	if c.window < 0 {
		return fmt.Errorf("-window is %d, less than 0", c.window)
	}
	if err := c.checkModel(); err != nil {
		return err
	}
	key, err := session.ParseKey(c.key)
	if err != nil {
		return err
	}
	tools, err := openTools(c.work, c.now)
	if err != nil {
		return err
	}
	defer func() { _ = tools.close() }() // only read
	console, err := openConsole(in, out)
	if err != nil {
		return err
	}
	screen := &terminal{w: out}
	if console != nil {
		// A signal ends the input: an unfinished answer is kept, and the terminal is restored.
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, terminating...)
		defer stop()
		console.keys.ctx = ctx
		defer console.close()
		defer console.watch()()
		screen = &terminal{w: out, width: console.width, color: console.color, moves: true}
	}
	model := httpclient.Messages(cmp.Or(c.url, "http://scripted.invalid"), c.apiKey)
	if c.url == "" {
		model.HTTP = &http.Client{Transport: c.offline}
	}
	compaction, err := c.compaction(model)
	if err != nil {
		return err
	}
	if err := home.Check(c.dir); err != nil {
		return err
	}
	store, err := session.Open(c.dir, &session.Options{Compact: compaction, Observe: screen.storeEvent})
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := store.Close(); err == nil {
			err = closeErr
		}
	}()
	if err := erase.Resume(ctx, store); err != nil {
		screen.say("%v", err)
	}
	current, err := store.Load(ctx, key)
	if err != nil {
		return err
	}

	g := &guard.Guard{
		Model: c.model, System: system, Tools: toolDefinitions, Window: c.window,
		MaxOutput: min(wire.DefaultMaxOutput, c.window/4), Counter: tokens.Estimator{}, Observe: screen.guardEvent,
	}
	r := &repl{
		config: c, key: key, store: store, session: current, compact: compaction, out: screen,
		agent: &agent{model: model, guard: g, tools: tools, out: screen},
	}
	r.lines = &piped{in: bufio.NewReader(in), out: screen}
	if console != nil {
		r.console, r.lines = console, console
		console.past = userTexts(ctx, current)
	}
	stop := r.watch(interrupts)
	defer stop()
	r.banner(ctx)
	return r.loop(ctx)
}
