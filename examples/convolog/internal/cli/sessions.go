package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/transcript"
)

// named returns the session with a name: an ID, a key, or the beginning or end of an ID.
func (c *call) named(ctx context.Context, name string) (session.Ref, error) {
	ref := session.Ref{Agent: cmp.Or(c.list.Agent, "main"), ID: name}
	if !strings.ContainsAny(name, ":/") {
		d, err := c.backend.describe(ctx, ref)
		if err == nil {
			return d.Info.Ref, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return ref, nil // the command reports any other failure
		}
	}
	opts := session.ListOptions{Key: session.Key{Agent: c.list.Agent}, State: session.AnyState}
	if slices.Contains([]string{"session restore", "session delete", "erase"}, c.command.name) {
		opts.State = session.EveryState
	}
	infos, err := c.backend.List(ctx, &opts)
	if err != nil {
		return ref, err
	}
	found := sessionsNamed(infos, name)
	switch {
	case len(found) == 1:
		return found[0].Ref, nil
	case len(found) > 1:
		return ref, &search.AmbiguousError{Query: name, Matches: found}
	case c.now: // delete --now can remove a session whose transcript is missing
		return ref, nil
	}
	opts.State = session.Trashed
	if infos, err = c.backend.List(ctx, &opts); err == nil {
		for _, i := range sessionsNamed(infos, name) {
			return ref, absent("session %s is in the trash: convolog session restore %s brings it back", i.ID, i.ID)
		}
	}
	return ref, absent("no session has the ID or the key %q, or an ID that begins or ends with it (4 letters or more)", name)
}

// sessionsNamed returns the current session of a key, or else the sessions with the ID or
// the key, or else the sessions whose IDs begin or end so.
func sessionsNamed(infos []session.Info, name string) (found []session.Info) {
	for _, fits := range []func(session.Info) bool{
		func(i session.Info) bool { return i.Key == name && i.Current },
		func(i session.Info) bool { return i.ID == name || i.Key == name },
		func(i session.Info) bool { return begunOrEnded(i.ID, name) },
	} {
		found = slices.DeleteFunc(slices.Clone(infos), func(i session.Info) bool { return !fits(i) })
		if len(found) > 0 {
			break
		}
	}
	return found
}

// begunOrEnded reports whether an ID begins or ends with name, which has at least 4 letters:
// a shorter one fits by chance.
func begunOrEnded(id, name string) bool {
	return len(name) > 3 && (strings.HasPrefix(id, name) || strings.HasSuffix(id, name))
}

func newSession(ctx context.Context, c *call) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	c.create.ID = cmp.Or(c.create.ID, id.String())
	key := session.Key{Agent: cmp.Or(c.list.Agent, "main"), Channel: "cli", Peer: c.create.ID}
	if len(c.args) > 0 {
		if key, err = session.ParseKey(c.args[0]); err != nil {
			return usageError(err.Error())
		}
	}
	info, err := c.backend.create(ctx, key, c.create)
	return c.made(info, err)
}

func (c *call) made(info session.Info, err error) error {
	if err != nil {
		return err
	}
	return c.value(info, func() { c.say("%s", info.ID) })
}

func (c *call) describedAs(info session.Info, err error, as string) error {
	if err != nil {
		return err
	}
	return c.value(info, func() { c.say("%s is %s.", info.ID, as) })
}

func listSessions(ctx context.Context, c *call) error {
	infos, err := c.backend.List(ctx, &c.list)
	if err != nil {
		return err
	}
	if c.json {
		return c.value(append([]session.Info{}, infos...), nil)
	}
	if len(infos) == 0 {
		c.say("There are no such sessions. convolog session new makes one; --state any lists archived ones.")
		return c.failed
	}
	var rows [][]string
	for _, i := range infos {
		what := cmp.Or(i.Title, i.Key)
		if i.Parent.Session != "" {
			what = "(sub-agent) " + what
		}
		if i.State != session.Live {
			what = "(" + string(i.State) + ") " + what
		}
		if c.waits {
			what = "(waits for " + string(i.Waits) + ") " + what
		}
		if isAhead(i) {
			what = "(dated ahead) " + what
		}
		rows = append(rows, []string{short(i.ID), age(i.UpdatedAt, time.Now()), strconv.Itoa(i.Messages), what})
	}
	c.table("ID UPDATED MESSAGES TITLE", rows)
	return c.failed
}

// isAhead reports whether the time of a session is in the future. A wrong clock or an import
// can cause that.
func isAhead(i session.Info) bool { return time.Until(i.UpdatedAt) > time.Hour }

func stamp(t time.Time) string {
	if t.IsZero() {
		return "                "
	}
	return t.Local().Format("2006-01-02 15:04")
}

func getSession(ctx context.Context, c *call) error {
	d, err := c.backend.describe(ctx, c.ref)
	if err != nil {
		return err
	}
	return c.value(d, func() {
		i := d.Info
		rows := [][2]string{
			{"session", i.ID},
			{"agent", i.Agent},
			{"key", i.Key},
			{"title", i.Title},
			{"owner", i.Owner},
			{"parent", i.Parent.Session},
			{"labels", strings.Join(i.Labels, ", ")},
			{"state", cmp.Or(string(i.State), "live")},
			{"created", stamp(i.CreatedAt)},
			{"updated", stamp(i.UpdatedAt)},
			{"history", fmt.Sprintf("%s, %s, ~%s, %s", count(i.Turns, "turn"), count(i.Messages, "message"), count(i.Tokens, "token"), count(i.Size, "byte"))},
			{"compacted", count(d.Stats.Compressions, "time") + ", " + count(d.Stats.Commits, "commit")},
		}
		if d.Pending.Owed {
			rows = append(rows, [2]string{"pending", "the model owes an answer"})
		}
		for _, call := range d.Pending.Calls {
			rows = append(rows, [2]string{"pending", "a call without a result, " + strings.ReplaceAll(string(call.State), "_", " ") + ": " + call.Call.Name + " " + call.Call.ID})
		}
		c.rows(rows)
	})
}

// rows prints names and values, without empty values.
func (c *call) rows(rows [][2]string) {
	for _, row := range rows {
		if strings.TrimSpace(row[1]) != "" {
			c.print(c.paint(faint, fmt.Sprintf("%-10s", row[0])) + " " + cut(row[1], max(0, c.width()-11)) + "\n")
		}
	}
}

func deleteSession(ctx context.Context, c *call) error {
	if !c.now {
		if err := c.backend.move(ctx, c.ref, "trash"); err != nil {
			return err
		}
		return c.value(map[string]session.Ref{"trashed": c.ref}, func() {
			c.say("%s is in the trash. convolog session restore %s brings it back.", c.ref.ID, c.ref.ID)
		})
	}
	if err := c.confirm(ctx, "Delete "+c.ref.ID+" for good?", func() {}); err != nil {
		return err
	}
	if err := c.backend.Delete(ctx, c.ref); err != nil {
		return err
	}
	return c.value(map[string]session.Ref{"deleted": c.ref}, func() { c.say("%s is deleted.", c.ref.ID) })
}

func addMessage(ctx context.Context, c *call) error {
	role := transcript.Role(c.role)
	switch {
	case role != transcript.RoleUser && role != transcript.RoleAssistant:
		return wrong("--role is user or assistant, not %q", c.role)
	case c.content == "":
		return wrong("--content is missing: give a text, or - for the standard input")
	}
	text := c.content
	if text == "-" {
		data, err := io.ReadAll(c.input(ctx))
		if err != nil {
			return err
		}
		text = string(data)
	}
	switch {
	case text == "":
		return wrong("the standard input is empty")
	case !utf8.ValidString(text):
		return wrong("the text is not UTF-8, so a store cannot keep it unchanged")
	}
	added, err := c.backend.add(ctx, c.ref, role, text)
	if err != nil {
		return err
	}
	return c.value(added, func() { c.say("%s", strings.Join(added.IDs, "\n")) })
}

func commit(ctx context.Context, c *call) error {
	done, err := c.backend.commit(ctx, c.ref)
	if err != nil {
		return err
	}
	return c.value(done, func() {
		if done.Chapter == "" {
			c.say("No chapter was closed: %s.", done.Reason)
		} else {
			c.say("%s: %s. %s", done.Chapter, count(done.Messages, "message"), done.Abstract)
		}
		if done.Open > 0 {
			c.say("%s of an unfinished turn stay for the next commit.", count(done.Open, "message"))
		}
	})
}

func title(ctx context.Context, c *call) error {
	if len(c.args) == 1 {
		d, err := c.backend.describe(ctx, c.ref)
		if err != nil {
			return err
		}
		return c.value(d.Info, func() { c.say("%s", d.Info.Title) })
	}
	info, err := c.backend.title(ctx, c.ref, c.args[1])
	return c.describedAs(info, err, fmt.Sprintf("called %q", info.Title))
}

func hide(ctx context.Context, c *call) error {
	off := c.command.name == "session unhide"
	ids, err := c.backend.hide(ctx, c.ref, c.args[1:], off)
	if err != nil {
		return err
	}
	return c.value(append([]string{}, ids...), func() { c.say("Changed: %s.", cmp.Or(strings.Join(ids, ", "), "nothing")) })
}

func fork(ctx context.Context, c *call) error {
	entry := c.ref.ID // the header: the beginning of the session
	if len(c.args) > 1 {
		entry = c.args[1]
	} else {
		last, err := c.backend.page(ctx, c.ref, "", -1)
		if err != nil {
			return err
		}
		if len(last) > 0 {
			entry = last[0].ID
		}
	}
	info, err := c.backend.fork(ctx, c.ref, entry, c.create)
	return c.made(info, err)
}
