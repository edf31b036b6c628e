package sessiontest

import (
	"errors"
	"io/fs"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var archiveRules = []rule{
	{"archive/read", "For an archived session Get, List and Scan answer as before, with the same cursors. ... Restore is the reverse of Archive: every byte of every line is as it was.", archiveRead},
	{"archive/write", "Append, SetCurrent, Put and LockTurn fail with [ErrArchived]. ... Delete removes it. ... An archived session gives [ErrArchived].", archiveWrite},
	{"archive/current", "It is never the current session of its key", archiveCurrent},
	{"archive/at", "If it ends elsewhere, or is appended to again and again, the error matches [ErrConflict]; if a turn is running, it matches [ErrBusy].", archiveAt},
	{"archive/concurrent", "At every moment, and after a crash, the session is there once, archived or not.", archiveConcurrent},
	{"rewrite/lines", "Rewrite replaces all lines of a session by the lines that change writes ... all users of the session, the caller included, get [ErrReplaced] once. ... A row with a lower Rev that is put later does not count.", rewriteLines},
	{"rewrite/fails", "If it fails, its error is returned and nothing has changed.", rewriteFails},
}

// rewriter returns the driver as a [driver.Rewriter], or skips the rule.
func (c *check) rewriter(d driver.Driver) driver.Rewriter {
	r, ok := d.(driver.Rewriter)
	if !ok {
		c.skip(errors.ErrUnsupported)
	}
	return r
}

// archive archives a session, and changes the expected state.
func (c *check) archive(d driver.Driver, ref driver.Ref, want state) {
	c.calling("Archive")
	c.noErr("Archive", c.rewriter(d).Archive(c.ctx, ref, driver.Anywhere))
	want[ref].row.Archived = true
}

// restore restores a session, lets drivers notice that, and changes the expected state.
func (c *check) restore(d driver.Driver, ref driver.Ref, want state, others ...driver.Driver) {
	c.calling("Restore")
	c.noErr("Restore", c.rewriter(d).Restore(c.ctx, ref))
	for _, d := range others {
		c.scanAfterRestore(d, ref)
	}
	want[ref].row.Archived = false
}

func (c *check) scanAfterRestore(d driver.Driver, ref driver.Ref) {
	err := firstError(c.ctx, d, ref, 0, driver.Forward)
	if err != nil && (!errors.Is(err, driver.ErrReplaced) || errors.Is(err, fs.ErrNotExist)) {
		c.errorf("Scan after Restore: unexpected error %v", err)
	}
}

func archiveRead(c *check) {
	d, other := c.startTwo()
	c.rewriter(d)
	row := c.create(d, keyK)
	ref := row.Ref()
	for range 3 {
		for range 100 {
			c.append(d, ref, c.triple("a")...)
		}
		row.Size, row.Title = int64(c.end(d, ref)), "a title"
		c.put(d, row)
		want := c.state(d)
		c.archive(d, ref, want)
		c.archive(other, ref, want) // again does nothing
		d = c.everywhere("while archived", want, d, other)
		half := want[ref].at[450]
		for _, dir := range directions {
			recs := c.scan(d, ref, driver.Cursor(half), dir)
			c.errorIf(len(recs) != len(want[ref].text)-225, "a scan of an archived session, from the middle on, yields %d lines of %d", len(recs), len(want[ref].text))
		}
		c.noErr("Flush of an archived session", d.Flush(c.ctx, ref, false))
		other = d
		if c.storage.Shared {
			other = c.start()
		}
		c.restore(other, ref, want, d)
		c.restore(d, ref, want, other) // again does nothing
		d = c.everywhere("after Restore", want, d, other)
		other = d
	}
	missing := driver.Ref{Agent: "main", ID: "missing"}
	c.wantErr("Restore of a session that is not there", c.rewriter(d).Restore(c.ctx, missing), fs.ErrNotExist)
	c.wantErr("Archive of a session that is not there", c.rewriter(d).Archive(c.ctx, missing, driver.Anywhere), fs.ErrNotExist)
}

func archiveWrite(c *check) {
	d, other, ref := c.startSession()
	c.rewriter(d)
	c.append(other, ref, c.triple("a")...)
	stays := c.create(d, keyK)
	want := c.state(d)
	c.archive(d, ref, want)
	refuse := func(d driver.Driver) {
		for _, m := range writeMethods {
			c.calling(m.name)
			if err := m.call(call{c, c.ctx, d, ref}); !errors.Is(err, errors.ErrUnsupported) {
				c.wantErr(m.name+" of an archived session", err, driver.ErrArchived)
				c.errorIf(errors.Is(err, fs.ErrNotExist), "%s of an archived session: the error %v says that it is not there", m.name, err)
			}
		}
		_, err := c.make(d, keyK, ref.ID, nil)
		c.wantErr("Create with the ID of an archived session", err, fs.ErrExist)
		c.wantErr("Rewrite of an archived session", c.rewriter(d).Rewrite(c.ctx, ref, without()), driver.ErrArchived)
	}
	refuse(d)
	refuse(other)
	d = c.everywhere("after calls that failed", want, d, other)
	refuse(d)
	c.delete(d, ref)
	delete(want, ref)
	d = c.everywhere("after Delete of an archived session", want, d, d)
	c.wantEach(sessionMethods, c.ctx, d, ref, "of a deleted session that was archived", fs.ErrNotExist)
	c.wantIDs("List", []string{c.list(d, "main")[0].ID}, []string{stays.ID})
}

func archiveCurrent(c *check) {
	d, other := c.startTwo()
	c.rewriter(d)
	a, b, want := c.create(d, keyK), c.create(d, keyK), state{}
	want.create(a)
	want.create(b)
	for _, row := range []driver.Row{b, a} {
		c.archive(d, row.Ref(), want)
		c.wantState("after Archive", want, d, other)
		d, other = other, d
	}
	n, created := c.load(d, keyK)
	c.errorIf(!created || n.Gen <= b.Gen, "Load of a key whose sessions are archived: session %s, gen %d, want a new one above %d", n.ID, n.Gen, b.Gen)
	want.create(n)
	c.restore(other, b.Ref(), want, d, other)
	d = c.everywhere("after Restore of an older session", want, d, other)
	c.delete(d, n.Ref())
	delete(want, n.Ref())
	c.wantState("after Delete of the newest", want, d)
}

func archiveAt(c *check) {
	d, other, ref := c.startSession()
	planned := c.append(other, ref, c.triple("a")...).End
	end := c.append(d, ref, c.triple("b")...).End
	a, want := c.rewriter(d), c.state(d)
	c.calling("Archive")
	c.wantErr("Archive of a session that was appended to since", a.Archive(c.ctx, ref, planned), driver.ErrConflict)
	release, err := other.LockTurn(c.ctx, ref, false)
	if !errors.Is(err, errors.ErrUnsupported) {
		c.noErr("LockTurn", err)
		c.wantErr("Archive during a turn", a.Archive(c.ctx, ref, driver.Anywhere), driver.ErrBusy)
		c.noErr("release", release())
	}
	c.wantState("after an Archive that failed", want, d, other)
	c.append(other, ref, c.triple("c")...)
	c.wantErr("Archive of a session that was appended to since", a.Archive(c.ctx, ref, end), driver.ErrConflict)
	end = c.end(d, ref)
	c.noErr("Archive at the end", a.Archive(c.ctx, ref, end))
	c.noErr("Archive of an archived session", a.Archive(c.ctx, ref, planned))
	c.wantErr("Delete of an archived session that ends elsewhere", other.Delete(c.ctx, planned, ref), driver.ErrConflict)
	c.noErr("Delete of an archived session that is named twice", other.Delete(c.ctx, end, ref, ref))
	c.wantState("after Delete", state{}, d, other)
}

func archiveConcurrent(c *check) {
	d, other, ref := c.startSession()
	want := c.state(d)
	c.archive(d, ref, want)
	c.restore(d, ref, want, d, other)
	const each = 10
	var acked [3][]string
	var left, done atomic.Int32
	left.Store(int32(len(acked)))
	c.together(len(acked)+2, d, other, func(i int, d driver.Driver) {
		switch i - len(acked) {
		case 0: // archives and restores until all is written
			for a := c.rewriter(d); left.Load() > 0; {
				if err := a.Archive(c.ctx, ref, driver.Anywhere); err != nil && !errors.Is(err, driver.ErrBusy) && !errors.Is(err, driver.ErrConflict) {
					c.errorf("Archive: unexpected error %v", err)
				}
				c.noErr("Restore", a.Restore(c.ctx, ref))
				for before := done.Load(); done.Load() == before && left.Load() > 0 && c.ctx.Err() == nil; {
					time.Sleep(50 * time.Microsecond) // until the next append
				}
			}
			return
		case 1:
			for left.Load() > 0 {
				c.scanAfterRestore(d, ref)
			}
			return
		}
		defer left.Add(-1)
		for len(acked[i]) < each && c.ctx.Err() == nil {
			line := c.note("x")
			_, err := d.Append(c.ctx, ref, []driver.Line{line}, driver.Anywhere, nil)
			switch {
			case err == nil:
				acked[i] = append(acked[i], line.ID)
				done.Add(1)
			case errors.Is(err, fs.ErrNotExist), !errors.Is(err, driver.ErrArchived) && !errors.Is(err, driver.ErrReplaced):
				c.fatalf("Append: unexpected error %v", err)
			}
		}
	})
	c.noErr("Restore", c.rewriter(d).Restore(c.ctx, ref))
	got := c.ids(c.restart(), ref)[1:]
	c.wantIDs("a session that was archived and restored under appends", slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(slices.Concat(acked[:]...))))
}

// without returns a change that leaves out the entries with these IDs.
func without(ids ...string) func(iter.Seq2[transcript.Record, error], func([]byte) error) error {
	return func(records iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		for rec, err := range records {
			if err != nil {
				return err
			}
			l := driver.Line{ID: rec.Entry.ID, Data: rec.Entry.Line()}
			if h, ok := rec.Entry.Body.(transcript.Header); ok {
				h.Rev++
				l = line(l.ID, h)
			}
			if slices.Contains(ids, l.ID) {
				continue
			}
			if err := write(l.Data); err != nil {
				return err
			}
		}
		return nil
	}
}

func rewriteLines(c *check) {
	d, other := c.startTwo()
	r := c.rewriter(d)
	row := c.create(d, ownKey("ada"))
	ref, lines, late := row.Ref(), c.notes(5), c.note("late")
	c.append(other, ref, lines...)
	c.create(d, ownKey("bert"), c.notes(1)...)
	old := row
	old.Title, old.Size = "an old title", int64(c.end(d, ref))
	c.put(d, old)
	want := c.state(other)
	delete(want, ref)
	c.noErr("Rewrite", r.Rewrite(c.ctx, ref, without(lines[1].ID, lines[4].ID)))
	_, err := c.tryAppend(other, ref, driver.Anywhere, nil, late)
	c.wantErr("the first Append of another user after Rewrite", err, driver.ErrReplaced)
	c.append(other, ref, late)
	if other != d {
		c.wantErr("the first Scan of the caller of Rewrite", firstError(c.ctx, d, ref, 0, driver.Forward), driver.ErrReplaced)
	}
	look := func(when string, ds ...driver.Driver) {
		for _, d := range ds {
			s := c.state(d)
			got := *s[ref]
			c.errorIf(got.row.Rev != 1 || got.row.Title != "", "%s the row is %s, want rev 1 and no title", when, rowText(got.row))
			c.wantRow(when, driver.Row{Gen: got.row.Gen, Owner: got.row.Owner, Key: got.row.Key}, driver.Row{Gen: row.Gen, Owner: row.Owner, Key: row.Key})
			c.wantIDs(when, c.ids(d, ref), []string{row.ID, lines[0].ID, lines[2].ID, lines[3].ID, late.ID})
			want[ref] = &got
			c.wantState(when, want, d)
		}
	}
	look("after Rewrite", d, other)
	_ = d.Put(c.ctx, old) // a driver may fail here
	look("after an old row was put", d, other)
	look("opened again", c.restart())
}

func rewriteFails(c *check) {
	d, other, ref := c.startSession()
	r := c.rewriter(d)
	c.append(d, ref, c.notes(3)...)
	want, refused := c.state(d), errors.New("refused by the caller")
	c.calling("Rewrite")
	err := r.Rewrite(c.ctx, ref, func(_ iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		if err := write([]byte(`{"type":"custom","id":"x"}`)); err != nil {
			return err
		}
		return refused
	})
	c.wantErr("Rewrite whose change fails", err, refused)
	c.wantState("after a Rewrite that failed", want, d, other)
	l := c.note("later")
	c.append(d, ref, l)
	want.append(ref, l)
	c.everywhere("after a Rewrite that failed, and an append", want, d, other)
}
