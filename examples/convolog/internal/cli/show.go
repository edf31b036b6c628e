package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// The number of entries in a page. Each page costs a scan of the whole transcript.
const (
	pageSize  = 500 // the most that a server allows
	localSize = 20_000
)

func show(ctx context.Context, c *call) error {
	v := &view{call: c}
	if c.last > pageSize {
		return wrong("--last is at most %d", pageSize)
	}
	if c.last > 0 {
		return v.page(c.backend.page(ctx, c.ref, "", -c.last))
	}
	size := localSize
	if c.url != "" {
		size = pageSize
	}
	for after := ""; ; {
		entries, err := c.backend.page(ctx, c.ref, after, size)
		if err := v.page(entries, err); err != nil || len(entries) < size {
			return err
		}
		after = entries[len(entries)-1].ID
	}
}

func follow(ctx context.Context, c *call) error {
	v := &view{call: c}
	for e, err := range c.backend.follow(ctx, c.ref, c.after) {
		switch {
		case ctx.Err() != nil: // Ctrl-C is the normal end
			return nil
		case err == nil:
			err = v.entry(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A view prints entries one after the other.
type view struct {
	*call
	role transcript.Role // the role of the last message
}

func (v *view) page(entries []transcript.Entry, err error) error {
	for _, e := range entries {
		if err := v.entry(e); err != nil {
			return err
		}
	}
	return err
}

func (v *view) entry(e transcript.Entry) error {
	return v.value(e, func() {
		b, ok := e.Body.(transcript.MessageLine)
		if !ok {
			v.aside(e)
			return
		}
		if b.Role != v.role || b.Role == transcript.RoleUser {
			v.role = b.Role
			v.print(v.paint(bold, string(b.Role)) + v.paint(faint, "  "+stamp(e.Time)+"  "+e.ID) + "\n")
		}
		for _, block := range b.Content {
			v.block(block)
		}
	})
}

// aside prints a line about an entry other than a message.
func (v *view) aside(e transcript.Entry) {
	text := e.Type()
	switch b := e.Body.(type) {
	case transcript.Compaction:
		text = fmt.Sprintf("compacted, ~%d tokens became ~%d: %s", b.TokensBefore, b.TokensAfter, b.Summary)
	case transcript.Rewind:
		text = "taken back to " + b.To
	case transcript.Hide:
		text = "hidden: "
		if b.Off {
			text = "shown again: "
		}
		text += strings.Join(b.Entries, ", ")
	case transcript.Decision:
		text = fmt.Sprintf("call %s: %s%s", b.CallID, b.Verdict, strings.TrimSuffix(" by "+b.By, " by "))
		if b.Reason != "" {
			text += ": " + b.Reason
		}
	case transcript.Commit:
		text = "committed"
	case transcript.Meta:
		if b.Title != nil {
			text = fmt.Sprintf("titled %q", *b.Title)
		}
	case transcript.Header:
		text = "session " + e.ID + ", key " + b.Key
	}
	v.print(v.paint(faint, "-- "+v.short(text, 3)) + "\n")
}

func (v *view) block(block transcript.Block) {
	line := func(sign, text string) { v.print(v.paint(faint, "  "+sign+" "+v.short(text, 4)) + "\n") }
	switch b := block.(type) {
	case transcript.TextBlock:
		v.print("  " + strings.ReplaceAll(strings.TrimRight(printable(b.Text), "\n"), "\n", "\n  ") + "\n")
	case transcript.ThinkingBlock:
		line("~", b.Thinking)
	case transcript.ToolCallBlock:
		line(">", b.Name+" "+string(b.Input))
	case transcript.ToolResultBlock:
		text := transcript.Message{Content: b.Content}.Text()
		if b.IsError {
			text = "failed: " + text
		}
		line("<", cmp.Or(text, "(no text)"))
	case transcript.ContextBlock:
		line("@", b.URI+" "+b.Abstract)
	default:
		line("*", transcript.BlockType(block))
	}
}

func (v *view) short(text string, indent int) string {
	if v.full {
		return strings.ReplaceAll(printable(text), "\n", "\n"+strings.Repeat(" ", indent))
	}
	return cut(text, cmp.Or(v.width(), columns)-indent)
}

func searchTexts(ctx context.Context, c *call) error {
	q := c.query
	q.Text, q.Role, q.Sessions = strings.Join(c.args, " "), c.role, c.list
	if c.regexp {
		q.Text, q.Regexp = "", q.Text
	}
	q.Limit, q.Sessions.Limit, q.Sessions.State = cmp.Or(q.Sessions.Limit, 100), 0, session.AnyState
	hits := c.backend.Search(ctx, q)
	if c.within != "" {
		ref, err := c.named(ctx, c.within)
		if err != nil {
			return err
		}
		hits = c.backend.searchIn(ctx, ref, q)
	}
	for hit, err := range hits {
		if errors.Is(err, search.ErrQuery) {
			return usageError(err.Error())
		}
		if err != nil {
			return err
		}
		err = c.value(hit, func() {
			who := cmp.Or(hit.Tool, hit.Role)
			c.print(c.paint(faint, fmt.Sprintf("%s  %s  %s", short(hit.Session.ID), age(hit.Time, time.Now()), hit.Entry)) + "\n")
			c.print("  " + c.paint(bold, who) + " " + c.marked(hit, max(0, c.width()-3-len(who))) + "\n")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// marked returns the excerpt of a hit on one line, with the match in colour.
func (c *call) marked(hit search.Hit, width int) string {
	line, match := cut(hit.Excerpt, width), cut(hit.Excerpt[hit.Start:hit.End], 0)
	before := min(len(cut(hit.Excerpt[:hit.Start], 0)), len(line))
	at := strings.Index(line[before:], match) + before
	if match == "" || at < before {
		return line
	}
	return line[:at] + c.paint(red, match) + line[at+len(match):]
}
