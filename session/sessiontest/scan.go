package sessiontest

import (
	"bytes"
	"context"
	"io/fs"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var scanRules = []rule{
	{"scan/cursor", "Forward it starts at the cursor from, backward it ends there; 0 is the beginning. ... Of two cursors of one session the greater one is later", scanCursor},
	{"scan/stable", "a line that was yielded never changes", scanStable},
	{"scan/prefix", "lines of an append that is not finished may be missing at the end", scanPrefix},
	{"scan/loop", "Records are read as the loop asks for them", scanLoop},
	{"scan/keep", "Records on lines that keep refuses are left out; nil keeps all.", scanKeep},
	{"scan/error", "The sequence ends after the first pair with an error.", interrupted{"after Delete", fs.ErrNotExist, 1, func(c *check, d driver.Driver, ref driver.Ref, _ func()) {
		c.delete(d, ref)
	}}.check},
	{"scan/context", "The context is honoured until a write begins", interrupted{"whose context ends", context.Canceled, manyLines, func(_ *check, _ driver.Driver, _ driver.Ref, cancel func()) {
		cancel()
	}}.check},
	{"close/scan", textClosed, interrupted{"after Close", driver.ErrClosed, 1, closing}.check},
	{"close/loop", "Close does not wait for a loop over a Scan: the loop ends with [ErrClosed] at its next record.", interrupted{"in which Close is called", driver.ErrClosed, 2, closing}.check},
}

func closing(c *check, d driver.Driver, _ driver.Ref, _ func()) { c.stop(d) }

// manyLines are more than a driver reads at a time.
const manyLines = 1000

// An interrupted loop over a Scan ends with an error.
type interrupted struct {
	how  string
	want error
	// most is the number of pairs that the loop may get: with 1 the stop comes before
	// the loop, else at the first record.
	most int
	stop func(c *check, d driver.Driver, ref driver.Ref, cancel func())
}

func (in interrupted) check(c *check) {
	for _, dir := range directions {
		d := c.restart()
		ref := c.create(d, keyK).Ref()
		c.append(d, ref, c.notes(manyLines)...)
		ctx, cancel := context.WithCancel(c.ctx)
		defer cancel()
		scan := d.Scan(ctx, ref, 0, dir, nil)
		if in.most == 1 {
			in.stop(c, d, ref, cancel)
		}
		n := 0
		var last error
		for rec, err := range scan {
			if last != nil {
				c.fatalf("a Scan %s: a pair follows the one with an error: %q, %v", in.how, rec.Entry.Line(), err)
			}
			if n, last = n+1, err; n == 1 && in.most > 1 {
				in.stop(c, d, ref, cancel)
			}
			c.errorIf(err != nil && (rec.Entry.Body != nil || rec.Damage != nil), "a Scan %s: the pair with the error %v has a record", in.how, err)
		}
		c.wantErr("a Scan "+in.how, last, in.want)
		c.errorIf(n > in.most, "a Scan %s yields %d pairs, want at most %d", in.how, n, in.most)
	}
}

var directions = []driver.Direction{driver.Forward, driver.Backward}

// startFilled is startSession with a session of 31 lines.
func (c *check) startFilled() (d, other driver.Driver, ref driver.Ref) {
	d, other, ref = c.startSession()
	for range 5 {
		c.append(d, ref, c.triple("a")...)
		for _, l := range c.notes(3) {
			c.append(other, ref, l)
		}
	}
	return d, other, ref
}

func scanKeep(c *check) {
	d, _, ref := c.startFilled()
	all := c.scan(d, ref, 0, driver.Backward)
	for _, id := range []string{"", all[3].Entry.ID, all[20].Entry.ID, "no such line"} {
		keep := func(_ driver.Cursor, lines []byte) bool { return bytes.Contains(lines, []byte(id)) }
		want := slices.DeleteFunc(slices.Clone(all), func(rec transcript.Record) bool { return !keep(0, rec.Entry.Line()) })
		var got []transcript.Record
		for rec, err := range d.Scan(c.ctx, ref, 0, driver.Backward, keep) {
			c.noErr("Scan with keep", err)
			got = append(got, rec)
		}
		if !sameRecords(got, want) {
			c.errorf("of the lines with %q a Scan with keep yields %s, want %s", id, brief(idsOf(got)), brief(idsOf(want)))
		}
	}
}

func scanCursor(c *check) {
	d, _, ref := c.startFilled()
	all := c.scan(d, ref, 0, driver.Forward)
	want := func(from int64, want []transcript.Record) {
		for _, dir := range directions {
			got := c.scan(d, ref, driver.Cursor(from), dir)
			if dir == driver.Backward {
				slices.Reverse(got)
			}
			if !sameRecords(got, want) {
				c.errorf("a scan (direction %d) of the lines after %d: %s, want %s", dir, from, brief(idsOf(got)), brief(idsOf(want)))
			}
		}
	}
	last := int64(0)
	for i, rec := range all {
		want(rec.Offset, all[i:])
		want(rec.End, all[i+1:])
		if rec.Offset < last || rec.End <= rec.Offset {
			c.errorf("line %d lies at %d to %d, after one that ends at %d", i+1, rec.Offset, rec.End, last)
		}
		last = rec.End
	}
	c.errorIf(len(all) != 31, "a forward scan of a session of 31 lines yields %d", len(all))
}

func scanStable(c *check) {
	d, other, ref := c.startFilled()
	before, want := c.scan(d, ref, 0, driver.Forward), c.state(d)
	yielded := slices.Clone(want[ref].text)
	lines := c.notes(manyLines)
	c.append(d, ref, lines...)
	want.append(ref, lines...)
	row, _ := c.setCurrent(d, ref) // is current
	row.Title, row.Size = "title", int64(c.end(d, ref))
	c.put(d, row)
	want[ref].row = row
	want.create(c.create(d, keyK))
	c.everywhere("after other calls", want, d, other)
	for i, rec := range before {
		if got := string(rec.Entry.Line()); got != yielded[i] {
			c.errorf("line %d, yielded earlier, now reads %s, and was %s", i+1, got, yielded[i])
		}
	}
}

func scanPrefix(c *check) {
	d, other, ref := c.startSession()
	var scans [writers][][]string
	c.together(writers, d, other, func(i int, d driver.Driver) {
		for range 5 {
			if i%4 == 0 {
				c.append(d, ref, c.triple("a")...)
				continue
			}
			dir := directions[i%2]
			ids := idsOf(c.scan(d, ref, 0, dir))
			if dir == driver.Backward {
				slices.Reverse(ids)
			}
			scans[i] = append(scans[i], ids)
		}
	})
	all := c.ids(d, ref)
	for _, ids := range slices.Concat(scans[:]...) {
		if len(ids) > len(all) || !slices.Equal(ids, all[:len(ids)]) {
			c.errorf("a scan during appends yields %s, which is not how %s begins", brief(ids), brief(all))
		}
	}
}

func scanLoop(c *check) {
	d, _, ref := c.startFilled()
	for _, dir := range directions {
		want := c.ids(d, ref)
		seen := slices.Clone(want)
		if dir == driver.Backward {
			slices.Reverse(seen)
		}
		var got []string
		for rec, err := range d.Scan(c.ctx, ref, 0, dir, nil) {
			c.noErr("Scan", err)
			if got = append(got, rec.Entry.ID); len(got) > 10 {
				continue
			}
			// A driver that holds a lock while the loop runs hangs here.
			l := c.note("in the loop")
			c.append(d, ref, l)
			want = append(want, l.ID)
			c.put(d, c.get(d, ref))
			for _, err := range d.Scan(c.ctx, ref, 0, driver.Backward, nil) {
				c.noErr("Scan", err)
				break
			}
		}
		c.wantIDs("a loop that appends", got[:min(len(got), len(seen))], seen)
		c.wantIDs("the session after a loop that appends", c.ids(d, ref), want)
	}
}
