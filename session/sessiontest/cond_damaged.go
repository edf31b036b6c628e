package sessiontest

import (
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var damagedRules = []Rule{
	{
		"cond/damaged",
		"A line that does not match its checksum counts like any other, as long as it can be parsed: readers keep it.",
		condDamaged,
	},
}

// damaged returns lines with a checksum that they do not match.
func damaged(lines ...driver.Line) []driver.Line {
	for i, l := range lines {
		lines[i].Data = append(slices.Clone(l.Data[:len(l.Data)-1]), `,"crc":"00000000"}`...)
	}
	return lines
}

func condDamaged(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	base := c.settle(d, ref)
	keyed := damaged(c.keyed(2)...)
	c.appendIf(d, ref, idemCond, keyed...)
	rewind := damaged(c.entry(transcript.Rewind{To: ref.ID}))[0]
	c.append(d, ref, rewind)
	look := func(when string, d driver.Driver) {
		end := c.settle(d, ref)
		for what, cond := range map[string]driver.Cond{
			"whose Head is the head before a damaged line": {Head: keyed[1].ID},
			"with NoHead, behind damaged lines":            {Head: driver.NoHead},
			"with a damaged line in conflict":              {Base: base, Conflicts: []string{transcript.TypeRewind}},
		} {
			c.calling("Append")
			_, err := d.Append(c.ctx, ref, c.triple("refused"), cond)
			c.wantErr("Append "+what+", "+when, err, driver.ErrConflict)
		}
		if r := c.appendIf(d, ref, idemCond, c.keyed(2)...); !r.Repeated || !slices.Equal(r.IDs, lineIDs(keyed...)) {
			c.errorf("Append under the key of a damaged batch, %s: %+v, want that batch", when, r)
		}
		if now := c.settle(d, ref); now != end {
			c.errorf("appends that write nothing, %s, move the end from %d to %d", when, end, now)
		}
		c.calling("Append")
		_, err := d.Append(c.ctx, ref, []driver.Line{c.note("next")}, driver.Cond{Head: rewind.ID})
		c.noErr("Append whose Head is a damaged line, "+when, err)
	}
	look("at once", d)
	look("by another driver", c.second(d))
	look("after opening the storage again", c.restart())
}
