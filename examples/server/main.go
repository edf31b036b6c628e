// Server puts conversations behind HTTP, and their answers survive it: kill it while
// it answers, start it again, and clients go on where they were.
//
//	go run ./examples/server
//	curl -N localhost:8080/api/agents/main/chat -d '{"message":"hello"}' -H 'Content-Type: application/json'
//
// Without -url it needs no network: a scripted model inside the program streams
// its answers. With -url (and a key in ANTHROPIC_API_KEY) any Anthropic-compatible
// endpoint answers. Without -keys it serves this machine alone.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
)

// config is what the flags say.
type config struct {
	addr, dir, keys string
	url, model      string
	page            bool          // whether to serve it
	window          int           // tokens
	grace           time.Duration // that answers get when the server is stopped
}

func main() {
	var c config
	flag.StringVar(&c.addr, "addr", "localhost:8080", "`address` to listen on")
	flag.StringVar(&c.dir, "dir", ".convolog", "`folder` that the conversations are kept in")
	flag.StringVar(&c.keys, "keys", "", "`file` with lines of a key and the owner whose it is, or * for an administrator; needed unless the address is of this machine")
	flag.BoolVar(&c.page, "page", false, "serve a page to look at the conversations, at /page")
	flag.StringVar(&c.url, "url", "", "base `URL` of an Anthropic-compatible service; empty for the scripted model")
	flag.StringVar(&c.model, "model", "scripted", "`name` of the model")
	flag.IntVar(&c.window, "window", 180_000, "context window in `tokens`; 0 for an unknown one")
	flag.DurationVar(&c.grace, "grace", 30*time.Second, "`time` that answers get to end when the server is stopped")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, c, func(addr string) { fmt.Println("http://" + addr) }); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run serves until ctx is done. It calls ready with the address.
func run(ctx context.Context, c config, ready func(addr string)) (err error) {
	store, err := session.Open(c.dir, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	opts := &serve.Options{Respond: newAgent(c), Open: c.keys == ""}
	if c.page {
		opts.Surfaces = serve.Everything | serve.Page
	}
	if c.keys != "" {
		keys, err := readKeys(c.keys)
		if err != nil {
			return err
		}
		opts.Auth = serve.Keys(keys)
	}
	sv, err := serve.New(store, opts)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	if addr, ok := listener.Addr().(*net.TCPAddr); opts.Open && (!ok || !addr.IP.IsLoopback()) {
		return errors.Join(errors.New("without -keys the address must be of this machine alone, such as localhost:8080"), listener.Close())
	}
	server := sv.HTTPServer(c.addr)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := sv.Resume(ctx, &session.ListOptions{Since: time.Now().Add(-24 * time.Hour)}); err != nil {
		slog.Warn("some sessions were not resumed", "err", err)
	}
	ready(listener.Addr().String())
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	// Answers end, or are kept as far as they came; then streams end, and connections.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.grace)
	defer cancel()
	_ = sv.Close(grace)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if stopped := server.Shutdown(last); err == nil && !errors.Is(stopped, http.ErrServerClosed) {
		err = stopped
	}
	return err
}

// readKeys reads who may use the server.
func readKeys(file string) (map[string]serve.Principal, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	keys := map[string]serve.Principal{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		switch fields := strings.Fields(lines.Text()); {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case len(fields) != 2:
			return nil, fmt.Errorf("%s:%d: want a key and an owner", file, n)
		case fields[1] == "*":
			keys[fields[0]] = serve.Principal{Admin: true}
		default:
			keys[fields[0]] = serve.Principal{Owner: fields[1]}
		}
	}
	return keys, lines.Err()
}
