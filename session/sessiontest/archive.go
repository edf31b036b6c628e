package sessiontest

import (
	"errors"
	"io/fs"
	"slices"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session/driver"
)

var archiveRules = []Rule{
	{"archive/read", "For an archived session Get, List and Scan answer as before, with the same cursors.", archiveRead},
	{"archive/write", "Append, SetCurrent, Put and LockTurn fail with [ErrArchived].", archiveWrite},
	{"archive/current", "It is never the current session of its key", archiveCurrent},
	{"archive/restore", "Restore is the reverse of Archive: every byte of every line is as it was.", archiveRestore},
	{"archive/delete", "Delete removes it.", archiveDelete},
	{"archive/at", "If it ends elsewhere, or is appended to again and again, the error matches [ErrConflict]", archiveAt},
	{"archive/turn", "if a turn is running, it matches [ErrBusy]", archiveTurn},
	{"archive/concurrent", "At every moment, and after a crash, the session is there once, archived or not.", archiveConcurrent},
}

func (c *check) archive(d driver.Driver, ref driver.Ref) {
	a := c.rewriter(d)
	c.calling("Archive")
	c.noErr("Archive", a.Archive(c.ctx, ref, driver.Anywhere))
}

// restore restores a session, and lets drivers notice that.
func (c *check) restore(d driver.Driver, ref driver.Ref, others ...driver.Driver) {
	a := c.rewriter(d)
	c.calling("Restore")
	c.noErr("Restore", a.Restore(c.ctx, ref))
	for _, d := range others {
		err := firstError(c.ctx, d, ref, driver.Forward)
		if err != nil && (!errors.Is(err, driver.ErrReplaced) || errors.Is(err, fs.ErrNotExist)) {
			c.errorf("Scan after Restore: unexpected error %v", err)
		}
	}
}

// lines holds the lines of a session as they were written, with their places.
type lines struct {
	at   []int64
	text []string
}

func (c *check) lines(d driver.Driver, ref driver.Ref, from driver.Cursor, dir driver.Direction) (l lines) {
	for _, rec := range c.scan(d, ref, from, dir) {
		l.at, l.text = append(l.at, rec.Offset, rec.End), append(l.text, string(rec.Entry.Line()))
	}
	return l
}

func (c *check) wantLines(what string, got, want lines) {
	if !slices.Equal(got.at, want.at) || !slices.Equal(got.text, want.text) {
		c.errorf("%s: %d lines that are not the %d that were appended, or at other places", what, len(got.text), len(want.text))
	}
}

func archiveRead(c *check) {
	d, other := c.startTwo()
	row := c.create(d, "main", "k")
	ref := row.Ref()
	for range 300 {
		c.append(d, ref, c.triple(c.id())...)
	}
	half := c.scan(d, ref, 0, driver.Forward)[450].Offset
	end := c.settle(d, ref)
	row.Size, row.Title = int64(end), "a title"
	c.put(d, row)
	type reading struct {
		from driver.Cursor
		dir  driver.Direction
	}
	readings := []reading{{0, driver.Forward}, {0, driver.Backward}, {driver.Cursor(half), driver.Forward}, {driver.Cursor(half), driver.Backward}, {end, driver.Forward}}
	var before []lines
	for _, r := range readings {
		before = append(before, c.lines(d, ref, r.from, r.dir))
	}
	c.archive(d, ref)
	c.archive(other, ref) // again does nothing
	row.Archived = true
	look := func(when string, d driver.Driver) {
		for i, r := range readings {
			c.wantLines("Scan of an archived session, "+when, c.lines(d, ref, r.from, r.dir), before[i])
		}
		got, err := d.Get(c.ctx, ref)
		c.noErr("Get of an archived session", err)
		c.wantRow("Get of an archived session, "+when, got, row)
		c.wantRows("List with an archived session, "+when, c.list(d, "main"), []driver.Row{row})
		c.noErr("Flush of an archived session", d.Flush(c.ctx, ref, false))
		c.wantAgents("with an archived session alone, "+when, d, []string{"main"})
	}
	c.everywhere(d, other, look)
}

func archiveWrite(c *check) {
	d, other := c.startTwo()
	row := c.create(d, "main", "k")
	ref := row.Ref()
	c.append(other, ref, c.triple("a")...)
	before := c.lines(d, ref, 0, driver.Forward)
	c.archive(d, ref)
	fails := []string{"Append", "Append with a condition", "SetCurrent", "Put", "LockTurn without waiting", "LockTurn"}
	look := func(when string, d driver.Driver) {
		for _, m := range sessionMethods {
			if !slices.Contains(fails, m.name) {
				continue
			}
			c.calling(m.name)
			err := m.call(call{c, c.ctx, d, ref})
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			c.wantErr(m.name+" of an archived session, "+when, err, driver.ErrArchived)
			if errors.Is(err, fs.ErrNotExist) {
				c.errorf("%s of an archived session, %s: the error %v says that it is not there", m.name, when, err)
			}
		}
		_, err := d.Create(c.ctx, driver.KeyRef{Agent: "main", Key: "k"}, header("main", "k", ref.ID))
		c.wantErr("Create with the ID of an archived session, "+when, err, fs.ErrExist)
		c.wantLines("an archived session, "+when, c.lines(d, ref, 0, driver.Forward), before)
	}
	c.everywhere(d, other, look)
}

func archiveCurrent(c *check) {
	d, other := c.startTwo()
	a, b := c.create(d, "main", "k"), c.create(d, "main", "k")
	c.archive(d, b.Ref())
	look := func(when string, d driver.Driver, id string) {
		c.wantCurrent(when, d, "main", "k", id)
		for _, row := range c.list(d, "main") {
			c.errorIf(row.Current != (row.ID == id), "List %s: session %s has Current %v", when, row.ID, row.Current)
		}
	}
	look("while the newest is archived", d, a.ID)
	look("while the newest is archived, other driver", other, a.ID)
	c.archive(other, a.Ref())
	for _, d := range []driver.Driver{d, other} {
		c.wantNoCurrent("of a key whose sessions are archived", d, "main", "k")
	}
	n, created := c.load(d, driver.KeyRef{Agent: "main", Key: "k"})
	if !created || n.Gen <= b.Gen {
		c.errorf("Load of a key whose sessions are archived: session %s, gen %d, want a new one above %d", n.ID, n.Gen, b.Gen)
	}
	c.restore(other, b.Ref())
	look("after an older one was restored", d, n.ID)
	look("after an older one was restored, other driver", other, n.ID)
	d = c.restart()
	look("opened again", d, n.ID)
	c.delete(d, n.Ref())
	look("after Delete of the newest", d, b.ID)
}

func archiveRestore(c *check) {
	d, other := c.startTwo()
	row := c.create(d, "main", "k")
	ref := row.Ref()
	c.append(d, ref, c.batch(someText)...)
	for range 5 {
		before := c.lines(d, ref, 0, driver.Forward)
		c.archive(d, ref)
		c.restore(other, ref, d)
		c.restore(d, ref, other) // again does nothing
		c.wantLines("a session that was restored", c.lines(d, ref, 0, driver.Forward), before)
		c.wantLines("a session that was restored, other driver", c.lines(other, ref, 0, driver.Forward), before)
		c.wantCurrent("after Restore", other, "main", "k", ref.ID)
		got := c.get(other, ref)
		c.errorIf(got.Archived, "Get after Restore: the row says that the session is archived")
		c.append(d, ref, c.triple(c.id())...)
	}
	err := c.rewriter(d).Restore(c.ctx, driver.Ref{Agent: "main", ID: "missing"})
	c.wantErr("Restore of a session that is not there", err, fs.ErrNotExist)
	err = c.rewriter(d).Archive(c.ctx, driver.Ref{Agent: "main", ID: "missing"}, driver.Anywhere)
	c.wantErr("Archive of a session that is not there", err, fs.ErrNotExist)
}

func archiveDelete(c *check) {
	d, other := c.startTwo()
	ref, stays := c.create(d, "main", "k").Ref(), c.create(d, "main", "k")
	c.archive(d, ref)
	c.delete(other, ref)
	look := func(when string, d driver.Driver) {
		c.wantEach(sessionMethods, c.ctx, d, ref, "of a deleted session that was archived, "+when, fs.ErrNotExist)
		if ids := rowIDs(c.list(d, "main")); !slices.Equal(ids, []string{stays.ID}) {
			c.errorf("List after an archived session was deleted, %s: %v", when, ids)
		}
	}
	c.everywhere(d, other, look)
}

func archiveAt(c *check) {
	d, other := c.startTwo()
	ref := c.create(d, "main", "k").Ref()
	planned := c.append(other, ref, c.triple("a")...).End
	end := c.append(d, ref, c.triple("b")...).End
	a := c.rewriter(d)
	c.calling("Archive")
	c.wantErr("Archive of a session that was appended to since", a.Archive(c.ctx, ref, planned), driver.ErrConflict)
	c.append(other, ref, c.triple("c")...)
	c.wantErr("Archive of a session that was appended to since", a.Archive(c.ctx, ref, end), driver.ErrConflict)
	c.noErr("Archive at the end", a.Archive(c.ctx, ref, c.settle(d, ref)))
	c.noErr("Archive of an archived session", a.Archive(c.ctx, ref, planned))
	c.wantErr("Delete of an archived session that ends elsewhere", other.Delete(c.ctx, planned, ref), driver.ErrConflict)
	c.noErr("Delete of an archived session", other.Delete(c.ctx, c.settle(other, ref), ref))
	_, err := d.Get(c.ctx, ref)
	c.wantErr("Get after Delete", err, fs.ErrNotExist)
}

func archiveTurn(c *check) {
	d, other, ref := c.startShared()
	release, err := other.LockTurn(c.ctx, ref, false)
	if errors.Is(err, errors.ErrUnsupported) {
		c.skip(err)
	}
	c.noErr("LockTurn", err)
	a := c.rewriter(d)
	c.calling("Archive")
	c.wantErr("Archive during a turn", a.Archive(c.ctx, ref, driver.Anywhere), driver.ErrBusy)
	c.noErr("release", release())
	c.archive(d, ref)
	c.restore(d, ref)
	release, err = d.LockTurn(c.ctx, ref, false)
	c.noErr("LockTurn after Restore", err)
	c.noErr("release", release())
}

func archiveConcurrent(c *check) {
	d, other, ref := c.startShared()
	c.archive(d, ref)
	c.restore(d, ref, d, other)
	const writers, each = 3, 10
	var left, done atomic.Int32
	left.Store(writers)
	acked := make([][]string, writers)
	c.together(writers+2, []driver.Driver{d, other}, func(i int, d driver.Driver) {
		for i == writers && left.Load() > 0 { // archives and restores until all is written
			a := c.rewriter(d)
			if err := a.Archive(c.ctx, ref, driver.Anywhere); err != nil && !errors.Is(err, driver.ErrBusy) && !errors.Is(err, driver.ErrConflict) {
				c.errorf("Archive: unexpected error %v", err)
			}
			c.noErr("Restore", a.Restore(c.ctx, ref))
			for before := done.Load(); done.Load() == before && left.Load() > 0 && c.ctx.Err() == nil; {
				time.Sleep(50 * time.Microsecond) // until the next append
			}
		}
		for i == writers+1 && left.Load() > 0 {
			for _, err := range d.Scan(c.ctx, ref, 0, driver.Forward, nil) {
				if err != nil && !errors.Is(err, driver.ErrReplaced) || errors.Is(err, fs.ErrNotExist) {
					c.errorf("Scan: unexpected error %v", err)
				}
			}
		}
		if i >= writers {
			return
		}
		defer left.Add(-1)
		for n := 0; n < each && c.ctx.Err() == nil; {
			line := c.note("x")
			_, err := d.Append(c.ctx, ref, []driver.Line{line}, driver.Anywhere, nil)
			switch {
			case err == nil:
				acked[i] = append(acked[i], line.ID)
				done.Add(1)
				n++
			case errors.Is(err, fs.ErrNotExist), !errors.Is(err, driver.ErrArchived) && !errors.Is(err, driver.ErrReplaced):
				c.fatalf("Append: unexpected error %v", err)
			}
		}
	})
	var all []string
	for _, ids := range acked {
		all = append(all, ids...)
	}
	c.restore(d, ref, d)
	got := c.ids(d, ref)[1:]
	slices.Sort(all)
	slices.Sort(got)
	c.wantIDs("a session that was archived and restored under appends", got, all)
}
