package sessiontest

import (
	"context"

	"github.com/convolog/convolog/session/driver"
)

var settleRules = []Rule{
	{"settle/end", "With none it only ends an unfinished write of a dead process.", settleEnd},
	{"flush/found", "Flush returns when everything appended to the session so far is on stable storage.", flushFound},
}

func settleEnd(c *check) {
	d, other, ref := c.startShared()
	settle := func() driver.Cursor {
		c.calling("Update")
		var given driver.Cursor
		res, err := d.Update(c.ctx, ref, func(_ context.Context, end driver.Cursor) ([]driver.Line, error) {
			given = end
			return nil, nil
		})
		c.noErr("Update without lines", err)
		if res.Start != given || res.End != given {
			c.errorf("Update without lines returns %v where the session ends at %d", res, given)
		}
		return res.End
	}
	for range 3 {
		end := settle()
		c.wantIDs("a scan from the end", idsOf(c.scan(d, ref, end, driver.Forward)), nil)
		if again := settle(); again != end {
			c.errorf("Update without lines ends at %d, and at %d when called again", end, again)
		}
		lines := c.triple("a")
		r := c.append(other, ref, lines...)
		c.wantIDs("a scan from what was the end", idsOf(c.scan(d, ref, end, driver.Forward)), lineIDs(lines...))
		if now := settle(); now != r.End {
			c.errorf("Update without lines ends at %d after an append that ended at %d", now, r.End)
		}
	}
}

func flushFound(c *check) {
	d, ref := c.startSession()
	c.calling("Flush")
	c.noErr("Flush of a new session", d.Flush(c.ctx, ref, false))
	lines := c.triple("a")
	c.append(d, ref, lines...)
	c.noErr("Flush", d.Flush(c.ctx, ref, false))
	c.noErr("Flush of what was flushed", d.Flush(c.ctx, ref, false))
	c.wantIDs("the session after Flush", c.ids(d, ref), append([]string{ref.ID}, lineIDs(lines...)...))
}
