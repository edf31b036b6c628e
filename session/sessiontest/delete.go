package sessiontest

import (
	"errors"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
)

var deleteRules = []rule{
	{"delete/gone", "Delete removes the sessions that end at the cursor at, or all if at is negative. ... The current session of a key is then the one with the highest gen of those that remain. ... A session that is named twice counts once.", deleteGone},
	{"delete/anew", "When the error is nil, no stored word of the deleted sessions remains anywhere in the storage. ... Other users of a session that was deleted and made anew get [ErrReplaced] once.", deleteAnew},
	{"delete/at", "If at is not negative, a session that ends elsewhere gives an error that matches [ErrConflict], and one with a running turn [ErrBusy].", deleteAt},
}

func deleteGone(c *check) {
	d, other := c.startTwo()
	var rows []driver.Row
	for _, key := range []driver.KeyRef{keyK, keyK, keyK, keyK, keyOther, ownKey("ada"), {Agent: "last", Key: "k"}} {
		row := c.create(d, key)
		c.append(d, row.Ref(), c.triple("a")...)
		c.append(other, row.Ref(), c.note("b"))
		rows = append(rows, row)
	}
	namesake, err := c.make(d, driver.KeyRef{Agent: "other", Key: "k"}, rows[1].ID, nil)
	c.noErr("Create", err)
	c.append(d, namesake.Ref(), c.triple("a")...)
	want := c.state(d)
	gone := func(d driver.Driver, refs ...driver.Ref) {
		c.delete(d, refs...)
		for _, ref := range refs {
			delete(want, ref)
		}
		c.wantState("after Delete", want, d, other)
		for _, d := range []driver.Driver{d, other} {
			c.wantEach(sessionMethods, c.ctx, d, refs[0], "of a deleted session", fs.ErrNotExist)
		}
	}
	gone(d, rows[3].Ref()) // the current one
	gone(d, rows[1].Ref()) // not the current one
	row, l := c.setCurrent(d, rows[0].Ref())
	want.current(row, l)
	gone(other, rows[0].Ref(), rows[6].Ref(), rows[0].Ref()) // was made current
	d = c.everywhere("after Delete", want, d, other)
	other = d
	gone(d, rows[2].Ref())
	gone(d, rows[4].Ref(), rows[5].Ref())
	for _, row := range rows {
		c.wantNoCurrent("of a key whose sessions were deleted", d, row.KeyRef())
	}
	row, created := c.load(other, keyK)
	c.errorIf(!created, "Load of a key whose sessions were deleted returns session %q", row.ID)
}

func deleteAnew(c *check) {
	for _, use := range []func(m call, end driver.Cursor) error{
		func(m call, end driver.Cursor) error { return m.append(end, nil) },
		func(m call, end driver.Cursor) error { return firstError(m.ctx, m.d, m.ref, end, driver.Forward) },
	} {
		c.closeAll()
		d, other, ref := c.startSession()
		end := c.append(other, ref, c.users("some text")...).End
		release, err := d.LockTurn(c.ctx, ref, false)
		if errors.Is(err, errors.ErrUnsupported) {
			release, err = func() error { return nil }, nil
		}
		c.noErr("LockTurn", err)
		c.delete(d, ref)
		c.noErr("release of the turn lock of a deleted session", release())
		row, err := c.make(d, keyK, ref.ID, nil)
		c.noErr("Create with the ID of a deleted session", err)
		want, lines := state{}, c.users("some text")
		want.create(row)
		c.wantState("after Delete and Create of one ID", want, d)
		c.append(d, ref, lines...)
		want.append(ref, lines...)
		c.wantErr("a call with a cursor of a deleted session", use(call{c, c.ctx, other, ref}, end), driver.ErrReplaced)
		d = c.everywhere("after Delete and Create of one ID", want, d, other)
		c.delete(d, ref)
	}
}

func deleteAt(c *check) {
	d, other, ref := c.startSession()
	shorter, longer := c.create(d, keyK), c.create(d, keyK)
	planned := c.append(other, ref, c.triple("a")...).End
	for range 3 {
		c.append(d, longer.Ref(), c.triple("b")...)
	}
	end := c.append(d, ref, c.triple("c")...).End
	want := c.state(d)
	c.calling("Delete")
	c.wantErr("Delete of a session that was appended to since", other.Delete(c.ctx, planned, ref), driver.ErrConflict)
	release, err := other.LockTurn(c.ctx, ref, false)
	if !errors.Is(err, errors.ErrUnsupported) {
		c.noErr("LockTurn", err)
		c.wantErr("Delete at a place during a turn", d.Delete(c.ctx, end, ref), driver.ErrBusy)
		c.noErr("release", release())
	}
	c.wantState("after a Delete that failed", want, d, other)
	c.wantErr("Delete of sessions that end elsewhere", d.Delete(c.ctx, end, shorter.Ref(), ref, longer.Ref()), driver.ErrConflict)
	delete(want, ref)
	c.everywhere("after Delete at a place", want, d, other)
}
