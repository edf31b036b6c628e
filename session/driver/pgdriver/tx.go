package pgdriver

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/driver"
)

// WithTx returns a context whose appends belong to a transaction of the caller: they are
// there when it commits, and never were when it rolls back. The transaction is one of the
// database of the driver, and keeps its own synchronous_commit.
//
//	tx, err := pool.Begin(ctx)
//	_, err = s.Append(pgdriver.WithTx(ctx, tx), transcript.UserText(text))
//	_, err = tx.Exec(ctx, "INSERT INTO orders ...")
//	err = tx.Commit(ctx)
//
// Reads with the context, lists included, show the appends of the transaction, and reads with
// other contexts do not. After a failed append the transaction is as it was before, but a
// lost connection ends it, and nothing is retried. Blobs are written at once: after a
// rollback they stay until the session is deleted.
//
// The transaction locks each session that it appends to. Other appends to the session wait
// until it ends, even in the same goroutine: so it should be short, and the calls on the
// session use its context. It also stops the renewal of a turn lock on the session, so a turn
// of any process is lost if the transaction takes longer than [Options].Lease. A compaction,
// a fork, a turn lock, a change of the state, a rewrite and a deletion with the context fail:
// take the lock before the transaction, and release it after. A creation is outside of the
// transaction.
//
// Each call with the context reads the session since its last compaction. The server
// notifies followers at the commit. With a pooler that drops notifications they may learn of
// it only with the next change of the store.
func WithTx(ctx context.Context, tx pgx.Tx) context.Context {
	return driver.Tentative(context.WithValue(ctx, inside{}, scope{tx, pgx.QueryExecModeExec}))
}

// inside is the context key of a [scope]. Scans of a decide function use its transaction: a
// call never waits for a second connection while it holds one. With a nil driver it is a
// transaction of the caller, which some methods join.
type inside struct{ d *Driver }

// A scope is a transaction that calls belong to.
type scope struct {
	pgx.Tx
	mode pgx.QueryExecMode
}

// joining returns a context whose calls belong to the transaction of [WithTx], if there is
// one.
func (d *Driver) joining(ctx context.Context) context.Context {
	if tx, ok := ctx.Value(inside{}).(scope); ok && ctx.Value(inside{d}) == nil {
		return context.WithValue(ctx, inside{d}, tx)
	}
	return ctx
}

// inside returns the transaction that the calls with ctx belong to, if any.
func (d *Driver) inside(ctx context.Context) (scope, bool) {
	tx, ok := ctx.Value(inside{d}).(scope)
	return tx, ok
}

// appendIn carries out an append in a savepoint of the caller's transaction. It restores the
// settings of the transaction, and notifies of the append when that commits. It retries
// nothing, because a lost connection ends the transaction.
func (d *Driver) appendIn(ctx context.Context, tx scope, c *call, write func(context.Context, *call) error) error {
	return pgx.BeginFunc(ctx, tx, func(point pgx.Tx) error {
		var wait string
		err := point.QueryRow(ctx, "SELECT current_setting('lock_timeout'), current_setting('synchronous_commit')", tx.mode).Scan(&wait, &c.sync)
		if err == nil {
			err = write(context.WithValue(ctx, inside{d}, scope{point, tx.mode}), c)
		}
		if err != nil {
			return d.outcomeOf(false, err)
		}
		_, err = point.Exec(ctx, "SELECT set_config('lock_timeout', $1, true), pg_notify($2, $3)", tx.mode, wait, d.channel(), payload(c.ref))
		return err
	})
}

// mode returns how statements are sent with ctx. On a direct connection they are prepared
// once, which saves planning. A pooler in transaction mode may give each statement to
// another process of the server, so there they are not prepared, and neither on a
// connection of the caller.
func (d *Driver) mode(ctx context.Context) pgx.QueryExecMode {
	if tx, ok := d.inside(ctx); ok {
		return tx.mode
	}
	if d.direct.Load() {
		return pgx.QueryExecModeCacheStatement
	}
	return pgx.QueryExecModeExec
}

// args puts the query mode before the arguments of a statement.
func (d *Driver) args(ctx context.Context, args []any) []any {
	return append([]any{d.mode(ctx)}, args...)
}

// transaction calls do with a context of the transaction that ctx belongs to, or else of a
// new one.
func (d *Driver) transaction(ctx context.Context, do func(context.Context) error) error {
	if _, ok := d.inside(ctx); ok {
		return do(ctx)
	}
	began := false
	err := pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { // the role may have another default
		began = true
		return do(context.WithValue(ctx, inside{d}, scope{tx, d.mode(ctx)}))
	})
	if err != nil && !began {
		err = notSent{err}
	}
	return err
}
