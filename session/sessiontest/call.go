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
	call func(c *check, ctx context.Context, d driver.Driver, ref driver.Ref) error
}

// sessionMethods are those that need a session.
var sessionMethods = []method{
	{"Append", func(c *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		_, err := d.Append(ctx, ref, c.triple("a"), driver.Anywhere)
		return err
	}},
	{"Append with a condition", func(c *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		_, err := d.Append(ctx, ref, c.triple("a"), 0)
		return err
	}},
	{"Update", func(c *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		_, err := d.Update(ctx, ref, func(context.Context, driver.Cursor) ([]driver.Line, error) { return c.triple("a"), nil })
		return err
	}},
	{"Scan forward", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		return firstError(ctx, d, ref, driver.Forward)
	}},
	{"Scan backward", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		return firstError(ctx, d, ref, driver.Backward)
	}},
	{"SetCurrent", func(c *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		_, err := d.SetCurrent(ctx, ref, 0, c.current(c.id()))
		return err
	}},
	{"Get", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		_, err := d.Get(ctx, ref)
		return err
	}},
	{"Put", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		return d.Put(ctx, driver.Row{Agent: ref.Agent, ID: ref.ID, Key: "k", Gen: 1, Title: "a title from nowhere"})
	}},
	{"LockTurn without waiting", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		return lockError(ctx, d, ref, false)
	}},
	{"LockTurn", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		return lockError(ctx, d, ref, true)
	}},
	{"Flush", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		return d.Flush(ctx, ref, false)
	}},
	{"Delete", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		return d.Delete(ctx, driver.Anywhere, ref)
	}},
}

// storeMethods are those that do not.
var storeMethods = []method{
	{"LoadOrCreate", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		_, _, err := d.LoadOrCreate(ctx, driver.KeyRef{Agent: ref.Agent, Key: "k"}, header(ref.Agent, "k", "loaded"))
		return err
	}},
	{"LoadOrCreate of a new key", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		_, _, err := d.LoadOrCreate(ctx, driver.KeyRef{Agent: ref.Agent, Key: "new key"}, header(ref.Agent, "new key", "loaded"))
		return err
	}},
	{"Create", func(_ *check, ctx context.Context, d driver.Driver, ref driver.Ref) error {
		_, err := d.Create(ctx, driver.KeyRef{Agent: ref.Agent, Key: "k"}, header(ref.Agent, "k", "created"))
		return err
	}},
	currentMethod("k"),
	{"List of agents", func(_ *check, ctx context.Context, d driver.Driver, _ driver.Ref) error {
		_, err := d.List(ctx, "", driver.Position{}, 0)
		return err
	}},
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
		for _, m := range sessionMethods {
			c.calling(m.name)
			err := m.call(c, c.ctx, d, ref)
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			c.wantErr(m.name+" of a session that is not there", err, fs.ErrNotExist)
		}
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
		for _, m := range methods {
			c.calling(m.name)
			err := m.call(c, ctx, d, ref)
			if errors.Is(err, errors.ErrUnsupported) {
				continue
			}
			c.wantErr(m.name+" under a context that is cancelled", err, context.Canceled)
		}
	}
	c.wantIDs("the session after calls under a context that is cancelled", c.ids(d, ref), before)
	c.wantRows("after calls under a context that is cancelled", c.list(d, "main"), rows)
	if err := lockError(c.ctx, d, ref, false); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		c.errorf("LockTurn after one under a context that is cancelled: unexpected error %v", err)
	}
}
