// Convolog-chat talks to a model in a terminal. The command chat of convolog runs it. It is
// a program of its own because its libraries start slowly: in 13 ms, and all of convolog in 4.
//
//	convolog-chat
//	convolog-chat --model claude-sonnet-4-5 SESSION
//
// Without --model it needs no network: the model is a script. A name that begins with
// claude means Anthropic, with the key in ANTHROPIC_API_KEY; every other name means
// OpenAI, with the key in OPENAI_API_KEY. ANTHROPIC_BASE_URL and OPENAI_BASE_URL name
// other services with these APIs.
//
// Through a pipe, and with TERM=dumb, it reads and prints plain lines.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/convolog/convolog/examples/convolog/internal/chat"
	"github.com/convolog/convolog/examples/convolog/internal/postgres"
	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/examples/internal/script"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "convolog chat:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("convolog chat", flag.ContinueOnError)
	dir := flags.String("dir", home.Default, "the `folder` of the store")
	url := flags.String("url", "", "the postgres:// `URL` of a store in a database")
	model := flags.String("model", "", "`name` of the model; empty means a script")
	window := flags.Int("window", 180_000, "context window in `tokens`; 0 means unknown")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, err := open(ctx, *dir, *url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s, err := find(ctx, store, flags.Arg(0))
	if err != nil {
		return err
	}
	c := &chat.Chat{Store: store, Session: s}
	c.Model, c.Guard = connect(*model)
	c.Guard.Window = *window
	if term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd())) && os.Getenv("TERM") != "dumb" {
		return c.Screen(ctx, os.Stdin, os.Stdout)
	}
	return c.Plain(ctx, os.Stdin, os.Stdout)
}

func open(ctx context.Context, dir, url string) (*session.Store, error) {
	if url != "" {
		store, _, err := postgres.Open(ctx, url, false)
		return store, err
	}
	if err := home.Check(dir); err != nil {
		return nil, err
	}
	return session.Open(dir, nil)
}

// find returns the session that a person names, or the one of the default key.
func find(ctx context.Context, store *session.Store, name string) (*session.Session, error) {
	if name == "" {
		return store.Load(ctx, session.Key{Agent: "main", Channel: "cli", Peer: "user"})
	}
	info, err := search.ByPrefix(ctx, store, name, nil)
	if err != nil {
		return nil, err
	}
	return store.Get(ctx, info.Ref)
}

// connect returns a client and its guard.
func connect(model string) (turn.Model, *guard.Guard) {
	if model == "" {
		return script.Model{Pace: 25 * time.Millisecond}, &guard.Guard{}
	}
	url := cmp.Or(os.Getenv("OPENAI_BASE_URL"), "https://api.openai.com/v1")
	client := httpclient.Chat(url, os.Getenv("OPENAI_API_KEY"))
	if strings.HasPrefix(model, "claude") {
		url = cmp.Or(os.Getenv("ANTHROPIC_BASE_URL"), "https://api.anthropic.com")
		client = httpclient.Messages(url, os.Getenv("ANTHROPIC_API_KEY"))
	}
	return client, &guard.Guard{Model: model, Endpoint: url, Takes: wire.TakesOf(model, url), Format: client.Format}
}
