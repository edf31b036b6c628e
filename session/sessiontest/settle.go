package sessiontest

import "github.com/convolog/convolog/session/driver"

var settleRules = []Rule{
	{"settle/end", "returns the cursor after the last line", settleEnd},
	{"flush/found", "Flush returns when everything appended to the session so far is on stable storage.", flushFound},
}

func settleEnd(c *check) {
	d := c.start()
	other := c.second(d)
	ref := c.create(d, "main", "k").Ref()
	for range 3 {
		end := c.settle(d, ref)
		c.wantIDs("a scan from where Settle says is the end", idsOf(c.scan(d, ref, end, driver.Forward)), nil)
		if again := c.settle(d, ref); again != end {
			c.errorf("Settle returns %d, and %d when called again", end, again)
		}
		lines := c.triple("a")
		r := c.append(other, ref, lines...)
		c.wantIDs("a scan from where Settle said was the end", idsOf(c.scan(d, ref, end, driver.Forward)), lineIDs(lines...))
		if now := c.settle(d, ref); now != r.End {
			c.errorf("Settle returns %d after an append that ended at %d", now, r.End)
		}
	}
}

func flushFound(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	c.calling("Flush")
	c.noErr("Flush of a new session", d.Flush(c.ctx, ref, false))
	lines := c.triple("a")
	c.append(d, ref, lines...)
	c.noErr("Flush", d.Flush(c.ctx, ref, false))
	c.noErr("Flush of what was flushed", d.Flush(c.ctx, ref, false))
	c.wantIDs("the session after Flush", c.ids(d, ref), append([]string{ref.ID}, lineIDs(lines...)...))
}
