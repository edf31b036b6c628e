// Repl talks to a model in a terminal, and its conversations survive
// everything: quit it, kill it, start it again.
//
//	go run ./examples/repl
//
// Without -url it needs no network: a scripted model inside the program calls
// tools, streams its answers and refuses every invalid request as the real
// service does. With -url (and a key in ANTHROPIC_API_KEY) it talks to any
// Anthropic-compatible endpoint; client.go is the client it does that with.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/convolog/convolog/session"
)

// config is what the flags say.
type config struct {
	dir    string // of the store
	work   string // of the files that the tools may see
	key    string // of the session to start with
	url    string
	model  string
	apiKey string
	window int // tokens

	now  func() time.Time
	wait func(context.Context) error // between two events of the scripted model
}

func main() {
	c := config{now: time.Now, wait: pace}
	flag.StringVar(&c.dir, "dir", ".convolog", "`folder` that the conversations are kept in")
	flag.StringVar(&c.work, "work", ".", "`folder` that the model's tools may read")
	flag.StringVar(&c.key, "key", "main:cli:user", "`key` of the conversation to continue")
	flag.StringVar(&c.url, "url", "", "base `URL` of an Anthropic-compatible service; empty for the scripted model")
	flag.StringVar(&c.model, "model", "scripted", "`name` of the model")
	flag.IntVar(&c.window, "window", 180_000, "context window in `tokens`, for /context")
	flag.Parse()
	c.apiKey = os.Getenv("ANTHROPIC_API_KEY")

	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	if err := run(context.Background(), c, os.Stdin, os.Stdout, interrupts); err != nil {
		fmt.Fprintln(os.Stderr, "repl:", err)
		os.Exit(1)
	}
}

// run is the program: it reads lines from in until they end or /quit. A value
// from interrupts cancels the running answer.
func run(ctx context.Context, c config, in io.Reader, out io.Writer, interrupts <-chan os.Signal) (err error) {
	key, err := session.ParseKey(c.key)
	if err != nil {
		return err
	}
	tools, err := openTools(c.work, c.now)
	if err != nil {
		return err
	}
	defer func() { _ = tools.close() }() // only read
	store, err := session.Open(c.dir, nil)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := store.Close(); err == nil {
			err = closeErr
		}
	}()
	current, err := store.Load(ctx, key)
	if err != nil {
		return err
	}

	model := &client{url: c.url, model: c.model, apiKey: c.apiKey, http: http.DefaultClient}
	if c.url == "" {
		model.url, model.http = "http://scripted.invalid", &http.Client{Transport: scripted{c.wait}}
	}
	r := &repl{
		config: c, key: key, store: store, session: current, out: &lockedWriter{w: out},
		agent: &agent{model: model, tools: tools},
	}
	stop := r.watch(interrupts)
	defer stop()
	r.banner(ctx)
	return r.loop(ctx, in)
}
