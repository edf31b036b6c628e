package sessiontest

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"sync"

	"github.com/convolog/convolog/session/driver"
)

const textClosed = "after Close every method gives one that matches [ErrClosed]"

var callRules = []rule{
	{"call/missing", "A session that is not there gives an error that matches [io/fs.ErrNotExist]", callMissing},
	{"call/cancelled", "The context is honoured until a write begins", callCancelled},
	{"flush/found", "Flush returns when everything appended to the session so far is on stable storage.", flushFound},
	{"close/methods", textClosed, closeMethods},
	{"close/wait", "Close waits for the calls under way and releases everything.", closeWait},
}

// A method is one method of a driver, called on a session or its agent and
// key.
type method struct {
	name string
	call func(call) error
}

// A call holds the arguments of a method.
type call struct {
	c   *check
	ctx context.Context //nolint:containedctx // of the one call
	d   driver.Driver
	ref driver.Ref
}

func (m call) append(at driver.Cursor, decide decideFunc) error {
	lines := m.c.triple("a")
	if decide != nil {
		lines = nil
	}
	return errOf(m.d.Append(m.ctx, m.ref, lines, at, decide))
}

func (m call) decide(context.Context, driver.Cursor) ([]driver.Line, error) {
	return m.c.triple("a"), nil
}

func errOf[T any](_ T, err error) error { return err }

// wantEach checks that each method fails with all targets, unless the system of the
// driver lacks it.
func (c *check) wantEach(methods []method, ctx context.Context, d driver.Driver, ref driver.Ref, when string, targets ...error) {
	for _, m := range methods {
		c.calling(m.name)
		if err := m.call(call{c, ctx, d, ref}); !errors.Is(err, errors.ErrUnsupported) {
			c.wantErr(m.name+" "+when, err, targets...)
		}
	}
}

// writeMethods are those that fail for an archived session.
var writeMethods = []method{
	{"Append", func(m call) error { return m.append(driver.Anywhere, nil) }},
	{"Append with a condition", func(m call) error { return m.append(0, nil) }},
	{"Append with decide", func(m call) error { return m.append(driver.Anywhere, m.decide) }},
	{"SetCurrent", func(m call) error { return errOf(m.d.SetCurrent(m.ctx, m.ref, 0, currentLine(m.c.id()))) }},
	{"Put", func(m call) error {
		return m.d.Put(m.ctx, driver.Row{Agent: m.ref.Agent, ID: m.ref.ID, Key: "k", Gen: 1, Title: "a title from nowhere"})
	}},
	{"LockTurn without waiting", func(m call) error { return lockError(m.ctx, m.d, m.ref, false) }},
	{"LockTurn", func(m call) error { return lockError(m.ctx, m.d, m.ref, true) }},
}

// sessionMethods are those that need a session.
var sessionMethods = append(slices.Clone(writeMethods), []method{
	{"Scan forward", func(m call) error { return firstError(m.ctx, m.d, m.ref, 0, driver.Forward) }},
	{"Scan backward", func(m call) error { return firstError(m.ctx, m.d, m.ref, 0, driver.Backward) }},
	{"Get", func(m call) error { return errOf(m.d.Get(m.ctx, m.ref)) }},
	{"Flush", func(m call) error { return m.d.Flush(m.ctx, m.ref, false) }},
	{"Delete", func(m call) error { return m.d.Delete(m.ctx, driver.Anywhere, m.ref) }},
}...)

// storeMethods are those that need none.
var storeMethods = slices.Concat(makers(keyK, "made"), makers(driver.KeyRef{Key: "new key"}, "made")[:2], []method{
	listMethod, {"List of agents", func(m call) error { return errOf(m.d.List(m.ctx, "", driver.Position{}, 0)) }},
})

// makers are the methods that take a key, here of a ref's agent: two that make a
// session, and one that looks.
func makers(key driver.KeyRef, id string) []method {
	of := func(m call) driver.KeyRef { return driver.KeyRef{Agent: m.ref.Agent, Owner: key.Owner, Key: key.Key} }
	return []method{
		{"Load", func(m call) error { return errOf(m.d.Load(m.ctx, of(m), header(of(m), id))) }},
		{"Create", func(m call) error { return errOf(m.d.Create(m.ctx, of(m), header(of(m), id))) }},
		{"Load without a header", func(m call) error { return errOf(m.d.Load(m.ctx, of(m), nil)) }},
	}
}

var listMethod = method{"List", func(m call) error { return errOf(m.d.List(m.ctx, m.ref.Agent, driver.Position{}, 0)) }}

// firstError returns the first error that a scan yields.
func firstError(ctx context.Context, d driver.Driver, ref driver.Ref, from driver.Cursor, dir driver.Direction) error {
	for _, err := range d.Scan(ctx, ref, from, dir, nil) {
		if err != nil {
			return err
		}
	}
	return nil
}

// lockError takes and releases a turn lock.
func lockError(ctx context.Context, d driver.Driver, ref driver.Ref, wait bool) error {
	release, err := d.LockTurn(ctx, ref, wait)
	if err != nil {
		return err
	}
	return release()
}

func callMissing(c *check) {
	d, other, there := c.startSession()
	want := c.state(d)
	for _, ref := range []driver.Ref{
		{Agent: "main", ID: c.id()},
		{Agent: "nobody", ID: there.ID},
		{Agent: "main", ID: "k"},
	} {
		c.wantEach(sessionMethods, c.ctx, d, ref, "of a session that is not there", fs.ErrNotExist)
	}
	c.everywhere("after calls on sessions that are not there", want, d, other)
}

func callCancelled(c *check) {
	d, other, ref := c.startSession()
	want := c.state(d)
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	c.wantEach(slices.Concat(sessionMethods, storeMethods), ctx, d, ref, "under a context that is cancelled", context.Canceled)
	if err := lockError(c.ctx, d, ref, false); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		c.errorf("LockTurn after one under a context that is cancelled: unexpected error %v", err)
	}
	c.everywhere("after calls under a context that is cancelled", want, d, other)
}

func flushFound(c *check) {
	d, other, ref := c.startSession()
	want := c.state(d)
	for range 2 {
		c.calling("Flush")
		c.noErr("Flush", d.Flush(c.ctx, ref, false))
		c.noErr("Flush again", d.Flush(c.ctx, ref, false))
		lines := c.triple("a")
		c.append(d, ref, lines...)
		want.append(ref, lines...)
	}
	c.noErr("Flush", d.Flush(c.ctx, ref, false))
	c.everywhere("after Flush", want, d, other)
}

func closeMethods(c *check) {
	d, other, ref := c.startSession()
	want := c.state(d)
	c.stop(d)
	c.wantEach(slices.Concat(sessionMethods, storeMethods), c.ctx, d, ref, "after Close", driver.ErrClosed)
	c.calling("Close")
	c.wantErr("Close after Close", d.Close(), driver.ErrClosed)
	c.stop(other)
	other = c.start()
	c.everywhere("after calls to a closed driver", want, other, other)
}

func closeWait(c *check) {
	for range 3 {
		d := c.restart()
		ref := c.create(d, keyK).Ref()
		var written [writers][]string
		var writing, underWay sync.WaitGroup
		underWay.Add(writers)
		for i := range writers {
			writing.Go(func() {
				begun := sync.OnceFunc(underWay.Done)
				defer begun()
				for c.ctx.Err() == nil {
					lines := c.triple("a")
					if _, err := d.Append(c.ctx, ref, lines, driver.Anywhere, nil); err != nil {
						c.wantErr("Append while Close is called", err, driver.ErrClosed)
						return
					}
					written[i] = append(written[i], lineIDs(lines...)...)
					begun()
				}
			})
		}
		underWay.Wait()
		c.stop(d)
		c.calling("Append after Close")
		writing.Wait()
		got := c.ids(c.start(), ref)[1:]
		c.wantIDs("a session whose driver was closed during appends", slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(slices.Concat(written[:]...))))
	}
}
