package sessiontest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A check is one run of a rule. Its methods may be called by several
// goroutines. Fatal ones end the goroutine, as in testing.T.
type check struct {
	ctx     context.Context //nolint:containedctx // lives as long as the run
	storage Storage
	lastID  atomic.Int64

	mu      sync.Mutex // guards all below
	seen    []string
	skipped error
	stopped bool // nothing is recorded any more
	open    []driver.Driver
	last    string
}

// errorf records something that was seen against the rule.
func (c *check) errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.seen = append(c.seen, fmt.Sprintf(format, args...))
	}
}

// errorIf is errorf if cond holds.
func (c *check) errorIf(cond bool, format string, args ...any) {
	if cond {
		c.errorf(format, args...)
	}
}

// fatalf is errorf, and ends the goroutine.
func (c *check) fatalf(format string, args ...any) {
	c.errorf(format, args...)
	runtime.Goexit()
}

// skip records that the rule does not apply, and ends the goroutine.
func (c *check) skip(err error) {
	c.mu.Lock()
	c.skipped = err
	c.mu.Unlock()
	runtime.Goexit()
}

// report returns the outcome, after which nothing is recorded any more.
func (c *check) report() (seen []string, skipped error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	return c.seen, c.skipped
}

// calling notes the call under way, to name it if it does not return.
func (c *check) calling(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = name
}

func (c *check) lastCall() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == "" {
		return "a call"
	}
	return c.last + " or a call after it"
}

// start opens a driver. Only one may be open, except by second.
func (c *check) start() driver.Driver {
	c.calling("Open")
	d, err := c.storage.Open()
	if err != nil {
		c.fatalf("Open: %v", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, d)
	return d
}

// startTwo is start and second.
func (c *check) startTwo() (d, other driver.Driver) {
	d = c.start()
	return d, c.second(d)
}

// startSession opens a driver, and makes a session.
func (c *check) startSession() (driver.Driver, driver.Ref) {
	d := c.start()
	return d, c.create(d, "main", "k").Ref()
}

// startShared is startTwo, and makes a session.
func (c *check) startShared() (d, other driver.Driver, ref driver.Ref) {
	d, other = c.startTwo()
	return d, other, c.create(d, "main", "k").Ref()
}

// everywhere calls look with two drivers and, after a restart, with a new one.
func (c *check) everywhere(d, other driver.Driver, look func(when string, d driver.Driver)) {
	look("same driver", d)
	look("other driver", other)
	look("opened again", c.restart())
}

// second returns another driver on the storage, or d if only one may be open.
func (c *check) second(d driver.Driver) driver.Driver {
	if !c.storage.Shared {
		return d
	}
	return c.start()
}

// stop closes a driver.
func (c *check) stop(d driver.Driver) {
	c.mu.Lock()
	n := len(c.open)
	c.open = slices.DeleteFunc(c.open, func(o driver.Driver) bool { return o == d })
	n -= len(c.open)
	c.mu.Unlock()
	if n == 0 {
		return
	}
	c.calling("Close")
	if err := d.Close(); err != nil {
		c.errorf("Close: %v", err)
	}
}

// restart closes all drivers and opens one anew.
func (c *check) restart() driver.Driver {
	c.closeAll()
	return c.start()
}

func (c *check) closeAll() {
	c.mu.Lock()
	open := slices.Clone(c.open)
	c.mu.Unlock()
	for _, d := range open {
		c.stop(d)
	}
}

// together calls f n times at once and waits. Drivers are taken from ds in
// turn.
func (c *check) together(n int, ds []driver.Driver, f func(i int, d driver.Driver)) {
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			f(i, ds[i%len(ds)])
		})
	}
	close(begin)
	all.Wait()
}

// wantErr checks that a call failed with an error that matches all targets.
func (c *check) wantErr(call string, err error, targets ...error) {
	for _, target := range targets {
		c.errorIf(!errors.Is(err, target), "%s: error %v, want one that matches %q", call, orNil(err), target)
	}
}

// noErr ends the goroutine if a call that had to work failed.
func (c *check) noErr(call string, err error) {
	if err != nil {
		c.fatalf("%s: unexpected error %v", call, err)
	}
}

// orNil prints a nil error as one.
func orNil(err error) string {
	if err == nil {
		return "<nil>"
	}
	return fmt.Sprintf("%q", err)
}

// create makes a session under a new ID.
func (c *check) create(d driver.Driver, agent, key string) driver.Row {
	return c.createID(d, agent, key, c.id())
}

func (c *check) createID(d driver.Driver, agent, key, id string) driver.Row {
	c.calling("Create")
	row, err := d.Create(c.ctx, driver.KeyRef{Agent: agent, Key: key}, header(agent, key, id))
	c.noErr("Create", err)
	return row
}

// append adds lines without a condition.
func (c *check) append(d driver.Driver, ref driver.Ref, lines ...driver.Line) driver.Result {
	return c.appendAt(d, ref, driver.Anywhere, lines...)
}

// appendAt adds lines at a cursor at which the session must end.
func (c *check) appendAt(d driver.Driver, ref driver.Ref, at driver.Cursor, lines ...driver.Line) driver.Result {
	c.calling("Append")
	r, err := d.Append(c.ctx, ref, lines, at, nil)
	c.noErr(fmt.Sprintf("Append at %d", at), err)
	return r
}

// scan returns the records of a scan, which must be entries without errors.
func (c *check) scan(d driver.Driver, ref driver.Ref, from driver.Cursor, dir driver.Direction) []transcript.Record {
	c.calling("Scan")
	var recs []transcript.Record
	for rec, err := range d.Scan(c.ctx, ref, from, dir, nil) {
		c.noErr("Scan", err)
		if rec.Damage != nil {
			c.fatalf("Scan: yields damage (%v) where only entries were appended", rec.Damage)
		}
		recs = append(recs, rec)
	}
	return recs
}

// ids returns the entry IDs of a session.
func (c *check) ids(d driver.Driver, ref driver.Ref) []string {
	return idsOf(c.scan(d, ref, 0, driver.Forward))
}

func (c *check) get(d driver.Driver, ref driver.Ref) driver.Row {
	row, err := d.Get(c.ctx, ref)
	c.noErr("Get", err)
	return row
}

func (c *check) put(d driver.Driver, row driver.Row) {
	c.calling("Put")
	c.noErr("Put", d.Put(c.ctx, row))
}

func (c *check) delete(d driver.Driver, refs ...driver.Ref) {
	c.calling("Delete")
	c.noErr("Delete", d.Delete(c.ctx, driver.Anywhere, refs...))
}

func (c *check) load(d driver.Driver, key driver.KeyRef) (row driver.Row, created bool) {
	c.calling("Load")
	id := c.id()
	row, err := d.Load(c.ctx, key, headerOf(key, id))
	c.noErr("Load", err)
	return row, row.ID == id
}

func (c *check) wantNoCurrent(what string, d driver.Driver, agent, key string) {
	_, err := d.Load(c.ctx, driver.KeyRef{Agent: agent, Key: key}, nil)
	c.wantErr("Load "+what, err, fs.ErrNotExist)
}

func (c *check) setCurrent(d driver.Driver, ref driver.Ref) driver.Row {
	row, err := d.SetCurrent(c.ctx, ref, 0, c.current(c.id()))
	c.noErr("SetCurrent", err)
	return row
}

// settle returns the cursor after the last line, which is the end of a session.
func (c *check) settle(d driver.Driver, ref driver.Ref) driver.Cursor {
	end := int64(0)
	for _, rec := range c.scan(d, ref, 0, driver.Forward) {
		end = rec.End
	}
	return driver.Cursor(end)
}

// wantIDs checks what lines a session has.
func (c *check) wantIDs(what string, got, want []string) {
	c.errorIf(!slices.Equal(got, want), "%s: lines %v, want %v", what, brief(got), brief(want))
}

// wantCurrent checks which session is the current one of a key.
func (c *check) wantCurrent(when string, d driver.Driver, agent, key, id string) {
	c.calling("Load")
	row, err := d.Load(c.ctx, driver.KeyRef{Agent: agent, Key: key}, nil)
	if err != nil {
		c.errorf("Load %s: unexpected error %v", when, err)
	} else if row.ID != id {
		c.errorf("Load %s: session %s with gen %d, want %s", when, row.ID, row.Gen, id)
	}
}
