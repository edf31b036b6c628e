package sessiontest

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/session/driver"
)

const textDelete = "Delete removes the sessions that end at the cursor at, or all if at is negative."

var deleteRules = []Rule{
	{"delete/gone", textDelete, deleteGone},
	{"delete/next", "The current session of a key is then the one with the highest gen of those that remain.", deleteNext},
	{"delete/others", textDelete, deleteOthers},
	{"delete/twice", "A session that is named twice counts once.", deleteTwice},
	{"delete/anew", textDelete, deleteAnew},
	{"delete/replaced", "Other users of a session that was deleted and made anew get [ErrReplaced] once.", deleteReplaced},
	{"delete/at", "If at is not negative, a session that ends elsewhere gives an error that matches [ErrConflict], and one with a running turn [ErrBusy].", deleteAt},
}

func deleteGone(c *check) {
	d, other, ref := c.startShared()
	c.append(d, ref, c.triple("a")...)
	c.append(other, ref, c.triple("b")...)
	c.delete(d, ref)
	look := func(when string, d driver.Driver) {
		c.wantEach(sessionMethods, c.ctx, d, ref, "of a deleted session, "+when, fs.ErrNotExist)
		c.wantNoCurrent("of a key whose only session was deleted, "+when, d, "main", "k")
		if rows := c.list(d, "main"); len(rows) > 0 {
			c.errorf("List, %s, returns %d rows after the only session was deleted", when, len(rows))
		}
	}
	c.everywhere(d, other, look)
}

func deleteNext(c *check) {
	d, other := c.startTwo()
	var rows []driver.Row
	for range 4 {
		rows = append(rows, c.create(d, "main", "k"))
	}
	remove := func(i int, current string) {
		c.delete(d, rows[i].Ref())
		for _, d := range []driver.Driver{d, other} {
			c.wantCurrent("after Delete", d, "main", "k", current)
		}
	}
	remove(3, rows[2].ID) // the current one
	remove(1, rows[2].ID) // not the current one
	c.setCurrent(d, rows[0].Ref())
	remove(0, rows[2].ID) // one that was made current
	c.delete(other, rows[2].Ref())
	for _, d := range []driver.Driver{d, other} {
		c.wantNoCurrent("of a key whose sessions were deleted", d, "main", "k")
	}
	row, created := c.load(other, driver.KeyRef{Agent: "main", Key: "k"})
	c.errorIf(!created, "Load of a key whose sessions were deleted returns session %q", row.ID)
}

func deleteOthers(c *check) {
	d := c.start()
	gone := c.create(d, "main", "k")
	stay := []driver.Ref{
		c.create(d, "main", "k").Ref(),
		c.create(d, "main", "other key").Ref(),
		c.createID(d, "other", "k", gone.ID).Ref(),
	}
	for _, ref := range stay {
		c.append(d, ref, c.note(ref.ID))
	}
	before := make([][]string, len(stay))
	for i, ref := range stay {
		before[i] = c.ids(d, ref)
	}
	c.delete(d, gone.Ref())
	for i, ref := range stay {
		_, err := d.Get(c.ctx, ref)
		c.noErr("Get of a session after another one was deleted", err)
		c.wantIDs("a session after another one was deleted", c.ids(d, ref), before[i])
	}
}

func deleteTwice(c *check) {
	d := c.start()
	a, b := c.create(d, "main", "k").Ref(), c.create(d, "main", "k").Ref()
	c.calling("Delete")
	c.noErr("Delete of a session that is named twice", d.Delete(c.ctx, driver.Anywhere, a, b, a))
	if rows := c.list(d, "main"); len(rows) > 0 {
		c.errorf("List returns %d rows after all sessions were deleted", len(rows))
	}
}

func deleteAnew(c *check) {
	d, ref := c.startSession()
	c.append(d, ref, c.batch(someText)...)
	release, err := d.LockTurn(c.ctx, ref, false)
	if errors.Is(err, errors.ErrUnsupported) {
		release, err = func() error { return nil }, nil
	}
	c.noErr("LockTurn", err)
	c.delete(d, ref)
	c.noErr("release of the turn lock of a deleted session", release())
	row := c.createID(d, "main", "k", ref.ID)
	c.wantIDs("a session whose ID a deleted one had", c.ids(d, ref), []string{ref.ID})
	lines := c.batch(someText)
	c.append(d, ref, lines...)
	c.wantIDs("a session whose ID a deleted one had", c.ids(d, ref), []string{ref.ID, lines[0].ID})
	c.wantCurrent("after Delete and Create of one ID", d, "main", "k", row.ID)
}

func deleteReplaced(c *check) {
	d, other := c.startTwo()
	for what, use := range map[string]func(ref driver.Ref, end driver.Cursor) error{
		"Append": func(ref driver.Ref, end driver.Cursor) error {
			_, err := other.Append(c.ctx, ref, c.notes(1), end, nil)
			return err
		},
		"Scan": func(ref driver.Ref, end driver.Cursor) error {
			for _, err := range other.Scan(c.ctx, ref, end, driver.Forward, nil) {
				return err
			}
			return nil
		},
	} {
		ref := c.create(d, "main", "k").Ref()
		end := c.append(other, ref, c.batch(someText)...).End
		c.delete(d, ref)
		c.createID(d, "main", "k", ref.ID)
		made := c.batch(someText)
		c.append(d, ref, made...)
		c.wantErr(what+" with a cursor of a deleted session", use(ref, end), driver.ErrReplaced)
		c.wantIDs("a session that was made anew", c.ids(other, ref), append([]string{ref.ID}, made[0].ID))
	}
}

func deleteAt(c *check) {
	d, other := c.startTwo()
	ref, shorter, longer := c.create(d, "main", "k").Ref(), c.create(d, "main", "k").Ref(), c.create(d, "main", "k").Ref()
	planned := c.append(other, ref, c.triple("a")...).End
	for _, id := range []string{"b", "c", "e"} {
		c.append(d, longer, c.triple(id)...)
	}
	end := c.append(d, ref, c.triple("d")...).End
	c.calling("Delete")
	c.wantErr("Delete of a session that was appended to since", other.Delete(c.ctx, planned, ref), driver.ErrConflict)
	release, err := other.LockTurn(c.ctx, ref, false)
	if !errors.Is(err, errors.ErrUnsupported) {
		c.noErr("LockTurn", err)
		c.wantErr("Delete at a place during a turn", d.Delete(c.ctx, end, ref), driver.ErrBusy)
		c.noErr("release", release())
	}
	c.wantErr("Delete of sessions that end elsewhere", d.Delete(c.ctx, end, shorter, ref, longer), driver.ErrConflict)
	want := []string{shorter.ID, longer.ID}
	slices.Sort(want)
	look := func(when string, d driver.Driver) {
		if ids := rowIDs(c.list(d, "main")); !slices.Equal(ids, want) {
			c.errorf("List %s: %v, want %v", when, ids, want)
		}
		c.wantCurrent(when, d, "main", "k", longer.ID)
	}
	look("after Delete at a place", d)
	look("after Delete at a place, other driver", other)
	look("opened again", c.restart())
}
