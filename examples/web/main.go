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

// build returns a folder with the page and its packages. A folder in the cache holds the
// packages of a lock file, and in it folders hold versions of the page.
func build(ctx context.Context) (dir string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	page, err := fs.Sub(page, "page")
	if err != nil {
		return "", err
	}
	packages := filepath.Join(cache, "convolog-web", sum(page, "package-lock.json"))
	err = makeDir(packages, func(dir string) error {
		return errors.Join(os.CopyFS(dir, page), npm(ctx, dir, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"))
	})
	if err != nil {
		return "", err
	}
	dir = filepath.Join(packages, sum(page, "."))
	return dir, makeDir(dir, func(dir string) error {
		return errors.Join(os.CopyFS(dir, page), npm(ctx, dir, "run", "--silent", "build"))
	})
}

// sum returns a name for the contents of a file, or of all files in a folder.
func sum(files fs.FS, root string) string {
	sum := sha256.New()
	_ = fs.WalkDir(files, root, func(name string, _ fs.DirEntry, _ error) error {
		text, _ := fs.ReadFile(files, name) // embedded; a folder has no text
		fmt.Fprintf(sum, "%s %d %s", name, len(text), text)
		return nil
	})
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// makeDir makes a folder that does not exist, with the files that fill adds. Other
// processes find no unfinished folder, and may make the same one.
func makeDir(dir string, fill func(dir string) error) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	temp, err := os.MkdirTemp(filepath.Dir(dir), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := fill(temp); err != nil {
		return err
	}
	err = os.Rename(temp, dir)
	if _, statErr := os.Stat(dir); statErr == nil { // perhaps of another process
		return nil
	}
	return err
}

func npm(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "npm", args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return cmd.Run()
}
