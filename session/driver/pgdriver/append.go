package pgdriver

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/convolog/convolog/session/driver"
)

// An outcome is the result of the SQL function append. The body is 0 if there is no session.
type outcome struct {
	status           string
	body, start, end int64
}

// A call is one append in progress.
type call struct {
	ref   driver.Ref
	at    driver.Cursor
	body  int64  // the body that the caller knows; 0 matches any body
	fence int64  // the fence of the turn that this process holds; 0 without a turn
	sync  string // synchronous_commit of its transaction
	lines lines
	// attempt names the last attempt to write the lines. After a lost connection
	// the server may still carry it out, so it is revoked before the next attempt.
	attempt pgtype.UUID
	out     outcome
}

// Append implements [driver.Driver].
//
// While this driver holds the turn lock of the session, an append fails with
// [driver.ErrBusy] if the lease has ended. That happens if the process paused for longer
// than the lease.
//
// If the connection is lost before the server answers, Append waits for the server and
// checks whether the lines were written. After half a minute it gives up with an
// [*driver.NotDurableError].
func (d *Driver) Append(ctx context.Context, ref driver.Ref, all []driver.Line, at driver.Cursor, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) (res driver.Result, err error) {
	lines, err := linesOf(all)
	if err != nil {
		return res, fail("append", ref, err)
	}
	err = d.on(ctx, "append", ref, func() (err error) {
		res, err = d.append(d.joining(ctx), ref, func(ctx context.Context, c *call) error {
			c.at, c.lines = at, lines
			if decide == nil || len(all) > 0 {
				if err := d.send(ctx, c); err != nil || decide == nil || c.out.status != "conflict" {
					return err
				}
			}
			return d.decided(ctx, c, decide)
		})
		return err
	})
	return res, err
}

// decided appends the lines that decide returns. It first appends no lines, which locks the
// row of the session until the end of the transaction.
func (d *Driver) decided(ctx context.Context, c *call, decide func(context.Context, driver.Cursor) ([]driver.Line, error)) error {
	return d.transaction(ctx, func(ctx context.Context) error {
		c.at = min(c.at, ^c.at)
		c.lines, _ = linesOf(nil)
		if err := d.send(ctx, c); err != nil || c.out.status != "ok" {
			return err
		}
		decided, err := decide(ctx, cursorOf(c.out.body, c.out.start))
		if err == nil {
			c.lines, err = linesOf(decided)
		}
		if err != nil {
			return verdict{err}
		}
		if len(decided) == 0 {
			return nil
		}
		return d.send(ctx, c)
	})
}

// append carries out a call with write, and returns the result.
func (d *Driver) append(ctx context.Context, ref driver.Ref, write func(context.Context, *call) error) (res driver.Result, err error) {
	ctx, cancel := writing(ctx)
	defer cancel()
	var c *call
	for again := true; again; again = errors.Is(err, errLeaseLost) && c.fence != d.fence(ref) { // the turn was released during the append
		c = &call{ref: ref, body: d.known(ref), fence: d.fence(ref), sync: d.sync}
		if tx, ok := d.inside(ctx); ok {
			err = d.appendIn(ctx, tx, c, write)
		} else {
			err = d.persist(ctx, func(ctx context.Context) error { return write(ctx, c) }, c.settled(d))
		}
		if err == nil {
			err = errorOf(c.out.status, 0)
		}
		switch {
		case c.out.body > 0:
			d.names.Store(ref, c.out.body)
		case errors.Is(err, errNoSession):
			d.names.Delete(ref)
		}
	}
	if err != nil {
		return res, err
	}
	if _, ok := d.inside(ctx); len(c.lines.ids) > 0 && !ok { // else the server notifies at the commit
		d.changed(ref)
	}
	return driver.Result{Start: cursorOf(c.out.body, c.out.start), End: cursorOf(c.out.body, c.out.end)}, nil
}

var errLeaseLost = fmt.Errorf("the turn lease of this process has ended, nothing was written: end the turn and begin another one: %w", driver.ErrBusy)

// known returns the body of a session that this driver used last, or 0.
func (d *Driver) known(ref driver.Ref) int64 {
	body, _ := d.names.Load(ref)
	n, _ := body.(int64)
	return n
}

// send calls the function append in one round trip.
func (d *Driver) send(ctx context.Context, c *call) error {
	body, at := c.body, int64(driver.Anywhere)
	if known := max(c.at, ^c.at); known > 0 {
		body = int64(known) >> lineBits
	}
	if c.at >= 0 {
		at = int64(c.at) & maxLines
	}
	c.attempt = newAttempt()
	l := &c.lines
	var out string
	c.out = outcome{}
	err := d.row(ctx, "SELECT {s}.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)", c.ref.Agent, c.ref.ID, body, c.fence, c.sync, lockWait(ctx), c.attempt, at, l.ids, l.data, l.bytes).once(ctx, &out)
	_, _ = fmt.Sscan(out, &c.out.status, &c.out.body, &c.out.start, &c.out.end) // without a session only the status
	return err
}

// settled returns a function that checks whether an unanswered call was committed.
func (c *call) settled(d *Driver) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		if len(c.lines.ids) == 0 {
			return false, nil
		}
		var body, seq *int64
		found, err := d.look(ctx, c.ref, c.lines.ids[0], c.lines.data[0], c.attempt, &body, &seq)
		if err != nil || !found {
			return false, err
		}
		start := *seq - 1
		c.out = outcome{"ok", *body, start, start + int64(len(c.lines.ids))}
		return true, nil
	}
}

// look reports whether a session contains a line, after a wait for calls that write to the
// session. If the line is missing, look revokes the attempt to append it. The attempt may
// be nil.
func (d *Driver) look(ctx context.Context, ref driver.Ref, id string, data []byte, attempt any, body, seq **int64) (bool, error) {
	var archived *bool
	err := d.row(ctx, "SELECT o_body, o_seq, o_archived FROM {s}.look($1, $2, $3, $4, $5)", ref.Agent, ref.ID, id, data, attempt).once(ctx, body, seq, &archived)
	if err == nil && *seq == nil && archived != nil && *archived {
		err = verdict{driver.ErrArchived} // the line may be in a block
	}
	return *seq != nil, err
}
