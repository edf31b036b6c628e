// Package cli is the command line of convolog.
package cli

import (
	"cmp"
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

	"golang.org/x/term"

	"github.com/convolog/convolog/examples/convolog/internal/postgres"
	"github.com/convolog/convolog/examples/convolog/internal/screen"
	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
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
	terminal := func(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
	con := &console{
		in: os.Stdin, out: os.Stdout, err: os.Stderr, getenv: os.Getenv,
		terminal: terminal(os.Stdout), watched: terminal(os.Stderr), asked: terminal(os.Stdin) && terminal(os.Stderr),
	}
	if con.terminal {
		con.columns, _, _ = term.GetSize(int(os.Stdout.Fd()))
	}
	code := run(ctx, os.Args[1:], con)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, con *console) int {
	c := &call{console: con, options: &options{}}
	cmd, err := c.root(args).ExecuteContextC(ctx)
	con.endProgress()
	if err = cmp.Or(err, con.failed); err == nil {
		return 0
	}
	switch usage, misused := errors.AsType[usageError](err); {
	case errors.Is(err, errFound):
	case c.json || slices.Contains(args, "--json"): // the latter after an error in the flags
		line, _ := json.Marshal(map[string]any{"error": err.Error(), "exit": exitCode(err)})
		_, _ = fmt.Fprintln(con.err, screen.JSON(string(line)))
	case misused:
		_, _ = fmt.Fprintf(con.err, "convolog: %s\nTry: %s --help\n", printable(string(usage)), cmd.CommandPath())
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
	_, missing := errors.AsType[absentError](err)
	socket, _ := errors.AsType[*net.OpError](err)
	_, unresolved := errors.AsType[*net.DNSError](err)
	_, unanswered := errors.AsType[*url.Error](err)
	switch {
	case usage || misnamed || mistaken || refused != nil && refused.Status == http.StatusBadRequest:
		return exitUsage
	case errors.Is(err, errFound):
		return exitFound
	case several || missing || unresolved || unanswered || socket != nil && socket.Op == "dial" || errors.Is(err, fs.ErrNotExist) || errors.Is(err, session.ErrNoEntry) || errors.Is(err, errNoServer):
		return exitAbsent
	}
	return exitFailed
}

// A usageError is an error in the command line.
type usageError string

// Error returns the text.
func (e usageError) Error() string { return string(e) }

// An absentError reports that a named session, call, folder or entry does not exist.
type absentError string

// Error returns the text.
func (e absentError) Error() string { return string(e) }

func absent(format string, args ...any) error { return absentError(fmt.Sprintf(format, args...)) }

var errFound = errors.New("doctor has findings")

// run opens the store that the command needs and carries it out.
func (c *call) run(ctx context.Context) (err error) {
	if c.command.access != files && (c.command.access != looksOr || len(c.args) == 0) {
		if c.backend, err = c.open(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.backend.Close()) }()
	}
	if len(c.args) > 0 && c.command.namesSession() {
		if c.ref, err = c.named(ctx, c.args[0]); err != nil {
			return err
		}
	}
	return c.command.do(ctx, c)
}

// open opens the store that the flags name.
func (c *call) open(ctx context.Context) (backend, error) {
	if c.url != "" && c.mask {
		return nil, wrong("--mask is for a folder: a server or database masks its own store")
	}
	trial := c.command.access == makes && c.dryRun
	if isDatabase(c.url) {
		store, _, err := postgres.Open(ctx, c.url, trial || c.command.access != makes)
		if trial && errors.Is(err, fs.ErrNotExist) {
			store, err = inMemory(), nil
		}
		return &folder{Store: store}, err
	}
	if c.url != "" {
		return newRemote(c.url, c.token, c.dir)
	}
	if err := home.Check(c.dir); err != nil {
		return nil, err
	}
	_, err := os.Stat(filepath.Join(c.dir, "agents"))
	if err != nil && trial {
		return &folder{Store: inMemory()}, nil
	}
	noStore := err != nil && c.command.access != makes
	f, err := openFolder(ctx, c.dir, noStore || trial || c.command.access == looks || c.command.access == looksOr, c.filters()...)
	if noStore && (err == nil || errors.Is(err, fs.ErrNotExist)) {
		err = absent("there is no store in %q: name its folder with --dir, or a server with --url", c.dir)
	}
	return f, err
}

func isDatabase(url string) bool {
	return strings.HasPrefix(url, "postgres://") || strings.HasPrefix(url, "postgresql://")
}
