package sessiontest

import (
	"sync/atomic"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

const textOneStep = "The condition and the write are one step: no other append comes in between."

var headRules = []Rule{
	{"cond/zero", "The zero value always holds.", condZero},
	{"cond/head", "Head is the entry ID that the session's head must have, the last line whose type is one of transcript.IsHead; [NoHead] says that there is none.", condHead},
	{"cond/no-head", "[NoHead] says that there is none. Otherwise the append fails with [ErrConflict].", condNoHead},
	{"cond/head-race", textOneStep, condHeadRace},
	{"cond/nothing", "An error that does not say otherwise means that nothing was written.", condNothing},
	{"cond/all", "Cond is what must hold for an append.", condAll},
}

// someText is the content of batches that are told apart by their IDs.
var someText = transcript.UserText("some text")

// bookkeeping returns a line of every type that is no head.
func (c *check) bookkeeping() []driver.Line {
	title := "title"
	var lines []driver.Line
	for _, body := range []transcript.Body{
		transcript.Meta{Title: &title},
		transcript.Clip{},
		transcript.Current{Gen: 7},
		transcript.Calibration{Model: "m", Window: 1},
		transcript.ToolStatus{CallID: "a", Status: "running"},
		transcript.Used{Contexts: []string{"a"}},
		transcript.Commit{Archive: "a"},
		transcript.Extracted{Commit: "a"},
		transcript.Custom{Name: "a"},
		transcript.Unknown{Kind: "future"},
	} {
		lines = append(lines, c.entry(body))
	}
	return lines
}

// heads returns batches that end in each type that is a head.
func (c *check) heads() [][]driver.Line {
	call := transcript.Message{Role: transcript.RoleAssistant, Content: []transcript.Block{
		transcript.ToolCallBlock{ID: "call", Name: "tool", Input: []byte(`{}`)},
	}}
	return [][]driver.Line{
		c.batch(someText),
		c.batch(transcript.AssistantText("answer")),
		c.batch(call),
		c.batch(transcript.ToolResult("call", "output")),
		c.batch(transcript.Compaction{Summary: "summary"}),
		c.batch(transcript.Rewind{To: "nowhere"}),
		c.triple("a"),
	}
}

// refused checks that a conditional append fails and writes nothing.
func (c *check) refused(name string, d driver.Driver, ref driver.Ref, cond driver.Cond, want error) {
	before, end := c.ids(d, ref), c.settle(d, ref)
	c.calling("Append")
	_, err := d.Append(c.ctx, ref, c.triple("refused"), cond)
	c.wantErr("Append "+name, err, want)
	c.wantIDs("the session after an Append that was refused, "+name, c.ids(d, ref), before)
	if now := c.settle(d, ref); now != end && err != nil {
		c.errorf("an Append that was refused, %s, moves the end from %d to %d", name, end, now)
	}
}

func condZero(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	want := c.ids(d, ref)
	for _, lines := range append(c.heads(), c.bookkeeping(), c.triple("a")) {
		c.append(d, ref, lines...)
		want = append(want, lineIDs(lines...)...)
	}
	c.wantIDs("a session after appends without a condition", c.ids(d, ref), want)
}

func condHead(c *check) {
	d := c.start()
	other := c.second(d)
	ref := c.create(d, "main", "k").Ref()
	stale := c.user("stale")
	c.append(d, ref, stale)
	for _, lines := range c.heads() {
		c.append(d, ref, lines...)
		head := lines[len(lines)-1]
		for _, l := range c.bookkeeping() {
			c.appendIf(d, ref, driver.Cond{Head: head.ID}, l)
		}
		c.refused("whose Head is an earlier head", other, ref, driver.Cond{Head: stale.ID}, driver.ErrConflict)
		c.refused("whose Head is the last line but no head", other, ref, driver.Cond{Head: c.ids(d, ref)[len(c.ids(d, ref))-1]}, driver.ErrConflict)
		c.refused("whose Head is nowhere", other, ref, driver.Cond{Head: c.id()}, driver.ErrConflict)
		c.refused("whose Head is the header", d, ref, driver.Cond{Head: ref.ID}, driver.ErrConflict)
		if len(lines) > 1 {
			c.refused("whose Head is inside a batch", d, ref, driver.Cond{Head: lines[0].ID}, driver.ErrConflict)
		}
		next := c.user("next")
		c.appendIf(other, ref, driver.Cond{Head: head.ID}, next)
		c.refused("whose Head was the head before", d, ref, driver.Cond{Head: head.ID}, driver.ErrConflict)
		stale = next
	}
	d = c.restart()
	c.refused("whose Head is an earlier head, after opening the storage again", d, ref, driver.Cond{Head: ref.ID}, driver.ErrConflict)
	c.appendIf(d, ref, driver.Cond{Head: stale.ID}, c.user("after opening the storage again"))
}

func condNoHead(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	none := driver.Cond{Head: driver.NoHead}
	c.appendIf(d, ref, none, c.bookkeeping()...)
	d = c.restart()
	c.appendIf(d, ref, none, c.note("still no head"))
	c.refused("whose Head is one, to a session without", d, ref, driver.Cond{Head: c.id()}, driver.ErrConflict)
	c.appendIf(d, ref, none, c.user("head"))
	c.refused("with NoHead, to a session that has one", d, ref, none, driver.ErrConflict)
	c.append(d, ref, c.bookkeeping()...)
	c.refused("with NoHead, to a session that has one", d, ref, none, driver.ErrConflict)
	c.refused("with NoHead, to a session that has one", c.restart(), ref, none, driver.ErrConflict)
}

func condHeadRace(c *check) {
	d := c.start()
	ds := []driver.Driver{d, c.second(d)}
	ref := c.create(d, "main", "k").Ref()
	head := driver.NoHead
	for range 20 {
		var won atomic.Int64
		var winner atomic.Value
		c.calling("Append by several goroutines")
		c.together(writers, ds, func(_ int, d driver.Driver) {
			l := c.user("mine")
			_, err := d.Append(c.ctx, ref, []driver.Line{l}, driver.Cond{Head: head})
			if err == nil {
				won.Add(1)
				winner.Store(l.ID)
				return
			}
			c.wantErr("Append whose Head others replace at the same time", err, driver.ErrConflict)
		})
		if n := won.Load(); n != 1 {
			c.fatalf("%d of %d appends with one Head succeed, want one", n, writers)
		}
		head, _ = winner.Load().(string)
		if ids := c.ids(d, ref); ids[len(ids)-1] != head {
			c.errorf("the last line is not the one whose append succeeded")
		}
	}
	if ids := c.ids(d, ref); len(ids) != 21 {
		c.errorf("20 conditional appends succeeded on a session of one line, and it has %d", len(ids))
	}
}

// condNothing tries every way in which an append can be refused.
func condNothing(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	idem := driver.Cond{Idem: "key", IdemHash: "h"}
	c.appendIf(d, ref, idem, c.idemBatch("key", "h", someText, someText)...)
	c.append(d, ref, c.entry(transcript.Rewind{To: ref.ID}))
	row, err := d.Get(c.ctx, ref)
	c.noErr("Get", err)
	c.refused("with another Head", d, ref, driver.Cond{Head: c.id()}, driver.ErrConflict)
	c.refused("with NoHead", d, ref, driver.Cond{Head: driver.NoHead}, driver.ErrConflict)
	c.refused("with a key of other content", d, ref, driver.Cond{Idem: "key", IdemHash: "other"}, driver.ErrIdemMismatch)
	c.refused("with conflicts", d, ref, driver.Cond{Conflicts: []string{transcript.TypeRewind}}, driver.ErrConflict)
	got, err := d.Get(c.ctx, ref)
	c.noErr("Get", err)
	c.wantRow("Get after appends that were refused", got, row)
	// A key of an append that was refused is free.
	c.refused("with a new key and another Head", d, ref, driver.Cond{Idem: "new", IdemHash: "h", Head: c.id()}, driver.ErrConflict)
	if r := c.appendIf(d, ref, driver.Cond{Idem: "new", IdemHash: "h"}, c.idemBatch("new", "h", someText)...); r.Repeated {
		c.errorf("Append repeats one that was refused")
	}
}

func condAll(c *check) {
	d := c.start()
	ref := c.create(d, "main", "k").Ref()
	head := c.user("head")
	c.append(d, ref, head)
	base := c.settle(d, ref)
	conflicts := []string{"custom"}
	c.append(d, ref, c.note("in conflict"))
	end := c.settle(d, ref)
	wrong := c.id()
	for _, cond := range []driver.Cond{
		{Head: head.ID, Base: base, Conflicts: conflicts},
		{Head: wrong, Base: end, Conflicts: conflicts},
		{Head: head.ID, Base: base, Conflicts: conflicts, Idem: "new", IdemHash: "h"},
		{Head: wrong, Idem: "new", IdemHash: "h"},
	} {
		c.refused("of whose conditions one fails", d, ref, cond, driver.ErrConflict)
	}
	r := c.appendIf(d, ref, driver.Cond{Head: head.ID, Base: end, Conflicts: conflicts, Idem: "new", IdemHash: "h"},
		c.idemBatch("new", "h", someText)...)
	if r.Repeated || r.Start < end {
		c.errorf("Append whose conditions all hold: %+v", r)
	}
}
