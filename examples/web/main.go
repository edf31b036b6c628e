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
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
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
	c.Files = http.FileServer(http.Dir(filepath.Join(built, "public")))
	server.Main(c, func(context.Context) (*session.Store, error) {
		if err := home.Check(c.Dir); err != nil {
			return nil, err
		}
		return session.Open(c.Dir, nil)
	})
}

// build returns a folder with the page and its packages. Another version of the page
// replaces it.
func build(ctx context.Context) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(page, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := page.ReadFile(name)
		fmt.Fprintf(sum, "%s %d %s", name, len(text), text)
		return err
	})
	top := filepath.Join(cache, "convolog-web", hex.EncodeToString(sum.Sum(nil)[:8]))
	dir = filepath.Join(top, "page")
	if _, statErr := os.Stat(filepath.Join(dir, "public", "bundle.js")); err != nil || statErr == nil {
		return dir, err
	}
	if err := errors.Join(os.RemoveAll(filepath.Dir(top)), os.MkdirAll(top, 0o700), os.CopyFS(top, page)); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "npm", "run", "--silent", "build")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return dir, cmd.Run()
}
