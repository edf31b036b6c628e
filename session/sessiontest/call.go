package sessiontest

import (
	"context"
	"errors"
	"io/fs"

	"github.com/convolog/convolog/session/driver"
)

var callRules = []Rule{
	{"call/missing", "A session that is not there gives an error that matches [io/fs.ErrNotExist]", callMissing},
	{"call/cancelled", "The context is honoured until a write begins", callCancelled},
}

// A method is one method of a driver, called on a session or its agent and
// key.
type method struct {
	name string
	call func(call) error
}

// A call has the arguments of a method.
type call struct {
	c   *check
	ctx context.Context //nolint:containedctx // of the one call
	d   driver.Driver
	ref driver.Ref
}

func (m call) key(name string) driver.KeyRef { return driver.KeyRef{Agent: m.ref.Agent, Key: name} }

func (m call) load(key, id string) error {
	return errOf(m.d.Load(m.ctx, m.key(key), headerOf(m.key(key), id)))
}

func (m call) create(key, id string) error {
	return errOf(m.d.Create(m.ctx, m.key(key), headerOf(m.key(key), id)))
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

// sessionMethods are those that need a session.
var sessionMethods = []method{
	{"Append", func(m call) error { return errOf(m.d.Append(m.ctx, m.ref, m.c.triple("a"), driver.Anywhere, nil)) }},
	{"Append with a condition", func(m call) error { return errOf(m.d.Append(m.ctx, m.ref, m.c.triple("a"), 0, nil)) }},
	{"Append with decide", func(m call) error { return errOf(m.d.Append(m.ctx, m.ref, nil, driver.Anywhere, m.decide)) }},
	{"Scan forward", func(m call) error { return firstError(m.ctx, m.d, m.ref, driver.Forward) }},
	{"Scan backward", func(m call) error { return firstError(m.ctx, m.d, m.ref, driver.Backward) }},
	{"SetCurrent", func(m call) error { return errOf(m.d.SetCurrent(m.ctx, m.ref, 0, m.c.current(m.c.id()))) }},
	{"Get", func(m call) error { return errOf(m.d.Get(m.ctx, m.ref)) }},
	{"Put", func(m call) error {
		return m.d.Put(m.ctx, driver.Row{Agent: m.ref.Agent, ID: m.ref.ID, Key: "k", Gen: 1, Title: "a title from nowhere"})
	}},
	{"LockTurn without waiting", func(m call) error { return lockError(m.ctx, m.d, m.ref, false) }},
	{"LockTurn", func(m call) error { return lockError(m.ctx, m.d, m.ref, true) }},
	{"Flush", func(m call) error { return m.d.Flush(m.ctx, m.ref, false) }},
	{"Delete", func(m call) error { return m.d.Delete(m.ctx, driver.Anywhere, m.ref) }},
}

// storeMethods are those that do not.
var storeMethods = []method{
	{"Load", func(m call) error { return m.load("k", "loaded") }},
	{"Load of a new key", func(m call) error { return m.load("new key", "loaded") }},
	{"Create", func(m call) error { return m.create("k", "created") }},
	currentMethod("k"),
	{"List of agents", func(m call) error { return errOf(m.d.List(m.ctx, "", driver.Position{}, 0)) }},
	listMethod(),
}

// firstError returns the first error that a scan yields.
func firstError(ctx context.Context, d driver.Driver, ref driver.Ref, dir driver.Direction) error {
	for _, err := range d.Scan(ctx, ref, 0, dir, nil) {
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
	d := c.start()
	there := c.create(d, "main", "k").Ref()
	before := c.list(d, "main")
	for _, ref := range []driver.Ref{
		{Agent: "main", ID: c.id()},
		{Agent: "nobody", ID: there.ID},
		{Agent: "main", ID: "k"},
	} {
		c.wantEach(sessionMethods, c.ctx, d, ref, "of a session that is not there", fs.ErrNotExist)
	}
	c.wantRows("after calls on sessions that are not there", c.list(d, "main"), before)
	c.wantAgents("after calls on sessions that are not there", d, []string{"main"})
}

func callCancelled(c *check) {
	d := c.start()
	row := c.create(d, "main", "k")
	ref := row.Ref()
	before, rows := c.ids(d, ref), c.list(d, "main")
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	for _, methods := range [][]method{sessionMethods, storeMethods} {
		c.wantEach(methods, ctx, d, ref, "under a context that is cancelled", context.Canceled)
	}
	c.wantIDs("the session after calls under a context that is cancelled", c.ids(d, ref), before)
	c.wantRows("after calls under a context that is cancelled", c.list(d, "main"), rows)
	if err := lockError(c.ctx, d, ref, false); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		c.errorf("LockTurn after one under a context that is cancelled: unexpected error %v", err)
	}
}
