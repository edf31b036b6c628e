package sessiontest

import (
	"errors"
	"iter"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var rewriteRules = []Rule{
	{"rewrite/lines", "Rewrite replaces all lines of a session by the lines that change writes", rewriteLines},
	{"rewrite/fails", "If it fails, its error is returned and nothing has changed.", rewriteFails},
	{"rewrite/replaced", "all users of the session, the caller included, get [ErrReplaced] once.", rewriteReplaced},
	{"rewrite/row", "A row with a lower Rev that is put later does not count.", rewriteRow},
	{"create/base", "Otherwise Create fails with [ErrReplaced].", createBase},
}

// rewriter returns the driver as a [driver.Rewriter], or skips the rule.
func (c *check) rewriter(d driver.Driver) driver.Rewriter {
	r, ok := d.(driver.Rewriter)
	if !ok {
		c.skip(errors.ErrUnsupported)
	}
	return r
}

// without returns a change that leaves out the entries with these IDs.
func without(ids ...string) func(iter.Seq2[transcript.Record, error], func([]byte) error) error {
	return func(records iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		for rec, err := range records {
			if err != nil {
				return err
			}
			e := rec.Entry
			if h, ok := e.Body.(transcript.Header); ok {
				h.Rev++
				e = transcript.Entry{ID: e.ID, Time: e.Time, Body: h}
			}
			if slices.Contains(ids, e.ID) {
				continue
			}
			if err := write(e.Line()); err != nil {
				return err
			}
		}
		return nil
	}
}

func rewriteLines(c *check) {
	d := c.start()
	r := c.rewriter(d)
	row := c.createOwn(d, "ada")
	other := c.createOwn(d, "bert")
	lines := c.notes(5)
	c.append(d, row.Ref(), lines...)
	c.append(d, other.Ref(), c.notes(1)...)
	before := c.ids(d, other.Ref())
	c.noErr("Rewrite", r.Rewrite(c.ctx, row.Ref(), without(lines[1].ID, lines[4].ID)))
	d = c.restart()
	c.wantIDs("a session after Rewrite", c.ids(d, row.Ref()), []string{row.ID, lines[0].ID, lines[2].ID, lines[3].ID})
	c.wantIDs("another session", c.ids(d, other.Ref()), before)
	got := c.get(d, row.Ref())
	if got.Rev != 1 || got.KeyRef() != ownKey("ada") || got.Gen != row.Gen {
		c.errorf("the row after Rewrite is %+v, want rev 1, key %q and gen %d", got, ownKey("ada"), row.Gen)
	}
	c.wantOwn("after Rewrite", d, map[string]string{"ada": row.ID, "bert": other.ID})
	more := c.note("more")
	c.append(d, row.Ref(), more)
	c.wantIDs("a session after Rewrite and an append", c.ids(d, row.Ref()), []string{row.ID, lines[0].ID, lines[2].ID, lines[3].ID, more.ID})
}

func rewriteFails(c *check) {
	d := c.start()
	r := c.rewriter(d)
	ref := c.create(d, "main", "k").Ref()
	c.append(d, ref, c.notes(3)...)
	before, rows := c.ids(d, ref), c.list(d, "main")
	refused := errors.New("refused by the caller")
	c.calling("Rewrite")
	err := r.Rewrite(c.ctx, ref, func(_ iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		if err := write([]byte(`{"type":"custom","id":"x"}`)); err != nil {
			return err
		}
		return refused
	})
	c.wantErr("Rewrite whose change fails", err, refused)
	c.wantIDs("a session after a Rewrite that failed", c.ids(d, ref), before)
	c.wantRows("after a Rewrite that failed", c.list(d, "main"), rows)
	c.append(d, ref, c.note("goes on"))
}

func rewriteReplaced(c *check) {
	d := c.start()
	r := c.rewriter(d)
	other := c.second(d)
	ref := c.create(d, "main", "k").Ref()
	lines := c.notes(3)
	c.append(other, ref, lines...)
	c.noErr("Rewrite", r.Rewrite(c.ctx, ref, without(lines[0].ID)))
	late := c.note("late")
	_, err := other.Append(c.ctx, ref, []driver.Line{late}, driver.Anywhere, nil)
	c.wantErr("the first Append of another user after Rewrite", err, driver.ErrReplaced)
	_, err = other.Append(c.ctx, ref, []driver.Line{late}, driver.Anywhere, nil)
	c.noErr("the second Append of another user after Rewrite", err)
	c.wantIDs("a session after both", c.ids(other, ref), []string{ref.ID, lines[1].ID, lines[2].ID, late.ID})
}

func rewriteRow(c *check) {
	d := c.start()
	r := c.rewriter(d)
	row := c.create(d, "main", "k")
	lines := c.notes(2)
	end := c.append(d, row.Ref(), lines...).End
	old := row
	old.Title, old.Size = "an old title", int64(end)
	c.put(d, old)
	c.noErr("Rewrite", r.Rewrite(c.ctx, row.Ref(), without(lines[1].ID)))
	look := func(when string) {
		for _, got := range c.list(d, "main") {
			c.errorIf(got.Title != "", "the title of the row is %q, %s", got.Title, when)
		}
	}
	look("after Rewrite")
	_ = d.Put(c.ctx, old) // a driver may fail here
	look("after an old row was put")
	d = c.restart()
	look("opened again")
}

func createBase(c *check) {
	d := c.start()
	r := c.rewriter(d)
	other := c.second(d)
	base := c.create(d, "main", "k")
	lines := c.notes(2)
	c.append(d, base.Ref(), lines...)
	fork := func(d driver.Driver, rev int) (driver.Row, error) {
		id := c.id()
		c.calling("Create with a base")
		return d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, func(gen int64) (driver.Row, driver.Line) {
			row, line := header("main", "k", id)(gen)
			row.Base, row.BaseRev = transcript.Link{Agent: "main", Session: base.ID}, new(rev)
			return row, line
		})
	}
	made, err := fork(other, 0)
	c.noErr("Create with a base", err)
	c.errorIf(made.BaseRev != nil, "the row that Create returns has a BaseRev")
	_, err = fork(d, 1)
	c.wantErr("Create with a rev that the base does not have", err, driver.ErrReplaced)
	c.noErr("Rewrite", r.Rewrite(c.ctx, base.Ref(), without(lines[0].ID)))
	for _, d := range []driver.Driver{d, other} {
		_, err = fork(d, 0)
		c.wantErr("Create with the rev from before a Rewrite", err, driver.ErrReplaced)
	}
	again, err := fork(other, 1)
	c.noErr("Create with the rev of the base", err)
	c.delete(d, base.Ref())
	_, err = fork(other, 1)
	c.wantErr("Create with a base that is deleted", err, driver.ErrReplaced)
	c.wantIDs("List", rowIDs(c.list(d, "main")), []string{made.ID, again.ID})
}
