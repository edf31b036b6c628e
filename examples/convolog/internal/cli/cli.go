// Package cli is the command line of convolog.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/convolog/convolog/examples/convolog/internal/postgres"
	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/search"
)

// Exit codes of failures.
const (
	exitFailed = iota + 1
	exitUsage
	exitAbsent
	exitFound
)

// Main carries out the command line of the process, and ends the process with an exit
// code.
func Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	code := run(ctx, os.Args[1:], &console{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv,
		terminal: isTerminal(os.Stdout), watched: isTerminal(os.Stderr),
	})
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, con *console) int {
	c, err := parse(args, con)
	if err == nil {
		err = c.run(ctx)
	}
	con.endProgress()
	if errors.Is(err, errHelp) {
		con.print(c.help())
		err = con.failed
	}
	if err == nil {
		return 0
	}
	usage, misused := errors.AsType[usageError](err)
	switch code := exitCode(err); {
	case errors.Is(err, errFound):
	case c.json || slices.Contains(args, "--json") || slices.Contains(args, "-json"):
		_ = json.NewEncoder(con.err).Encode(map[string]any{"error": err.Error(), "exit": code})
	case misused:
		_, _ = fmt.Fprintf(con.err, "convolog: %s\nTry: convolog %s\n", printable(usage.text), usage.try)
	default:
		_, _ = fmt.Fprintln(con.err, "convolog:", printable(err.Error()))
	}
	return exitCode(err)
}

func exitCode(err error) int {
	_, usage := errors.AsType[usageError](err)
	_, misnamed := errors.AsType[*driver.NameError](err)
	_, mistaken := errors.AsType[*session.InputError](err)
	refused, _ := errors.AsType[*problem](err)
	_, several := errors.AsType[*search.AmbiguousError](err)
	_, unreachable := errors.AsType[*net.OpError](err)
	_, unanswered := errors.AsType[*url.Error](err)
	switch {
	case usage || misnamed || mistaken || refused != nil && refused.Status == http.StatusBadRequest:
		return exitUsage
	case errors.Is(err, errFound):
		return exitFound
	case several || unreachable || unanswered || errors.Is(err, fs.ErrNotExist) || errors.Is(err, session.ErrNoEntry) || errors.Is(err, errNoServer):
		return exitAbsent
	}
	return exitFailed
}

// A usageError is an error in the command line.
type usageError struct {
	text string
	try  string // the arguments that show help
}

// Error returns the text.
func (e usageError) Error() string { return e.text }

var (
	errHelp  = errors.New("the user asked for help")
	errFound = errors.New("doctor has findings")
)

// run opens the store that the command needs and carries it out.
func (c *call) run(ctx context.Context) (err error) {
	if c.command.do == nil {
		return errHelp
	}
	if c.command.access != files && (c.command.access != looksOr || len(c.args) == 0) {
		if c.backend, err = c.open(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.backend.Close()) }()
	}
	if len(c.args) > 0 && strings.HasPrefix(strings.TrimPrefix(c.command.args, "["), "SESSION") {
		if c.ref, err = c.named(ctx, c.args[0]); err != nil {
			return err
		}
	}
	return c.command.do(ctx, c)
}

// open opens the store that the flags name.
func (c *call) open(ctx context.Context) (backend, error) {
	if c.url != "" && c.mask {
		return nil, c.wrong("--mask is for a folder: a server or database masks its own store")
	}
	if isDatabase(c.url) {
		store, _, err := postgres.Open(ctx, c.url)
		return &folder{Store: store}, err
	}
	if c.url != "" {
		return newRemote(c.url, c.token, c.dir)
	}
	if err := home.Check(c.dir); err != nil {
		return nil, err
	}
	_, err := os.Stat(filepath.Join(c.dir, "agents"))
	if err != nil && c.command.access == makes && c.dryRun {
		return &folder{Store: session.OpenDriver(memdriver.New(nil), nil)}, nil
	}
	absent := err != nil && c.command.access != makes
	f, err := openFolder(ctx, c.dir, absent || c.dryRun && c.command.access == makes || c.command.access == looks || c.command.access == looksOr, c.filters()...)
	if absent && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		err = fmt.Errorf("there is no store in %q: name its folder with --dir, or a server with --url: %w", c.dir, fs.ErrNotExist)
	}
	return f, err
}

func isDatabase(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}
