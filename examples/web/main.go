// Web is a chat in a browser, with useChat of the AI SDK over package uistream:
//
//	go run ./examples/web
//
// It prints a link. Reload the page in the middle of an answer, or kill the program and
// start it again: the page shows the stored part of the answer. The program needs npm: it
// installs the pinned packages and builds the page in the user's cache folder once.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/convolog/convolog/examples/internal/home"
	"github.com/convolog/convolog/examples/internal/server"
	"github.com/convolog/convolog/session"
)

//go:embed page
var page embed.FS

func main() {
	var c server.Config
	c.Flags(flag.CommandLine)
	flag.StringVar(&c.Dir, "dir", home.Default, "`folder` of the conversations")
	flag.Parse()
	built, err := build(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "web:", err)
		os.Exit(1)
	}
	c.Files = http.FileServer(http.Dir(filepath.Join(built, "dist")))
	server.Main(c, func(context.Context) (*session.Store, error) {
		if err := home.Check(c.Dir); err != nil {
			return nil, err
		}
		return session.Open(c.Dir, nil)
	})
}

// build returns a folder with the page and its packages. It installs the packages again
// only if the lock file has changed.
func build(ctx context.Context) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir = filepath.Join(cache, "convolog-web")
	lock, err := page.ReadFile("page/package-lock.json")
	if err != nil {
		return "", err
	}
	installed, _ := os.ReadFile(filepath.Join(dir, "installed"))
	err = os.MkdirAll(filepath.Join(dir, "dist"), 0o700)
	for from, to := range map[string]string{"package.json": "", "package-lock.json": "", "page.jsx": "", "client.mjs": "", "index.html": "dist"} {
		text, readErr := page.ReadFile("page/" + from)
		err = errors.Join(err, readErr, os.WriteFile(filepath.Join(dir, to, from), text, 0o600))
	}
	run := func(name string, args ...string) {
		if err != nil {
			return
		}
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Stderr = dir, os.Stderr
		err = cmd.Run()
	}
	if string(installed) != string(lock) {
		run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
	}
	run("node", "node_modules/esbuild/bin/esbuild", "page.jsx", "--bundle", "--minify", "--format=esm", "--jsx=automatic", "--outfile=dist/bundle.js", "--log-level=warning")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "installed"), lock, 0o600)
	}
	return dir, err
}
