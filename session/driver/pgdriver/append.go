package pgdriver

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/convolog/convolog/session/driver"
)

// callAppend yields one record, which only a prepared statement can read, in binary form.
// callAppendFrom yields a table and costs more.
const (
	callAppend     = "SELECT {s}.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)"
	callAppendFrom = "SELECT * FROM {s}.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11)"
)

// An outcome is the result of the SQL function append.
type outcome struct {
	status           string
	body, start, end pgtype.Int8
}

func (o *outcome) fields() pgtype.CompositeFields {
	return pgtype.CompositeFields{&o.status, &o.body, &o.start, &o.end}
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
// [*UnknownError].
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
		decided, err := decide(ctx, cursorOf(c.out.body.Int64, c.out.start.Int64))
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
		case c.out.body.Valid:
			d.names.Store(ref, c.out.body.Int64)
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
	return driver.Result{Start: cursorOf(c.out.body.Int64, c.out.start.Int64), End: cursorOf(c.out.body.Int64, c.out.end.Int64)}, nil
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
	q := d.row(ctx, callAppendFrom, c.ref.Agent, c.ref.ID, body, c.fence, c.sync, lockWait(ctx), c.attempt, at, l.ids, l.data, l.bytes)
	if d.mode(ctx) == pgx.QueryExecModeCacheStatement {
		q.sql = d.sql.Replace(callAppend)
		return q.once(ctx, c.out.fields())
	}
	return q.once(ctx, c.out.fields()...)
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
		c.out = outcome{"ok", valid(*body), valid(start), valid(start + int64(len(c.lines.ids)))}
		return true, nil
	}
}

func valid(n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: true} }

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
