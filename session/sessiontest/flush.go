package sessiontest

var flushRules = []Rule{
	{"flush/found", "Flush returns when everything appended to the session so far is on stable storage.", flushFound},
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
