// Package server is the common part of examples/server and examples/shared, which
// serve different stores.
package server

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	neturl "net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/convolog/convolog/examples/internal/token"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/openviking"
	"github.com/convolog/convolog/session/serve/uistream"
	"github.com/convolog/convolog/session/serve/zyhive"
)

// Config holds the values of flags, see [Config.Flags].
type Config struct {
	Addr, Keys string
	URL, Model string
	Token      string        // of the only client, an administrator, without Keys; empty makes one
	Dir        string        // the folder for a made token; empty for none
	Page       bool          // whether to serve the page
	Memories   string        // the folder of the memories; empty for none
	Files      http.Handler  // served at /, for a page that is not of the library; may be nil
	Window     int           // tokens
	Grace      time.Duration // time for answers when the server stops
}

// Flags defines the flags of a server.
func (c *Config) Flags(f *flag.FlagSet) {
	f.StringVar(&c.Addr, "addr", "localhost:8080", "`address` to listen on")
	f.StringVar(&c.Keys, "keys", "", "`file` with lines of a key and the owner whose it is, or * for an administrator; needed unless the address is of this machine. It ends with a line break, and is read anew for every request")
	f.StringVar(&c.Token, "token", "", "`key` of the one client, if there is no -keys; without it one is made")
	f.BoolVar(&c.Page, "page", false, "serve a page to look at the conversations, at /")
	f.StringVar(&c.Memories, "memories", "", "`folder` for memories, which the model extracts from committed conversations; empty for none. Without `-keys`, and for administrators in `-keys`, they belong to the user default")
	f.StringVar(&c.URL, "url", "", "base `URL` of an Anthropic-compatible service; empty for the scripted model")
	f.StringVar(&c.Model, "model", "scripted", "`name` of the model")
	f.IntVar(&c.Window, "window", 180_000, "context window in `tokens`; 0 for an unknown one")
	f.DurationVar(&c.Grace, "grace", 30*time.Second, "`time` that answers get to end when the server is stopped")
}

// Main serves the store that open returns until the process is interrupted or
// terminated. If it cannot, it exits with an error.
func Main(c Config, open func(context.Context) (*session.Store, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	store, err := open(ctx)
	if err == nil {
		if err := erase.Resume(ctx, store); err != nil {
			fmt.Fprintln(os.Stderr, "server:", err)
		}
		err = errors.Join(Run(ctx, c, store, func(url, token string) { fmt.Print(c.said(url, token)) }), store.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// said returns the lines that a server prints at its start. A given token must not reach
// the logs of a service.
func (c *Config) said(url, token string) string {
	if c.Token != "" {
		url, _, _ = strings.Cut(url, "#")
	}
	if c.Keys != "" || c.Token != "" {
		return url + "\n"
	}
	return url + "\ntoken " + token + "\n"
}

// Run serves a store until ctx is done. It calls ready with the URL and the token.
func Run(ctx context.Context, c Config, store *session.Store, ready func(url, token string)) (err error) {
	a := newAgent(c)
	opts := &serve.Options{
		Respond: a.respond,
		Surfaces: []serve.Surface{
			serve.Own(), zyhive.New(), openviking.New("main", &openviking.Options{Owner: owner}), uistream.New("/api/chat", "main"),
		},
	}
	only := serve.Principal{Admin: true}
	if c.Memories != "" {
		model := memory.Model{Client: a.model, Name: c.Model}
		if opts.Memory, err = memory.Open(memory.Folder(c.Memories), &memory.Options{Extractor: model}); err != nil {
			return err
		}
		only.Owner = owner // memories need an owner
	}
	if c.Page {
		opts.Surfaces = append(opts.Surfaces, serve.Page())
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.Addr)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server closed it
	if addr, ok := listener.Addr().(*net.TCPAddr); c.Keys == "" && (!ok || !addr.IP.IsLoopback()) {
		return errors.New("without -keys the address must be of this machine alone, such as localhost:8080")
	}
	switch {
	case c.Keys != "":
		keys, err := readKeys(c.Keys)
		if err != nil {
			return err
		}
		var mu sync.Mutex // guards keys
		// Keys may change while it runs.
		opts.Auth = func(r *http.Request) (serve.Principal, error) {
			mu.Lock()
			now, err := readKeys(c.Keys)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				keys = now
			}
			auth := serve.Keys(keys)
			mu.Unlock()
			if err != nil {
				slog.Error("the keys cannot be read", "err", err)
			}
			return auth(r)
		}
	case c.Token == "":
		var file string
		if c.Token, file, err = token.Leave(c.Dir, listener.Addr()); err != nil {
			return err
		}
		defer func() { _ = os.Remove(file) }() // useless without the server
		fallthrough
	default:
		opts.Auth = serve.Keys(map[string]serve.Principal{c.Token: only})
	}
	sv, err := serve.New(store, opts)
	if err != nil {
		return err
	}
	server := sv.HTTPServer(c.Addr)
	if c.Files != nil {
		mux := http.NewServeMux()
		mux.Handle("/", c.Files)
		for _, path := range []string{"/api/", "/v1/", "/openapi.json"} {
			mux.Handle(path, sv)
		}
		server.Handler = mux
	}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if err := sv.Resume(ctx, &session.ListOptions{Since: time.Now().Add(-24 * time.Hour)}); err != nil {
		slog.Warn("some sessions were not resumed", "err", err)
	}
	url := "http://" + listener.Addr().String()
	if (c.Files != nil || c.Page) && c.Keys == "" {
		url += "/#" + neturl.Values{"token": {c.Token}}.Encode() // a browser sends no fragment
	}
	ready(url, c.Token)
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	// Answers end, or their received part is kept; then streams end, and connections.
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.Grace)
	defer cancel()
	_ = sv.Close(grace)
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if stopped := server.Shutdown(last); err == nil && !errors.Is(stopped, http.ErrServerClosed) {
		err = stopped
	}
	return err
}

// owner is the owner of an administrator's sessions that need one.
const owner = "default"

// readKeys reads who may use the server. A file that is being written gives an error that
// matches [io.ErrUnexpectedEOF].
func readKeys(file string) (map[string]serve.Principal, error) {
	text, err := os.ReadFile(file)
	switch {
	case err != nil:
		return nil, err
	case !bytes.HasSuffix(text, []byte("\n")):
		return nil, fmt.Errorf("%s: no line break at the end: %w", file, io.ErrUnexpectedEOF)
	}
	keys, n := map[string]serve.Principal{}, 0
	admin, user := false, 0 // an administrator, and the line of the owner of its sessions
	for line := range strings.Lines(string(text)) {
		n++
		switch fields := strings.Fields(line); {
		case len(fields) == 0 || strings.HasPrefix(fields[0], "#"):
		case len(fields) != 2:
			return nil, fmt.Errorf("%s:%d: want a key and an owner", file, n)
		case fields[1] == "*":
			keys[fields[0]], admin = serve.Principal{Admin: true}, true
		default:
			if fields[1] == owner {
				user = n
			}
			keys[fields[0]] = serve.Principal{Owner: fields[1]}
		}
	}
	if admin && user > 0 {
		return nil, fmt.Errorf("%s:%d: the sessions of an administrator belong to the owner %s: use another name", file, user, owner)
	}
	return keys, nil
}
