package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/convolog/convolog/compact"
	"github.com/convolog/convolog/examples/internal/plain"
	"github.com/convolog/convolog/guard"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/exchange"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript/tokens"
)

// A command is a line that starts with a slash.
type command struct {
	name, arg, help string
	do              func(c *Chat, ctx context.Context, arg string) error
}

func commands() []command {
	return []command{
		{"/new", "[title]", "start a new session", (*Chat).create},
		{"/sessions", "", "list the newest sessions", (*Chat).list},
		{"/switch", "<session>", "go to the session of a key, title or ID, or of its beginning", (*Chat).change},
		{"/rewind", "[n]", "take back the last n turns (1)", (*Chat).rewind},
		{"/continue", "", "let the model continue a cut answer or pending work", (*Chat).resume},
		{"/context", "", "show how full the context window is", (*Chat).context},
		{"/compact", "[n]", "summarise the history, all but the last n turns (1)", (*Chat).compact},
		{"/export", "[file]", "write the session to a new .md, .html or .jsonl file", (*Chat).export},
		{"/help", "", "list the commands and keys", (*Chat).help},
		{"/quit", "", "end the program (or Ctrl-D)", func(*Chat, context.Context, string) error { return io.EOF }},
	}
}

func (c *Chat) command(ctx context.Context, text string) error {
	name, arg, _ := strings.Cut(text, " ")
	for _, known := range commands() {
		if known.name == name {
			return known.do(c, ctx, strings.TrimSpace(arg))
		}
	}
	return fmt.Errorf("unknown command %s, not sent to the model; /help lists the commands", name)
}

func (c *Chat) help(context.Context, string) error {
	for _, known := range commands() {
		c.note("%-20s%s", known.name+" "+known.arg, known.help)
	}
	c.note("%-20s%s", "Alt-Enter, Ctrl-J", "continue in another line")
	c.note("%-20s%s", "Ctrl-C", "stop the answer; at the prompt, clear the line")
	c.note("%-20s%s", "Up, Down", "recall earlier lines")
	return nil
}

func (c *Chat) create(ctx context.Context, title string) error {
	info, err := c.Session.Info(ctx)
	if err != nil {
		return err
	}
	key, err := session.ParseKey(info.Key)
	if err != nil {
		return err
	}
	s, err := c.Store.Create(ctx, key, &session.CreateOptions{Title: title})
	if err != nil {
		return err
	}
	c.Session = s
	c.greet(ctx)
	return nil
}

func (c *Chat) list(ctx context.Context, _ string) error {
	infos, err := c.Store.List(ctx, &session.ListOptions{Limit: 20})
	for _, i := range infos {
		mark := " "
		if i.Ref == c.Session.Ref() {
			mark = "*"
		}
		c.note("%s %s  %s  %s, %d turns", mark, i.ID, i.UpdatedAt.Local().Format("2006-01-02 15:04"), plain.Line(cmp.Or(i.Title, i.Key), 30), i.Turns)
	}
	return err
}

func (c *Chat) change(ctx context.Context, text string) error {
	info, err := search.ByPrefix(ctx, c.Store, text, nil)
	if err != nil {
		return err
	}
	s, err := c.Store.Get(ctx, info.Ref)
	if err != nil {
		return err
	}
	c.Session = s
	c.greet(ctx)
	return s.MakeCurrent(ctx)
}

func (c *Chat) rewind(ctx context.Context, arg string) error {
	n, err := plain.Turns(arg)
	if err != nil {
		return err
	}
	if err := turn.Undo(ctx, c.Session, n); err != nil {
		return err
	}
	c.note("Rewound %d turn(s). Nothing was erased from the transcript.", n)
	return nil
}

func (c *Chat) resume(ctx context.Context, _ string) error {
	p, err := c.Session.Pending(ctx)
	switch {
	case err != nil:
	case p.Owed:
	case p.Cut:
		err = turn.Continue(ctx, c.Session)
	default:
		err = errors.New("nothing is pending: type a message")
	}
	if err != nil {
		return err
	}
	return c.turn(ctx, "")
}

func (c *Chat) context(ctx context.Context, _ string) error {
	h, err := c.Session.History(ctx)
	used := tokens.For(c.Guard.Model).Count(h.SystemPrompt(c.Guard.System), c.Guard.Tools, h.Messages)
	c.out.lines(strings.TrimSuffix(plain.Usage(used, c.Guard.Window), "\n"))
	return err
}

func (c *Chat) compact(ctx context.Context, arg string) error {
	n, err := plain.Turns(arg)
	if err != nil {
		return err
	}
	o := &compact.Options{Window: c.Guard.Window, Keep: compact.Keep{Turns: n}, Recall: true}
	if m, ok := c.Model.(guard.Client); ok {
		o.Summarizer = compact.Either(compact.Model{Complete: m.Complete, Name: c.Guard.Model, Window: c.Guard.Window}, compact.Extractive{})
	}
	done, err := c.Session.Compact(ctx, o)
	switch {
	case err != nil:
	case done.Cut.Nothing != "":
		c.note("Nothing to compact: %s.", done.Cut.Nothing)
	default:
		c.note("%d messages -> summary: history ~%s -> ~%s tokens", done.Cut.At, plain.Thousands(done.Compaction.TokensBefore), plain.Thousands(done.Compaction.TokensAfter))
	}
	return err
}

// exports are the formats by the extension of the file.
var exports = map[string]func(context.Context, *session.Session, io.Writer) error{
	".md": exchange.Markdown, ".html": exchange.HTML, ".jsonl": exchange.Lines,
}

func (c *Chat) export(ctx context.Context, name string) error {
	name = cmp.Or(name, c.Session.Ref().ID+".md")
	write, ok := exports[filepath.Ext(name)]
	if !ok {
		return errors.New("want a file that ends in .md, .html or .jsonl")
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // never overwrite a file
	if err != nil {
		return err
	}
	if err := errors.Join(write(ctx, c.Session, f), f.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	c.note("Exported: %s", name)
	return nil
}
