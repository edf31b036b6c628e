package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/convolog/convolog/examples/convolog/internal/convert"
	"github.com/convolog/convolog/examples/convolog/internal/inspect"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/erase"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/session/serve/openviking"
	"github.com/convolog/convolog/session/serve/zyhive"
)

func importSessions(ctx context.Context, c *call) error {
	reports := []imported{}
	var errs []error
	for _, name := range c.args {
		err := c.backend.take(ctx, name, func(im imported) error {
			reports = append(reports, im)
			if im.Failed != nil {
				errs = append(errs, fmt.Errorf("%s: session %s: %s", name, im.Session.ID, im.Failed.Title))
			}
			c.progress("%s imported", count(len(reports), "session"))
			return ctx.Err()
		})
		if err != nil {
			errs = append(errs, err)
		}
	}
	if len(reports) == 0 && len(errs) == 0 {
		errs = append(errs, errors.New("no session was found: convolog inspect describes the files"))
	}
	err := c.value(reports, func() {
		for _, im := range reports {
			if im.Failed == nil {
				c.say("%s: %d of %d records are new", im.Session.ID, im.Appended, im.Records)
			}
		}
	})
	return errors.Join(append(errs, err)...)
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

// local returns the error of a command that cannot work over a server.
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
	out := c.out
	if c.json {
		out = io.Discard
	}
	sum, err := job.Run(ctx, out)
	return errors.Join(err, c.value(sum, func() {}))
}

func serveFolder(ctx context.Context, c *call) (err error) {
	if err := c.local(); err != nil {
		return err
	}
	store, err := session.Open(c.dir, storeOptions(c.dir, false, c.filters()...))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	_ = erase.Resume(ctx, store) // as openFolder does
	token := c.key
	if token == "" { // a proxy, or another user, would be the administrator
		token = rand.Text()
	}
	opts := &serve.Options{
		Auth: serve.Keys(map[string]serve.Principal{token: {Admin: true}}), Renderers: renderers,
		Surfaces: []serve.Surface{serve.Own(), zyhive.New(), openviking.New("main")},
	}
	if c.page {
		opts.Surfaces = append(opts.Surfaces, serve.Page())
	}
	sv, err := serve.New(store, opts)
	if err != nil {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", c.addr)
	if err != nil {
		return err
	}
	if addr, ok := listener.Addr().(*net.TCPAddr); c.key == "" && (!ok || !addr.IP.IsLoopback()) {
		return errors.Join(c.wrong("without a key the address must be of this machine, such as 127.0.0.1:1933"), listener.Close())
	}
	server := sv.HTTPServer(c.addr)
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	where := map[string]string{"url": "http://" + listener.Addr().String(), "dir": c.dir}
	if c.key == "" {
		where["token"] = token
	}
	if err := c.value(where, func() {
		c.say("%s serves %s; Ctrl-C ends it.", where["url"], c.dir)
		if c.key == "" {
			c.say("Clients send the token %s: set CONVOLOG_KEY to it.", token)
		}
	}); err != nil {
		return errors.Join(err, listener.Close())
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
