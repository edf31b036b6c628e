package sessiontest

import (
	"slices"
	"sync/atomic"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var conflictRules = []Rule{
	{
		"conflicts/after",
		"If Conflicts is not empty, no line of these types may lie after the cursor Base; otherwise the append fails with [ErrConflict].",
		conflictsAfter,
	},
	{"conflicts/race", textOneStep, conflictsRace},
}

func conflictsAfter(c *check) {
	d := c.start()
	other := c.second(d)
	ref := c.create(d, "main", "k").Ref()
	types := []string{transcript.TypeCompaction, transcript.TypeRewind}
	compaction := func() driver.Line { return c.entry(transcript.Compaction{Summary: "summary"}) }
	c.append(d, ref, compaction()) // before the base
	for _, body := range []transcript.Body{transcript.Compaction{Summary: "summary"}, transcript.Rewind{To: ref.ID}} {
		line := c.entry(body)
		cond := driver.Cond{Base: c.settle(d, ref), Conflicts: types}
		c.append(other, ref, c.triple("no conflict")...)
		c.append(d, ref, c.bookkeeping()...)
		c.appendIf(d, ref, cond, c.note("a condition that holds"))
		c.appendIf(other, ref, cond, c.note("a condition that still holds"))
		c.append(d, ref, line, c.note("after it"))
		for _, d := range []driver.Driver{d, other} {
			c.refused("with a conflict after Base", d, ref, cond, driver.ErrConflict)
		}
		c.refused("with a conflict after Base, alone", d, ref, driver.Cond{Base: cond.Base, Conflicts: []string{line.Type}}, driver.ErrConflict)
		c.refused("with conflicts after the beginning", d, ref, driver.Cond{Conflicts: types}, driver.ErrConflict)
		c.appendIf(d, ref, driver.Cond{Base: cond.Base, Conflicts: []string{"another type"}}, c.note("no conflict"))
		c.appendIf(d, ref, driver.Cond{Base: cond.Base}, c.note("no Conflicts: Base means nothing"))
	}
	// The places that a scan tells are cursors too.
	recs := c.scan(d, ref, 0, driver.Forward)
	for _, rec := range slices.Backward(recs) {
		if rec.Entry.Type() != transcript.TypeRewind {
			continue
		}
		c.appendIf(d, ref, driver.Cond{Base: driver.Cursor(rec.End), Conflicts: types}, c.note("after the conflict"))
		c.refused("with a conflict right after Base", d, ref, driver.Cond{Base: driver.Cursor(rec.Offset), Conflicts: types}, driver.ErrConflict)
		break
	}
	d = c.restart()
	c.refused("with a conflict, after opening the storage again", d, ref, driver.Cond{Conflicts: types}, driver.ErrConflict)
	c.appendIf(d, ref, driver.Cond{Base: c.settle(d, ref), Conflicts: types}, compaction())
}

func conflictsRace(c *check) {
	d := c.start()
	ds := []driver.Driver{d, c.second(d)}
	ref := c.create(d, "main", "k").Ref()
	for range 20 {
		base := c.settle(d, ref)
		var won atomic.Int64
		c.calling("Append by several goroutines")
		c.together(writers, ds, func(i int, d driver.Driver) {
			if i%4 == 0 {
				c.append(d, ref, c.user("no conflict"))
				return
			}
			lines := []driver.Line{c.entry(transcript.Compaction{Summary: "mine"})}
			_, err := d.Append(c.ctx, ref, lines, driver.Cond{Base: base, Conflicts: []string{transcript.TypeCompaction}})
			if err == nil {
				won.Add(1)
				return
			}
			c.wantErr("Append that others conflict with at the same time", err, driver.ErrConflict)
		})
		if n := won.Load(); n != 1 {
			c.errorf("%d appends that conflict with each other succeed, want one", n)
		}
	}
}
