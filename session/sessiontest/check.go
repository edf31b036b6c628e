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
	last    string // the call under way, to name it if it does not return
}

// errorf records an observation against the rule.
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

func (c *check) calling(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = name
}

func (c *check) lastCall() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// start opens a driver. Only one may be open, except by startTwo.
func (c *check) start() driver.Driver {
	c.calling("Open")
	d, err := c.storage.Open()
	c.noErr("Open", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, d)
	return d
}

// startTwo opens two drivers, or returns one twice if only one may be open.
func (c *check) startTwo() (d, other driver.Driver) {
	d = c.start()
	if !c.storage.Shared {
		return d, d
	}
	return d, c.start()
}

// startSession is startTwo, and makes a session.
func (c *check) startSession() (d, other driver.Driver, ref driver.Ref) {
	d, other = c.startTwo()
	return d, other, c.create(d, keyK).Ref()
}

// stop closes a driver, which may be closed.
func (c *check) stop(d driver.Driver) {
	c.mu.Lock()
	i := slices.Index(c.open, d)
	if i >= 0 {
		c.open = slices.Delete(c.open, i, i+1)
	}
	c.mu.Unlock()
	if i >= 0 {
		c.calling("Close")
		if err := d.Close(); err != nil {
			c.errorf("Close: %v", err)
		}
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

// writers is how many goroutines a rule about concurrency uses.
const writers = 16

// together makes calls at the same time, with the drivers in turn, and waits.
func (c *check) together(n int, d, other driver.Driver, call func(i int, d driver.Driver)) {
	c.calling("a call by several goroutines")
	var all sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-begin
			call(i, []driver.Driver{d, other}[i%2])
		})
	}
	close(begin)
	all.Wait()
}

// wantErr checks that a call failed with an error that matches all targets.
func (c *check) wantErr(call string, err error, targets ...error) {
	for _, target := range targets {
		c.errorIf(!errors.Is(err, target), "%s: error %v, want one that matches %q", call, err, target)
	}
}

// noErr ends the goroutine if a call that had to work failed.
func (c *check) noErr(call string, err error) {
	if err != nil {
		c.fatalf("%s: unexpected error %v", call, err)
	}
}

// create makes a session under a new ID.
func (c *check) create(d driver.Driver, key driver.KeyRef, more ...driver.Line) driver.Row {
	row, err := c.make(d, key, c.id(), nil, more...)
	c.noErr("Create", err)
	return row
}

// make makes a session with a row that change, if it is not nil, has changed.
func (c *check) make(d driver.Driver, key driver.KeyRef, id string, change func(*driver.Row), more ...driver.Line) (driver.Row, error) {
	c.calling("Create")
	var want driver.Row
	got, err := d.Create(c.ctx, key, func(gen int64) (driver.Row, driver.Line) {
		c.errorIf(gen <= 0, "Create: header was given gen %d", gen)
		want = newRow(key, id, gen)
		if change != nil {
			change(&want)
		}
		if want.Gen = gen; want.Aside {
			want.Gen = 0
		} else if want.GivenGen > 0 {
			want.Gen = want.GivenGen
		}
		return want, headerLine(want)
	}, more...)
	if err == nil {
		want.Size = got.Size
		c.wantRow("Create", got, want)
		c.errorIf(got.BaseRev != nil, "Create: the row has a BaseRev")
	}
	return got, err
}

// append adds lines without a condition.
func (c *check) append(d driver.Driver, ref driver.Ref, lines ...driver.Line) driver.Result {
	r, err := c.tryAppend(d, ref, driver.Anywhere, nil, lines...)
	c.noErr("Append", err)
	return r
}

func (c *check) tryAppend(d driver.Driver, ref driver.Ref, at driver.Cursor, decide decideFunc, lines ...driver.Line) (driver.Result, error) {
	c.calling("Append")
	return d.Append(c.ctx, ref, lines, at, decide)
}

type decideFunc = func(ctx context.Context, end driver.Cursor) ([]driver.Line, error)

// scan returns the records of a scan, which must be entries without errors.
func (c *check) scan(d driver.Driver, ref driver.Ref, from driver.Cursor, dir driver.Direction) []transcript.Record {
	c.calling("Scan")
	var recs []transcript.Record
	for rec, err := range d.Scan(c.ctx, ref, from, dir, nil) {
		c.noErr("Scan", err)
		if rec.Damage != nil {
			c.fatalf("Scan yields damage (%v), and only entries were appended", rec.Damage)
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
	c.calling("Get")
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
	row, err := d.Load(c.ctx, key, header(key, id))
	c.noErr("Load", err)
	return row, row.ID == id
}

// wantNoCurrent checks that no session of a key is current.
func (c *check) wantNoCurrent(what string, d driver.Driver, key driver.KeyRef) {
	_, err := d.Load(c.ctx, key, nil)
	c.wantErr("Load "+what, err, fs.ErrNotExist)
}

// setCurrent makes a session current, and returns the line for it.
func (c *check) setCurrent(d driver.Driver, ref driver.Ref) (driver.Row, driver.Line) {
	c.calling("SetCurrent")
	id := c.id()
	row, err := d.SetCurrent(c.ctx, ref, 0, currentLine(id))
	c.noErr("SetCurrent", err)
	return row, currentLine(id)(row.Gen)
}

// end returns the cursor after the last line.
func (c *check) end(d driver.Driver, ref driver.Ref) (end driver.Cursor) {
	for _, rec := range c.scan(d, ref, 0, driver.Forward) {
		end = driver.Cursor(rec.End)
	}
	return end
}

// wantIDs checks the lines of a session.
func (c *check) wantIDs(what string, got, want []string) {
	c.errorIf(!slices.Equal(got, want), "%s: lines %v, want %v", what, brief(got), brief(want))
}
