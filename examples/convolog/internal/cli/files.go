package cli

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/examples/convolog/internal/convert"
	"github.com/convolog/convolog/examples/convolog/internal/inspect"
	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/examples/internal/token"
	"github.com/convolog/convolog/guard/httpclient"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/openviking"
	"github.com/convolog/convolog/session/serve/zyhive"
)

func importSessions(ctx context.Context, c *call) error {
	sum := convert.NewSummary(c.dryRun)
	err := sum.Take(ctx, c.listing(), c.args, c.from, cmp.Or(c.url, c.dir), importer{c})
	return errors.Join(err, c.value(sum, func() {}))
}

// An importer is the store of a call as a target.
type importer struct{ *call }

// Write implements [convert.Target].
func (c importer) Write(ctx context.Context, name string, sessions iter.Seq[exchange.Source], report func(convert.Result) error) error {
	opts, n := c.importOptions(), 0
	opts.DryRun = c.dryRun
	return c.backend.take(ctx, name, sessions, opts, func(r convert.Result) error {
		c.endProgress()
		n++
		err := report(r)
		c.progress("%s imported", count(n, "session"))
		return err
	})
}

// Close implements [convert.Target]: run closes the store.
func (c importer) Close() error {
	c.endProgress()
	return nil
}

// listing returns the output for lines about sessions, which JSON replaces.
func (c *call) listing() io.Writer {
	if c.json {
		return io.Discard
	}
	return c.out
}

func (c *call) importOptions() exchange.ImportOptions {
	return exchange.ImportOptions{For: c.create.Owner, Zone: c.times}
}

func export(ctx context.Context, c *call) error {
	if !slices.Contains(convert.Documents(), c.format) {
		return wrong("there is no format %q, only %s", c.format, strings.Join(convert.Documents(), ", "))
	}
	if c.json && (c.format == "markdown" || c.format == "html") {
		return wrong("%s is not JSON", c.format)
	}
	if !c.terminal {
		return c.backend.export(ctx, c.ref, c.format, c.model, c.out)
	}
	var sb strings.Builder
	err := c.backend.export(ctx, c.ref, c.format, c.model, &sb)
	c.print(printable(sb.String()))
	return cmp.Or(err, c.failed)
}

func inspectFiles(_ context.Context, c *call) error {
	return inspect.Run(c.out, c.json, c.args)
}

func convertFiles(ctx context.Context, c *call) error {
	job, err := convert.New(c.args, c.to, c.model, c.dryRun)
	if err != nil {
		return wrong("%s", err)
	}
	job.Import, job.From = c.importOptions(), c.from
	job.Open = func(dir string, readOnly bool) (*session.Store, error) {
		f, err := openFolder(ctx, dir, readOnly)
		return f.Store, err
	}
	sum, err := job.Run(ctx, c.listing())
	return errors.Join(err, c.value(sum, func() {}))
}

func serveFolder(ctx context.Context, c *call) (err error) {
	if err := home.Check(c.dir); err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server closes it first
	if addr, ok := listener.Addr().(*net.TCPAddr); c.token == "" && (!ok || !addr.IP.IsLoopback()) {
		return wrong("without a token the address must be a loopback address, such as 127.0.0.1:1933")
	}
	store, err := session.Open(c.dir, storeOptions(c.dir, false, c.filters()...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_ = erase.Resume(ctx, store) // doctor reports failures, as for openFolder
	where, secret, file := "http://"+listener.Addr().String(), c.token, ""
	if secret == "" { // without a token, a proxy or another user would be the administrator
		if secret, file, err = token.Leave(c.dir, listener.Addr()); err != nil {
			return err
		}
		defer func() { _ = os.Remove(file) }() // the token ends with the server
	}
	who := serve.Principal{Admin: true}
	var memories *memory.Store
	if c.memories != "" {
		if c.model == "" {
			return wrong("--memories needs the --model that extracts them")
		}
		client := httpclient.Messages(c.memories, c.getenv("ANTHROPIC_API_KEY"))
		if memories, err = memoriesOf(c.dir, memory.Model{Client: client, Name: c.model}); err != nil {
			return err
		}
		who.Owner = "default" // memories need an owner
	}
	opts := &serve.Options{
		Auth: serve.Keys(map[string]serve.Principal{secret: who}), Renderers: convert.Requests, Memory: memories,
		Surfaces: []serve.Surface{serve.Own(), zyhive.New(), openviking.New("main", nil)},
	}
	if c.page {
		opts.Surfaces = append(opts.Surfaces, serve.Page())
	}
	sv, err := serve.New(store, opts)
	if err != nil {
		return err
	}
	server := sv.HTTPServer(c.addr)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	described := map[string]string{"url": where, "dir": c.dir}
	if c.token == "" {
		described["token"] = secret
	}
	if err := c.value(described, func() {
		c.say("%s serves %s; Ctrl-C ends it.", where, c.dir)
		if c.token == "" {
			c.say("Clients need the token %s. The command line finds it if it runs in this folder.", secret)
		}
		if c.page && c.token == "" {
			c.say("The page is at %s/#token=%s", where, secret)
		} else if c.page { // a given token must not reach a log
			c.say("The page is at %s/", where)
		}
	}); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_ = sv.Close(last)
	if stopped := server.Shutdown(last); err == nil && !errors.Is(stopped, http.ErrServerClosed) {
		err = stopped
	}
	return err
}
