package pgdriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/convolog/convolog/session/driver"
)

// Options of [Open]. Nil and zero fields are the defaults.
type Options struct {
	// Schema is the schema that holds the tables; empty means "convolog". It is made
	// if it is not there.
	Schema string
	// Async acknowledges appends that the server has not put on stable storage yet,
	// and allows a server that never does (fsync or synchronous_commit off). The
	// last of them may be lost when the server crashes, in order.
	Async bool
	// Lease is how long a turn lock outlives the process that holds it; 0 means 15
	// seconds. It is renewed three times in that time.
	Lease time.Duration
	// Logger receives what a person should know, such as a connection for
	// notifications that was lost. Nil is silent.
	Logger *slog.Logger
}

// Driver is a [driver.Driver] in a PostgreSQL database. It is safe for several
// goroutines.
type Driver struct {
	pool  *pgxpool.Pool
	opts  Options
	sql   *strings.Replacer // of {s}, the schema
	sync  string            // synchronous_commit of a write
	names sync.Map          // of the bodies that were used, by ref

	closing context.Context //nolint:containedctx // done once Close was called
	close   context.CancelFunc

	mu      sync.Mutex
	ops     sync.WaitGroup // calls under way; Add with mu held and the driver open
	queues  map[driver.Ref]*queue
	leases  map[driver.Ref]*lease
	watches watches
}

var _ driver.Driver = (*Driver)(nil)

// Open returns a driver on a database, in which it makes or brings up to date its
// tables. The pool stays the caller's, who closes it after the driver.
//
// It fails if the server would acknowledge what a crash of it can lose, unless
// Options.Async allows that.
func Open(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Driver, error) {
	d := &Driver{pool: pool, queues: map[driver.Ref]*queue{}, leases: map[driver.Ref]*lease{}}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.Schema == "" {
		d.opts.Schema = "convolog"
	}
	if d.opts.Lease <= 0 {
		d.opts.Lease = 15 * time.Second
	}
	if d.opts.Logger == nil {
		d.opts.Logger = slog.New(slog.DiscardHandler)
	}
	d.sql = strings.NewReplacer("{s}", pgx.Identifier{d.opts.Schema}.Sanitize())
	if err := d.durable(ctx); err != nil {
		return nil, fmt.Errorf("pgdriver: open: %w", err)
	}
	if err := d.migrate(ctx); err != nil {
		return nil, fmt.Errorf("pgdriver: open: schema %q: %w", d.opts.Schema, err)
	}
	d.closing, d.close = context.WithCancel(context.Background())
	return d, nil
}

// durable finds out what the server promises with a commit.
func (d *Driver) durable(ctx context.Context) error {
	var fsync string
	err := d.pool.QueryRow(ctx, "SELECT current_setting('synchronous_commit'), current_setting('fsync')", pgx.QueryExecModeExec).Scan(&d.sync, &fsync)
	switch {
	case err != nil:
		return err
	case d.opts.Async:
		d.sync = "off"
	case fsync != "on":
		return errors.New("the server has fsync off, so a crash of it loses what was acknowledged: switch it on, or set Options.Async")
	case d.sync == "off":
		return errors.New("synchronous_commit is off, so a crash of the server loses what was acknowledged: switch it on, or set Options.Async")
	}
	return nil
}

// enter begins a call, which ends with d.ops.Done.
func (d *Driver) enter(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.ready(ctx)
	if err == nil {
		d.ops.Add(1)
	}
	return err
}

// ready returns why a call cannot go on, if it cannot.
func (d *Driver) ready(ctx context.Context) error {
	if d.closing.Err() != nil {
		return driver.ErrClosed
	}
	return ctx.Err()
}

// Close implements [driver.Driver]. The pool stays open.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closing.Err() != nil {
		d.mu.Unlock()
		return fmt.Errorf("pgdriver: close: %w", driver.ErrClosed)
	}
	d.close()
	d.mu.Unlock()
	d.ops.Wait()
	d.endWatches(driver.ErrClosed)
	return nil
}

// writeTime is how long a write may take once it has begun, a failover of the server
// included. It goes on when its context is done.
const writeTime = time.Minute

// begun is ctx for a write that has begun.
func begun(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTime)
}

// row asks for one row. Statements are never prepared, which poolers in transaction
// mode demand.
func (d *Driver) row(ctx context.Context, sql string, args ...any) pgx.Row {
	return d.pool.QueryRow(ctx, d.sql.Replace(sql), append([]any{pgx.QueryExecModeExec}, args...)...)
}

func (d *Driver) rows(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return d.pool.Query(ctx, d.sql.Replace(sql), append([]any{pgx.QueryExecModeExec}, args...)...)
}

func (d *Driver) exec(ctx context.Context, sql string, args ...any) (affected int64, err error) {
	tag, err := d.pool.Exec(ctx, d.sql.Replace(sql), append([]any{pgx.QueryExecModeExec}, args...)...)
	return tag.RowsAffected(), err
}

var errNoSession = fmt.Errorf("there is no such session: %w", fs.ErrNotExist)

// missing makes a session that is not there of a row that is not there.
func missing(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoSession
	}
	return err
}

// fail says which call on which session failed. Nil stays nil.
func fail(op string, ref driver.Ref, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgdriver: %s: session %q of agent %q: %w", op, ref.ID, ref.Agent, err)
}

func failKey(op, agent, key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgdriver: %s: key %q of agent %q: %w", op, key, agent, err)
}
