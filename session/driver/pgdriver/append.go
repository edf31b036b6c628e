package pgdriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/convolog/convolog/session/driver"
)

// callAppend yields one record. FROM would make a table of it, which costs more.
const callAppend = "SELECT {s}.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19)"

// appendTypes are those of the parameters.
var appendTypes = []uint32{
	pgtype.TextOID, pgtype.TextOID, pgtype.Int8OID, pgtype.Int8OID, pgtype.TextOID, pgtype.UUIDOID,
	pgtype.TextOID, pgtype.ByteaOID, pgtype.TextOID, pgtype.Int8OID, pgtype.TextArrayOID,
	pgtype.TextArrayOID, pgtype.TextArrayOID, pgtype.ByteaArrayOID, pgtype.TextOID,
	pgtype.ByteaArrayOID, pgtype.TextArrayOID, pgtype.Int4ArrayOID, pgtype.Int4ArrayOID,
}

// An outcome is what the function append answers.
type outcome struct {
	status           string
	body, start, end pgtype.Int8
	ids              []string
}

func (o *outcome) fields() pgtype.CompositeFields {
	return pgtype.CompositeFields{&o.status, &o.body, &o.start, &o.end, &o.ids}
}

// A call is one append on its way.
type call struct {
	ref   driver.Ref
	cond  driver.Cond
	body  int64 // that the caller knows; 0 is any
	fence int64 // of the turn that this process holds; 0 is none
	lines lines
	// attempt names the last one to write the lines. The server may still have it
	// before it when the connection is lost, so it is revoked before the next.
	attempt pgtype.UUID

	done chan struct{} // closed once the rest is set
	out  outcome
	err  error
}

// A queue holds the appends to one session that wait while others are written: they
// then go into one transaction, as syncs are shared in files.
type queue struct{ waiting []*call }

// maxShared is how many appends share a transaction at most.
const maxShared = 128

// Append implements [driver.Driver]. All lines are searched for an idempotency key,
// and before the other conditions are looked at.
//
// While this driver holds the turn lock of the session, an append fails with
// [driver.ErrBusy] if the lease has ended, as it does in a process that was stopped
// for longer than that.
//
// If the connection is lost before the server has answered, Append finds out whether
// the lines were written, which takes until the server is back. After half a
// minute it gives up with an [*UnknownError].
func (d *Driver) Append(ctx context.Context, ref driver.Ref, all []driver.Line, cond driver.Cond) (driver.Result, error) {
	if err := d.enter(ctx); err != nil {
		return driver.Result{}, fail("append", ref, err)
	}
	defer d.ops.Done()
	res, err := d.append(ctx, ref, all, cond)
	return res, fail("append", ref, err)
}

func (d *Driver) append(ctx context.Context, ref driver.Ref, all []driver.Line, cond driver.Cond) (res driver.Result, err error) {
	if err := driver.CheckRef(ref); err != nil {
		return res, err
	}
	lines, err := linesOf(all)
	if err != nil {
		return res, err
	}
	c, err := d.appendOnce(ctx, ref, lines, cond)
	for errors.Is(err, errLeaseLost) && c.fence != d.fence(ref) { // released while the append was on its way
		c, err = d.appendOnce(ctx, ref, lines, cond)
	}
	if err != nil {
		return res, err
	}
	if c.out.status == "ok" && len(all) > 0 {
		d.changed(ref)
	}
	return driver.Result{
		Start: cursorOf(c.out.body.Int64, c.out.start.Int64), End: cursorOf(c.out.body.Int64, c.out.end.Int64),
		Repeated: c.out.status == "repeated", IDs: c.ids(),
	}, nil
}

// appendOnce appends under the fence of the turn that this driver holds now.
func (d *Driver) appendOnce(ctx context.Context, ref driver.Ref, lines lines, cond driver.Cond) (c *call, err error) {
	c = &call{ref: ref, cond: cond, lines: lines, body: d.known(ref), fence: d.fence(ref), done: make(chan struct{})}
	if cond.Decide != nil {
		err = d.appendDecided(ctx, c)
	} else {
		err = d.share(ctx, c)
	}
	if err != nil {
		return c, err
	}
	return c, d.verdict(c)
}

func (c *call) ids() []string {
	if c.out.status == "repeated" {
		return c.out.ids
	}
	return c.lines.ids
}

var errLeaseLost = fmt.Errorf("the lease of this process's turn has ended, nothing was written: end the turn and begin another one: %w", driver.ErrBusy)

// verdict is the error of an outcome.
func (d *Driver) verdict(c *call) error {
	if c.out.body.Valid {
		d.names.Store(c.ref, c.out.body.Int64)
	}
	switch c.out.status {
	case "ok", "repeated":
		return nil
	case "gone":
		d.names.Delete(c.ref)
		return errNoSession
	case "archived":
		return driver.ErrArchived
	case "replaced":
		return driver.ErrReplaced
	case "fenced":
		return errLeaseLost
	case "mismatch":
		return driver.ErrIdemMismatch
	case "full":
		return errFull
	case "conflict":
		return driver.ErrConflict
	}
	return fmt.Errorf("the function append answers %q: the tables are of another version", c.out.status)
}

// known returns the body that this driver knows of a session, 0 if none.
func (d *Driver) known(ref driver.Ref) int64 {
	body, _ := d.names.Load(ref)
	n, _ := body.(int64)
	return n
}

// args are those of the function append.
func (c *call) args(sync string) ([]any, error) {
	base, err := place(c.cond.Base, c.base())
	if err != nil {
		return nil, err
	}
	if err := checkTexts("condition", append([]string{c.cond.Head, c.cond.IdemHash}, c.cond.Conflicts...)...); err != nil {
		return nil, err
	}
	c.attempt = newAttempt()
	var key []byte
	if c.cond.Idem != "" {
		key = keyHash(c.cond.Idem)
	}
	l := &c.lines
	return []any{
		c.ref.Agent, c.ref.ID, c.base(), c.fence, sync, c.attempt,
		c.cond.Head, key, c.cond.IdemHash, base, append([]string{}, c.cond.Conflicts...),
		l.types, l.ids, l.data, l.head, l.keys, l.hashes, l.starts, l.sizes,
	}, nil
}

// base is the body that the condition refers to.
func (c *call) base() int64 {
	if c.body == 0 && c.cond.Base > 0 {
		return int64(c.cond.Base) >> lineBits
	}
	return c.body
}

// share writes a call, together with others to the same session.
func (d *Driver) share(ctx context.Context, c *call) error {
	d.mu.Lock()
	q := d.queues[c.ref]
	if q == nil {
		q = &queue{}
		d.queues[c.ref] = q
		go d.serve(c.ref, q)
	}
	q.waiting = append(q.waiting, c)
	d.mu.Unlock()
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
	}
	d.mu.Lock()
	i := slices.Index(q.waiting, c)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	d.mu.Unlock()
	if i >= 0 {
		return ctx.Err()
	}
	<-c.done // it has begun
	return c.err
}

// serve writes what waits, until nothing does.
func (d *Driver) serve(ref driver.Ref, q *queue) {
	for {
		d.mu.Lock()
		n := min(len(q.waiting), maxShared)
		if n == 0 {
			delete(d.queues, ref)
			d.mu.Unlock()
			return
		}
		calls := slices.Clone(q.waiting[:n])
		q.waiting = slices.Delete(q.waiting, 0, n)
		d.mu.Unlock()
		d.write(calls)
		for _, c := range calls {
			close(c.done)
		}
	}
}

// write writes calls in one transaction. If that fails each is written by itself, so
// that one which cannot be written does not keep the others from it.
func (d *Driver) write(calls []*call) {
	ctx, cancel := writing(context.Background())
	defer cancel()
	err := d.send(ctx, calls)
	for _, c := range calls {
		if err == nil || c.err != nil {
			continue
		}
		first := err
		if len(calls) > 1 && !interrupted(first) {
			first = nil // it may be about another one
		}
		c.err = d.persist(ctx, func(ctx context.Context) error {
			if first != nil {
				err := first
				first = nil
				return err
			}
			return d.send(ctx, []*call{c})
		}, c.settled(d))
	}
}

// settled finds out whether a call was written whose commit was not answered.
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
		c.out = outcome{"ok", valid(*body), valid(start), valid(start + int64(len(c.lines.ids))), nil}
		return true, nil
	}
}

func valid(n int64) pgtype.Int8 { return pgtype.Int8{Int64: n, Valid: true} }

// look reports whether a session has a line, once nobody else writes to it. If it has
// not, the attempt to append it, nil if there is none, writes nothing any more.
func (d *Driver) look(ctx context.Context, ref driver.Ref, id string, data []byte, attempt any, body, seq **int64) (bool, error) {
	var archived *bool
	err := d.row(ctx, "SELECT o_body, o_seq, o_archived FROM {s}.look($1, $2, $3, $4, $5)", ref.Agent, ref.ID, id, data, attempt).once(ctx, body, seq, &archived)
	if err == nil && *seq == nil && archived != nil && *archived {
		err = verdict{driver.ErrArchived} // the line may be in a block
	}
	return *seq != nil, err
}

// send makes one round trip. A nil error says that the transaction was committed,
// and then each call has its outcome or an error of its own.
func (d *Driver) send(ctx context.Context, calls []*call) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return d.sendOn(ctx, conn.Conn(), calls)
}

// sendOn is send on a connection, in its transaction if there is one.
func (d *Driver) sendOn(ctx context.Context, conn *pgx.Conn, calls []*call) error {
	sql := d.sql.Replace(callAppend)
	statement := ""
	if d.direct.Load() {
		prepared, err := conn.Prepare(ctx, sql, sql)
		if err != nil {
			return notSent{err}
		}
		statement = prepared.Name
	}
	batch, sent := &pgconn.Batch{}, make([]*call, 0, len(calls))
	for _, c := range calls {
		args, err := c.args(d.sync)
		if err == nil {
			err = appendParams(batch, conn.TypeMap(), statement, sql, args)
		}
		if err != nil {
			err = verdict{err}
		}
		if c.err = err; err == nil {
			sent = append(sent, c)
		}
	}
	var err error
	results := conn.PgConn().ExecBatch(ctx, batch)
	for _, c := range sent {
		if !results.NextResult() {
			break // Close says why
		}
		r := results.ResultReader()
		for r.NextRow() {
			c.out, err = readOutcome(conn.TypeMap(), r)
		}
		if _, closeErr := r.Close(); err != nil || closeErr != nil {
			break
		}
	}
	return cmp.Or(results.Close(), err)
}

// appendParams adds a query, prepared or not, with its parameters in binary form.
func appendParams(batch *pgconn.Batch, types *pgtype.Map, statement, sql string, args []any) error {
	values, formats := make([][]byte, len(args)), make([]int16, len(args))
	for i, arg := range args {
		formats[i] = pgx.BinaryFormatCode
		value, err := types.Encode(appendTypes[i], pgx.BinaryFormatCode, arg, []byte{}) // nil is NULL
		if err != nil {
			return fmt.Errorf("parameter %d: %w", i+1, err)
		}
		values[i] = value
	}
	if statement != "" {
		batch.ExecPrepared(statement, values, formats, []int16{pgx.BinaryFormatCode})
	} else {
		batch.ExecParams(sql, values, appendTypes, formats, []int16{pgx.BinaryFormatCode})
	}
	return nil
}

func readOutcome(types *pgtype.Map, r *pgconn.ResultReader) (out outcome, err error) {
	field := r.FieldDescriptions()[0]
	return out, types.Scan(field.DataTypeOID, field.Format, r.Values()[0], out.fields())
}

// appendDecided is share for a call whose function decides on the lines: with the row of
// the session locked by an append of none.
func (d *Driver) appendDecided(ctx context.Context, c *call) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := writing(ctx)
	defer cancel()
	return d.persist(ctx, func(ctx context.Context) error {
		return d.transaction(ctx, func(tx pgx.Tx) error {
			c.lines, _ = linesOf(nil)
			if err := cmp.Or(d.sendOn(ctx, tx.Conn(), []*call{c}), c.err); err != nil || c.out.status != "ok" {
				return err
			}
			decided, err := c.cond.Decide(context.WithValue(ctx, inside{d}, tx), cursorOf(c.out.body.Int64, c.out.start.Int64))
			if err == nil {
				c.lines, err = linesOf(decided)
			}
			if err != nil {
				return verdict{err}
			}
			if len(decided) == 0 {
				return nil
			}
			return cmp.Or(d.sendOn(ctx, tx.Conn(), []*call{c}), c.err)
		})
	}, c.settled(d))
}

// inside is the key of the transaction in the context that a Decide is given. Its scans
// use that, so that a call never waits for a second connection while it holds one.
type inside struct{ d *Driver }

// decidingIn returns the transaction of the Decide that ctx belongs to, if it belongs to
// one.
func (d *Driver) decidingIn(ctx context.Context) (pgx.Tx, bool) {
	tx, ok := ctx.Value(inside{d}).(pgx.Tx)
	return tx, ok
}

// transaction runs do in a transaction.
func (d *Driver) transaction(ctx context.Context, do func(pgx.Tx) error) error {
	conn, err := d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, do) // whatever the role's default is
}
