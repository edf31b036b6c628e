package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
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
	out := c.listing()
	opts := c.importOptions()
	opts.DryRun = c.dryRun
	var errs []error
	names := convert.Names{}
	for _, name := range c.args {
		sessions, unread := convert.Find(name, c.from)
		errs = append(errs, unread, c.backend.take(ctx, name, names.Distinct(sessions), opts, func(r convert.Result) error {
			if r.Failed != nil {
				errs = append(errs, fmt.Errorf("%s: session %s: %s", name, cmp.Or(r.Session.ID, r.Source), r.Failed.Title))
			}
			c.endProgress()
			err := sum.Add(out, r)
			c.progress("%s imported", count(len(sum.Sessions), "session"))
			return cmp.Or(err, ctx.Err())
		}))
	}
	if err := errors.Join(errs...); len(sum.Sessions) == 0 && err == nil {
		errs = append(errs, errors.New("the files contain no session: convolog inspect describes them"))
	}
	c.endProgress()
	errs = append(errs, sum.End(out, cmp.Or(c.url, c.dir)))
	return errors.Join(append(errs, c.value(sum, func() {}))...)
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
	if as := cmp.Or(c.as, "jsonl"); as != "jsonl" && as != "markdown" && as != "html" && renderers[as] == nil {
		return c.wrong("there is no form %q, only jsonl, markdown, html and %v", as, slices.Sorted(maps.Keys(renderers)))
	}
	if c.json && (c.as == "markdown" || c.as == "html") {
		return c.wrong("%s is not JSON", c.as)
	}
	return c.backend.export(ctx, c.ref, c.as, c.model, c.out)
}

// local returns an error if --url is set, for a command that cannot work over a server.
func (c *call) local() error {
	if c.url != "" {
		return c.wrong("%s works on files, not over a server: leave out --url", c.command.name)
	}
	return nil
}

func inspectFiles(_ context.Context, c *call) error {
	if err := c.local(); err != nil {
		return err
	}
	return inspect.Run(c.out, c.json, c.args)
}

func convertFiles(ctx context.Context, c *call) error {
	if err := c.local(); err != nil {
		return err
	}
	job, err := convert.New(c.args, c.to, c.model, c.dryRun)
	if err != nil {
		return c.wrong("%s", err)
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
	if err := c.local(); err != nil {
		return err
	}
	if err := home.Check(c.dir); err != nil {
		return err
	}
	store, err := session.Open(c.dir, storeOptions(c.dir, false, c.filters()...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_ = erase.Resume(ctx, store) // doctor reports failures, as for openFolder
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	defer func() { _ = listener.Close() }() // the server closes it first
	if addr, ok := listener.Addr().(*net.TCPAddr); c.token == "" && (!ok || !addr.IP.IsLoopback()) {
		return c.wrong("without a token the address must be a loopback address, such as 127.0.0.1:1933")
	}
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
			return c.wrong("--memories needs the --model that extracts them")
		}
		client := httpclient.Messages(c.memories, c.getenv("ANTHROPIC_API_KEY"))
		if memories, err = memoriesOf(c.dir, memory.Model{Client: client, Name: c.model}); err != nil {
			return err
		}
		who.Owner = "default" // memories need an owner
	}
	opts := &serve.Options{
		Auth: serve.Keys(map[string]serve.Principal{secret: who}), Renderers: renderers, Memory: memories,
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
