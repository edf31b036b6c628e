package pgdriver

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/convolog/convolog/session/driver"
)

// Options of [Open]. Nil and zero fields are the defaults.
type Options struct {
	// Schema is the schema of the tables; empty means "convolog". Open makes a missing
	// schema, unless Existing is set. The name has at most 63 bytes, and no quote, dollar sign, '{', backslash or
	// control character.
	Schema string
	// Existing makes Open fail with an error that matches [fs.ErrNotExist] if the schema
	// holds no store, and make nothing. It is for programs that only read.
	Existing bool
	// Async acknowledges appends before the server has put them on stable storage, and
	// allows a server that never does so (fsync or synchronous_commit off). A crash of the
	// server may lose the last of these appends, in order. Delete, Rewrite and other
	// removals of words still wait for stable storage.
	Async bool
	// Lease is how long a lock outlives the process that holds it; 0 means 15 seconds. It
	// is renewed three times in that time.
	Lease time.Duration
	// Logger receives warnings, such as the loss of the connection for notifications. Nil
	// discards them.
	Logger *slog.Logger
}

// Driver is a [driver.Driver] in a PostgreSQL database. It is safe for several
// goroutines.
type Driver struct {
	pool *pgxpool.Pool
	opts Options
	sql  *strings.Replacer // replaces {s} by the schema, and {max} by maxLines
	sync string            // synchronous_commit of a write
	// strict is synchronous_commit of a removal, which ignores Options.Async.
	strict string
	names  sync.Map // the last known body of each session, by ref
	// direct is set if connections lead to the server itself, and not to a pooler.
	direct atomic.Bool

	closing context.Context //nolint:containedctx // done after Close is called
	close   context.CancelFunc

	mu      sync.Mutex
	ops     sync.WaitGroup // calls in progress; Add with mu held and the driver open
	leases  map[driver.Ref]*lease
	locks   locks
	watches watches
}

var _ driver.Driver = (*Driver)(nil)

// Open returns a driver on a database, and makes missing tables unless Options.Existing is
// set. The caller closes the pool, after the driver.
//
// Unless Options.Async is set, Open fails if fsync or synchronous_commit is off: a crash of
// the server could then lose acknowledged commits.
func Open(ctx context.Context, pool *pgxpool.Pool, opts *Options) (*Driver, error) {
	d := &Driver{pool: pool, leases: map[driver.Ref]*lease{}, locks: locks{all: map[string]pgtype.UUID{}}}
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
	if !utf8.ValidString(d.opts.Schema) || len(d.opts.Schema) > maxName ||
		strings.ContainsFunc(d.opts.Schema, func(r rune) bool { return unicode.IsControl(r) || strings.ContainsRune(`"'$\{`, r) }) {
		return nil, fmt.Errorf("pgdriver: open: %w", &driver.NameError{What: "schema", Name: d.opts.Schema, Rule: "at most 63 bytes without quotes, '$', '{' and backslashes"})
	}
	d.sql = strings.NewReplacer("{s}", pgx.Identifier{d.opts.Schema}.Sanitize(), "{max}", strconv.Itoa(maxLines))
	if err := d.durable(ctx); err != nil {
		return nil, fmt.Errorf("pgdriver: open: %w", err)
	}
	if err := d.migrate(ctx); err != nil {
		return nil, fmt.Errorf("pgdriver: open: schema %q: %w", d.opts.Schema, err)
	}
	d.closing, d.close = context.WithCancel(context.Background())
	return d, nil
}

// maxName is the longest name in PostgreSQL, in bytes. PostgreSQL truncates longer names,
// so two names could become one.
const maxName = 63

// durable reads and checks the durability settings of the server. It detects a pooler by a
// process ID that differs from the backend's ID.
func (d *Driver) durable(ctx context.Context) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	var fsync string
	var pid uint32
	err = conn.QueryRow(ctx, "SELECT current_setting('synchronous_commit'), current_setting('fsync'), pg_backend_pid()", pgx.QueryExecModeExec).Scan(&d.sync, &fsync, &pid)
	d.direct.Store(pid == conn.Conn().PgConn().PID())
	if d.strict = d.sync; d.sync == "off" {
		d.strict = "on"
	}
	switch {
	case err != nil:
		return err
	case d.opts.Async:
		d.sync = "off"
	case fsync != "on":
		return errors.New("fsync is off, so a crash of the server loses acknowledged commits: switch it on, or set Options.Async")
	case d.sync == "off":
		return errors.New("synchronous_commit is off, so a crash of the server loses acknowledged commits: switch it on, or set Options.Async")
	}
	return nil
}

// enter begins a call. The caller ends it with d.ops.Done.
func (d *Driver) enter(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.ready(ctx)
	if err == nil {
		d.ops.Add(1)
	}
	return err
}

// ready returns an error if the driver is closed or ctx is done.
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

// acquire takes a connection from the pool. Its error means that no statement was sent.
func (d *Driver) acquire(ctx context.Context) (*pgxpool.Conn, error) {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return nil, notSent{err}
	}
	return conn, nil
}

// Scan implements [pgx.Row].
func (q query) Scan(to ...any) error {
	ctx, cancel := reading(q.ctx)
	defer cancel()
	if tx, ok := q.d.inside(ctx); ok {
		return tx.QueryRow(ctx, q.sql, q.d.args(ctx, q.args)...).Scan(to...)
	}
	return q.d.persist(ctx, func(ctx context.Context) error { return q.once(ctx, to...) }, nil)
}

func (q query) once(ctx context.Context, to ...any) error {
	conn, err := q.d.acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return conn.QueryRow(ctx, q.sql, q.d.args(ctx, q.args)...).Scan(to...)
}

// rows passes the rows of a query to take. If the connection is lost, it repeats the query
// and calls take again.
func (d *Driver) rows(ctx context.Context, take func(pgx.Rows) error, sql string, args ...any) error {
	ctx, cancel := reading(ctx)
	defer cancel()
	args = append([]any{pgx.QueryResultFormats{pgx.BinaryFormatCode}}, args...)
	ask := func(ctx context.Context, q interface {
		Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	},
	) error {
		rows, err := q.Query(ctx, d.sql.Replace(sql), d.args(ctx, args)...)
		if err != nil {
			return err
		}
		defer rows.Close()
		if err := take(rows); err != nil {
			return err
		}
		return rows.Err()
	}
	if tx, ok := d.inside(ctx); ok {
		return ask(ctx, tx)
	}
	return d.persist(ctx, func(ctx context.Context) error { return ask(ctx, d.pool) }, nil)
}

// exec executes a statement. The statement may be carried out twice.
func (d *Driver) exec(ctx context.Context, sql string, args ...any) (affected int64, err error) {
	ctx, cancel := writing(ctx)
	defer cancel()
	if tx, ok := d.inside(ctx); ok { // a sweep of blobs inside decide
		err := pgx.BeginFunc(ctx, tx, func(point pgx.Tx) error { // a failure must not end the transaction
			tag, err := point.Exec(ctx, d.sql.Replace(sql), d.args(ctx, args)...)
			affected = tag.RowsAffected()
			return err
		})
		return affected, err
	}
	err = d.persist(ctx, func(ctx context.Context) error {
		tag, err := d.pool.Exec(ctx, d.sql.Replace(sql), d.args(ctx, args)...)
		affected = tag.RowsAffected()
		return err
	}, nil)
	return affected, err
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

var errNoSession error = verdict{fmt.Errorf("there is no such session: %w", fs.ErrNotExist)}

// missing turns the error of a missing row into errNoSession.
func missing(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return errNoSession
	}
	return err
}

// fail adds the operation and the session to an error. Nil stays nil.
func fail(op string, ref driver.Ref, err error) error {
	if err == nil || misnamed(err) {
		return failOn(op, err)
	}
	return fmt.Errorf("pgdriver: %s: session %q of agent %q: %w", op, ref.ID, ref.Agent, err)
}

func failKey(op string, key driver.KeyRef, err error) error {
	if err == nil || misnamed(err) {
		return failOn(op, err)
	}
	return fmt.Errorf("pgdriver: %s: key %q of agent %q: %w", op, key.Key, key.Agent, err)
}

// failOn is like fail for an error that already names its subject.
func failOn(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("pgdriver: %s: %w", op, err)
}

// misnamed reports whether err is about an invalid name, which the error quotes.
func misnamed(err error) bool {
	_, ok := errors.AsType[*driver.NameError](err)
	return ok
}
