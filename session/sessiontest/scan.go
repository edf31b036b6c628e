package sessiontest

import (
	"bytes"
	"context"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var scanRules = []Rule{
	{"scan/direction", "Scan yields the records of a session in the given direction.", scanDirection},
	{"scan/cursor", "Forward it starts at the cursor from, backward it ends there; 0 is the beginning.", scanCursor},
	{"cursor/order", "Of two cursors of one session the greater one is later", cursorOrder},
	{"scan/stable", "a line that was yielded never changes", scanStable},
	{"scan/prefix", "lines of an append that is not finished may be missing at the end", scanPrefix},
	{"scan/loop", "Records are read as the loop asks for them", scanLoop},
	{"scan/error", "The sequence ends after the first pair with an error.", scanError},
	{"scan/keep", "Records on lines that keep refuses are left out; nil keeps all.", scanKeep},
	{"scan/context", "The context is honoured until a write begins", scanContext},
}

// startFilled opens a driver, and makes a session of 31 lines.
func (c *check) startFilled() (driver.Driver, driver.Ref) {
	d, ref := c.startSession()
	for range 5 {
		c.append(d, ref, c.triple("a")...)
		for _, l := range c.notes(3) {
			c.append(d, ref, l)
		}
	}
	return d, ref
}

func scanDirection(c *check) {
	d, ref := c.startFilled()
	forward := c.scan(d, ref, 0, driver.Forward)
	backward := c.scan(d, ref, 0, driver.Backward)
	c.errorIf(len(forward) != 31, "a forward scan of a session of 31 lines yields %d", len(forward))
	slices.Reverse(backward)
	if !sameRecords(forward, backward) {
		c.errorf("forward a scan yields %s, backward the reverse of %s", brief(idsOf(forward)), brief(idsOf(backward)))
	}
}

func scanKeep(c *check) {
	d, ref := c.startFilled()
	all := c.scan(d, ref, 0, driver.Backward)
	for _, id := range []string{"", all[3].Entry.ID, all[20].Entry.ID, "no such line"} {
		var want, got []transcript.Record
		for _, rec := range all {
			if id == "" || rec.Entry.ID == id {
				want = append(want, rec)
			}
		}
		keep := func(_ driver.Cursor, lines []byte) bool { return bytes.Contains(lines, []byte(id)) }
		for rec, err := range d.Scan(c.ctx, ref, 0, driver.Backward, keep) {
			if err != nil {
				c.errorf("a Scan of a session that is there: %v", err)
				return
			}
			switch {
			case !keep(0, rec.Entry.Line()):
				c.errorf("a Scan yields the line %q that keep refuses", rec.Entry.ID)
			case id == "" || rec.Entry.ID == id: // other lines may name it
				got = append(got, rec)
			}
		}
		if !sameRecords(got, want) {
			c.errorf("of the lines with %q a Scan with Keep yields %s, want %s", id, brief(idsOf(got)), brief(idsOf(want)))
		}
	}
}

func scanCursor(c *check) {
	d, ref := c.startFilled()
	all := c.scan(d, ref, 0, driver.Forward)
	want := func(name string, from int64, want []transcript.Record) {
		got := c.scan(d, ref, driver.Cursor(from), driver.Forward)
		if !sameRecords(got, want) {
			c.errorf("forward from the %s (%d): lines %s, want %s", name, from, brief(idsOf(got)), brief(idsOf(want)))
		}
		got = c.scan(d, ref, driver.Cursor(from), driver.Backward)
		slices.Reverse(got)
		if !sameRecords(got, want) {
			c.errorf("backward to the %s (%d): the reverse of lines %s, want of %s", name, from, brief(idsOf(got)), brief(idsOf(want)))
		}
	}
	for i, rec := range all {
		want("Offset of a record", rec.Offset, all[i:])
		want("End of a record", rec.End, all[i+1:])
	}
	want("cursor at the end", int64(c.settle(d, ref)), nil)
}

func cursorOrder(c *check) {
	d, ref := c.startFilled()
	last := int64(0)
	for i, rec := range c.scan(d, ref, 0, driver.Forward) {
		if rec.Offset < last || rec.End <= rec.Offset {
			c.errorf("line %d lies at %d to %d, after one that ends at %d", i+1, rec.Offset, rec.End, last)
		}
		last = rec.End
	}
}

func scanStable(c *check) {
	d, ref := c.startFilled()
	before := c.scan(d, ref, 0, driver.Forward)
	texts := make([]string, len(before))
	for i, rec := range before {
		texts[i] = string(rec.Entry.Line())
	}
	look := func(after string, d driver.Driver) {
		now := c.scan(d, ref, 0, driver.Forward)
		if len(now) < len(before) || !sameRecords(now[:len(before)], before) {
			c.errorf("after %s the session begins with %s, and did with %s", after, brief(idsOf(now)), brief(idsOf(before)))
		}
		for i, rec := range before {
			if string(rec.Entry.Line()) != texts[i] {
				c.errorf("after %s line %d, yielded before it, reads %s, and did read %s", after, i+1, rec.Entry.Line(), texts[i])
			}
		}
	}
	c.append(d, ref, c.notes(1000)...)
	look("an append", d)
	row := c.setCurrent(d, ref)
	look("SetCurrent", d)
	row.Title = "title"
	c.put(d, row)
	look("Put", d)
	c.create(d, "main", "k")
	look("Create", d)
	look("opening the storage again", c.restart())
}

func scanPrefix(c *check) {
	d, ref := c.startSession()
	ds := []driver.Driver{d, c.second(d)}
	var scans [writers][][]string
	c.together(writers, ds, func(i int, d driver.Driver) {
		for range 5 {
			if i%4 == 0 {
				c.append(d, ref, c.triple("a")...)
				continue
			}
			dir := driver.Direction(i % 2)
			ids := idsOf(c.scan(d, ref, 0, dir))
			if dir == driver.Backward {
				slices.Reverse(ids)
			}
			scans[i] = append(scans[i], ids)
		}
	})
	all := c.ids(d, ref)
	for _, of := range scans {
		for _, ids := range of {
			if len(ids) > len(all) || !slices.Equal(ids, all[:len(ids)]) {
				c.errorf("a scan during appends yields %s, which is not how %s begins", brief(ids), brief(all))
			}
		}
	}
}

func scanLoop(c *check) {
	d, ref := c.startFilled()
	for _, dir := range []driver.Direction{driver.Forward, driver.Backward} {
		want := c.ids(d, ref)
		if dir == driver.Backward {
			slices.Reverse(want)
		}
		var got, added []string
		for rec, err := range d.Scan(c.ctx, ref, 0, dir, nil) {
			c.noErr("Scan", err)
			if got = append(got, rec.Entry.ID); len(got) > 10 {
				continue
			}
			// A driver that holds a lock while the loop runs hangs here.
			l := c.note("in the loop")
			c.calling("Append in the body of a loop over Scan")
			c.append(d, ref, l)
			added = append(added, l.ID)
			c.calling("another call in the body of a loop over Scan")
			row := c.get(d, ref)
			c.put(d, row)
			for _, err := range d.Scan(c.ctx, ref, 0, driver.Backward, nil) {
				c.noErr("Scan", err)
				break
			}
		}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			c.errorf("a loop that appends gets %s, and the session had %s", brief(got), brief(want))
		}
		if dir == driver.Backward {
			slices.Reverse(want)
		}
		c.wantIDs("the session after a loop that appends", c.ids(d, ref), slices.Concat(want, added))
	}
}

func scanError(c *check) {
	d, ref := c.startFilled()
	c.calling("Scan")
	look := func(name string, ctx context.Context, ref driver.Ref, stop func()) {
		failed := 0
		for rec, err := range d.Scan(ctx, ref, 0, driver.Forward, nil) {
			if failed > 0 {
				c.errorf("%s: a pair follows the one with an error: %q, %v", name, rec.Entry.Line(), err)
				return
			}
			if err != nil {
				failed++
				if rec.Entry.Body != nil || rec.Damage != nil {
					c.errorf("%s: the pair with the error %v has a record", name, err)
				}
			}
			stop()
		}
		c.errorIf(failed == 0, "%s: no error", name)
	}
	look("Scan of a session that is not there", c.ctx, driver.Ref{Agent: "main", ID: c.id()}, func() {})
	ctx, cancel := context.WithCancel(c.ctx)
	defer cancel()
	look("Scan whose context ends during the loop", ctx, ref, cancel)
}

func scanContext(c *check) {
	d, ref := c.startSession()
	c.append(d, ref, c.notes(1000)...)
	for _, dir := range []driver.Direction{driver.Forward, driver.Backward} {
		ctx, cancel := context.WithCancel(c.ctx)
		var last error
		n := 0
		for _, err := range d.Scan(ctx, ref, 0, dir, nil) {
			n, last = n+1, err
			cancel()
		}
		cancel()
		if last == nil {
			c.errorf("Scan yields all %d records and no error, though its context was cancelled at the first", n)
		} else {
			c.wantErr("Scan after its context was cancelled", last, context.Canceled)
		}
	}
	c.wantIDs("the session after a loop that was cancelled", c.ids(d, ref)[:1], []string{ref.ID})
}
