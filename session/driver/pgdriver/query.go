package pgdriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/convolog/convolog/session/driver"
)

// A querier is a connection, a transaction or a pool.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// A query is one statement that yields one row.
type query struct {
	d    *Driver
	ctx  context.Context //nolint:containedctx // until Scan
	sql  string
	args []any
}

// row returns a query for one row. Its Scan retries while the server is away.
func (d *Driver) row(ctx context.Context, sql string, args ...any) query {
	return query{d, ctx, d.sql.Replace(sql), args}
}

// Scan implements [pgx.Row].
func (q query) Scan(to ...any) error {
	ctx, cancel := reading(q.ctx)
	defer cancel()
	return q.d.retry(ctx, func(ctx context.Context, c querier) error { return q.scan(ctx, c, to) })
}

// once is Scan without retries.
func (q query) once(ctx context.Context, to ...any) error {
	return q.d.connected(ctx, func(c querier) error { return q.scan(ctx, c, to) })
}

func (q query) scan(ctx context.Context, c querier, to []any) error {
	return c.QueryRow(ctx, q.sql, q.d.args(ctx, q.args)...).Scan(to...)
}

// call calls a function, and repeats it only if settled finds that it had no effect.
func (d *Driver) call(ctx context.Context, q query, settled func(context.Context) (bool, error), to ...any) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := writing(ctx)
	defer cancel()
	return d.persist(ctx, func(ctx context.Context) error { return q.once(ctx, to...) }, settled)
}

var (
	errNoSession error = verdict{fmt.Errorf("there is no such session: %w", fs.ErrNotExist)}
	errInUse           = fmt.Errorf("the ID is in use, nothing was written: %w", fs.ErrExist)
	errAgain           = errors.New("another call has taken the gen of the key")
)

// statuses are the errors of the functions of the database.
var statuses = map[string]error{
	"ok":       nil,
	"gone":     errNoSession,
	"archived": driver.ErrArchived,
	"replaced": driver.ErrReplaced,
	"conflict": driver.ErrConflict,
	"fenced":   errLeaseLost,
	"full":     errFull,
	"exists":   errInUse,
	"again":    errAgain,
	"unlocked": errLockLost,
	"made":     fs.ErrExist,
}

// errorOf returns the error of a status. Gen is the gen that a call has given.
func errorOf(status string, gen int64) error {
	err, known := statuses[status]
	switch {
	case status == "taken":
		return fmt.Errorf("another session of the key also has gen %d: delete that session, or copy into another store; nothing was written: %w", gen, fs.ErrExist)
	case !known:
		return fmt.Errorf("a function returned %q: the tables are of another version", status)
	}
	return err
}

// missing turns the error of a missing row into errNoSession.
func missing(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoSession
	}
	return err
}

// collect returns the rows of a query. If the connection is lost, it repeats the query.
func collect[T any](ctx context.Context, d *Driver, read pgx.RowToFunc[T], sql string, args ...any) (all []T, err error) {
	ctx, cancel := reading(ctx)
	defer cancel()
	args = append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)
	err = d.retry(ctx, func(ctx context.Context, c querier) error {
		rows, err := c.Query(ctx, d.sql.Replace(sql), d.args(ctx, args)...)
		if err == nil {
			all, err = pgx.CollectRows(rows, read)
		}
		return err
	})
	return all, err
}

// exec executes a statement. The statement may be carried out twice.
func (d *Driver) exec(ctx context.Context, sql string, args ...any) (affected int64, err error) {
	ctx, cancel := writing(ctx)
	defer cancel()
	do := func(ctx context.Context, c querier) error {
		tag, err := c.Exec(ctx, d.sql.Replace(sql), d.args(ctx, args)...)
		affected = tag.RowsAffected()
		return err
	}
	if tx, ok := d.inside(ctx); ok { // a sweep of blobs inside decide, whose failure must not end the transaction
		err = pgx.BeginFunc(ctx, tx, func(point pgx.Tx) error { return do(ctx, point) })
	} else {
		err = d.retry(ctx, do)
	}
	return affected, err
}

// retry is connected, again if the server goes away.
func (d *Driver) retry(ctx context.Context, do func(context.Context, querier) error) error {
	if tx, ok := d.inside(ctx); ok {
		return do(ctx, tx)
	}
	return d.persist(ctx, func(ctx context.Context) error {
		return d.connected(ctx, func(c querier) error { return do(ctx, c) })
	}, nil)
}

// connected calls do with the transaction that ctx belongs to, or else with a connection of
// the pool.
func (d *Driver) connected(ctx context.Context, do func(querier) error) error {
	if tx, ok := d.inside(ctx); ok {
		return do(tx)
	}
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return notSent{err}
	}
	defer conn.Release()
	return do(conn)
}
