package pgdriver

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"

	"github.com/convolog/convolog/session/driver"
)

// patience is how long a call retries while the server is away. A restart and most
// failovers take less time.
const patience = 30 * time.Second

// reading returns the context of a call that only reads.
func reading(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, patience)
}

// writing returns the context of a write. A begun write ignores the end of ctx, but does not
// wait for a lock after the deadline of ctx.
func writing(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = context.WithValue(ctx, lockLimit{}, limitOf(ctx))
	return context.WithTimeout(context.WithoutCancel(ctx), patience)
}

// lockLimit is the context key of the time until which a write waits for locks.
type lockLimit struct{}

func limitOf(ctx context.Context) time.Time {
	if limit, ok := ctx.Value(lockLimit{}).(time.Time); ok {
		return limit
	}
	limit := time.Now().Add(patience - patience/10) // before the context ends, so that the server reports the lock
	if end, ok := ctx.Deadline(); ok && end.Before(limit) {
		limit = end
	}
	return limit
}

// lockWait returns the lock_timeout of a write that begins now, in milliseconds.
func lockWait(ctx context.Context) string {
	return strconv.FormatInt(max(time.Until(limitOf(ctx)).Milliseconds(), 1), 10)
}

// persist calls do until it succeeds, or fails for a reason that a retry cannot cure. If the
// outcome of a transaction is unknown, settled checks whether it was committed. A nil settled
// means that repeating do is harmless.
func (d *Driver) persist(ctx context.Context, do func(context.Context) error, settled func(context.Context) (bool, error)) error {
	unsure := false
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var err error
		if unsure {
			var done bool
			if done, err = settled(ctx); done && err == nil {
				return nil
			}
			unsure = err != nil
		}
		if !unsure {
			err = do(ctx)
		}
		switch {
		case err == nil:
			return nil
		case !unsure && interrupted(err) && settled != nil:
			unsure = true
		case unprepared(err):
			d.direct.Store(false) // the connection leads to a pooler after all
		case !interrupted(err) && (!again(err) || isCode(err, lockTimeout) && !unsure):
			return d.outcomeOf(unsure, err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return d.outcomeOf(unsure, err)
		}
	}
}

// unknown means that a write may or may not be committed: the server went away before it
// answered, and did not come back in time.
func unknown(err error) error { return &driver.NotDurableError{Path: "PostgreSQL", Err: err} }

// outcomeOf adds advice to an error.
func (d *Driver) outcomeOf(unsure bool, err error) error {
	switch {
	case unsure:
		return unknown(err)
	case isCode(err, lockTimeout):
		return fmt.Errorf("another client of the database holds the lock of the session until the deadline, nothing was written: look for its transaction in pg_locks: %w: %w",
			context.DeadlineExceeded, err)
	case isCode(err, noPrivilege):
		return fmt.Errorf("the role %q lacks a right: open the driver once with a role that may make the tables, and grant this role the rights in the documentation of the package: %w", d.pool.Config().ConnConfig.User, err)
	}
	return err
}

// Error codes of the server.
const (
	lockTimeout = "55P03"
	diskFull    = "53100"
	noPrivilege = "42501"
)

func isCode(err error, code string) bool {
	e, answered := errors.AsType[*pgconn.PgError](err)
	return answered && e.Code == code
}

// interrupted reports whether the outcome of a transaction is unknown. A server may also end
// a connection after the commit. So an error proves a failed transaction only if it leaves
// the connection usable. pgconn.SafeToRetry is not used: if a connection breaks while the
// answers of a batch are read, it reports a connection that was closed before (pgx 5.12).
func interrupted(err error) bool {
	if _, unsent := errors.AsType[notSent](err); unsent {
		return false
	}
	if e, answered := errors.AsType[*pgconn.PgError](err); answered {
		return e.SeverityUnlocalized != "ERROR" && e.Severity != "ERROR"
	}
	return lost(err)
}

// lost reports whether an error is about the connection or a deadline.
func lost(err error) bool {
	return !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, puddle.ErrClosedPool) && !isVerdict(err)
}

// A verdict is an error that this package made from an answer of the server.
type verdict struct{ error }

func (e verdict) Unwrap() error { return e.error }

func isVerdict(err error) bool {
	_, ok := errors.AsType[verdict](err)
	return ok
}

// again reports whether a transaction that was rolled back, or never began, may succeed the
// next time.
func again(err error) bool {
	e, answered := errors.AsType[*pgconn.PgError](err)
	if !answered {
		return lost(err) // there was no connection
	}
	switch e.Code {
	case "40001", "40P01", // serialization failure, deadlock
		lockTimeout,
		"57P01", "57P02", "57P03", // the server is being stopped or started
		"25006": // read only: a replica after a failover
		return true
	}
	return e.Code[:2] == "08" || e.Code[:2] == "53" && e.Code != diskFull // connection, resources
}

// unprepared reports whether a prepared statement was missing or already existed, because a
// pooler chose another process of the server. Then the statement had no effect.
func unprepared(err error) bool {
	e, answered := errors.AsType[*pgconn.PgError](err)
	return answered && (e.Code == "26000" || e.Code == "42P05")
}

// notSent is an error that came before a statement was sent.
type notSent struct{ error }

func (e notSent) Unwrap() error { return e.error }
