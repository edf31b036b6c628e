package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/convolog/convolog/examples/convolog/internal/postgres"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/driver/memdriver"
	"github.com/convolog/convolog/session/exchange"
)

func copyStore(ctx context.Context, c *call) (err error) {
	do, open, done := exchange.Copy, c.copyFrom, "copied"
	if c.command.name == "merge" {
		if c.args[1], err = c.storeOf(c.args[1]); err != nil {
			return err
		}
		do, open, done = exchange.Merge, c.mergeFrom, "merged"
	}
	from, fromBlobs, err := open(ctx, c.args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, toBlobs, err := c.copyTo(ctx, c.args[1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	if info, err := os.Stat(c.args[0]); c.command.name == "merge" && err == nil && !info.IsDir() {
		if err := eraseCopy(ctx, from, to); err != nil {
			return err
		}
	}
	n := 0
	var notable []exchange.CopyResult
	report, err := do(ctx, from, to, &exchange.CopyOptions{DryRun: c.dryRun, From: fromBlobs, To: toBlobs, Each: func(s exchange.CopyResult, _ error) {
		if n++; len(s.Damage) > 0 || s.Fork.ID != "" || s.Left != "" {
			notable = append(notable, s)
		}
		c.progress("%s %s", count(n, "session"), done)
	}})
	slices.SortFunc(notable, func(a, b exchange.CopyResult) int { return strings.Compare(a.ID, b.ID) })
	shown := c.value(struct {
		exchange.CopyReport
		Notable []exchange.CopyResult `json:"notable,omitempty"` // with damage, a fork or a reason
	}{report, notable}, func() {
		for _, s := range notable {
			switch {
			case s.Left != "" && s.Fork.ID != "":
				c.say("%s: both have continued it; the end of %s is left out, because its fork %s is %s", s.ID, c.args[0], s.Fork.ID, s.Left)
			case s.Left != "":
				c.say("%s: left out, although it was continued; in %s it is %s", s.ID, c.args[1], s.Left)
			case s.Fork.ID != "":
				c.say("%s: both have continued it; the fork %s holds the shorter end", s.ID, s.Fork.ID)
			}
			for _, d := range s.Damage {
				c.say("%s: left out damage of %s at %d", s.ID, count(d.Size, "byte"), d.Offset)
			}
		}
		verb := map[bool]string{true: "would be " + done, false: done}[c.dryRun]
		c.say("%s, %d new: %s and %s %s.", count(report.Sessions, "session"), report.Created, count(report.Lines, "line"), count(report.Blobs, "blob"), verb)
		if report.Missing > 0 {
			c.say("Missing in %s: %s.", c.args[0], count(report.Missing, "blob"))
		}
		if report.Left > 0 {
			c.say("Not %s: %s in the trash or in lists of removals.", done, count(report.Left, "session"))
		}
		if report.Failed > 0 {
			c.say("Not %s: %s.", done, count(report.Failed, "session"))
		}
	})
	return errors.Join(err, shown)
}

// copyFrom opens the existing store to copy.
func (c *call) copyFrom(ctx context.Context, name string) (*session.Store, blobs.Store, error) {
	if strings.Contains(name, "://") {
		return c.database(ctx, name, true)
	}
	if _, err := os.Stat(filepath.Join(name, "agents")); err != nil {
		return nil, nil, absent("there is no store in %q", name)
	}
	f, err := openFolder(ctx, name, true)
	return f.Store, blobs.Folder(name), err
}

// copyTo opens the target store, and makes it if it is missing. A dry run with a missing
// target uses a store in memory.
func (c *call) copyTo(ctx context.Context, name string) (*session.Store, blobs.Store, error) {
	if strings.Contains(name, "://") {
		to, kept, err := c.database(ctx, name, c.dryRun)
		if c.dryRun && errors.Is(err, fs.ErrNotExist) {
			return inMemory(), blobs.Memory(), nil
		}
		return to, kept, err
	}
	a, err := os.Stat(c.args[0])
	b, absent := os.Stat(name)
	if err == nil && absent == nil && os.SameFile(a, b) {
		return nil, nil, wrong("%s and %s are the same folder", c.args[0], name)
	}
	if c.dryRun && errors.Is(absent, fs.ErrNotExist) {
		return inMemory(), blobs.Memory(), nil
	}
	store, err := session.Open(name, &session.Options{ReadOnly: c.dryRun})
	return store, blobs.Folder(name), err
}

func inMemory() *session.Store { return session.OpenDriver(memdriver.New(nil), nil) }

func (c *call) database(ctx context.Context, url string, existing bool) (*session.Store, blobs.Store, error) {
	switch {
	case isDatabase(url):
		return postgres.Open(ctx, url, existing)
	case strings.HasPrefix(url, "http"):
		return nil, nil, wrong("%s works on folders and databases, not over a server such as %s: name the folder or database of the server", c.command.name, url)
	}
	return nil, nil, wrong("%s is not a folder, and not the URL of a database, which begins with postgres://", url)
}
