package pgdriver

import (
	"context"
	"errors"
	"fmt"
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
	// schema, unless Existing is set. The name has at most 63 bytes, and no quote, dollar
	// sign, '{', backslash or control character.
	Schema string
	// Existing makes Open fail with an error that matches [io/fs.ErrNotExist] if the schema
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
	case fsync == "off" || d.sync == "off":
		return errors.New("fsync or synchronous_commit is off, so a crash of the server loses acknowledged commits: switch it on, or set Options.Async")
	}
	return nil
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
	d.tell(driver.Ref{}, driver.ErrClosed)
	return nil
}

// on calls do in a call on a session, and adds the operation and the session to its error.
func (d *Driver) on(ctx context.Context, op string, ref driver.Ref, do func() error) error {
	return fail(op, ref, d.during(ctx, func() error {
		if err := driver.CheckRef(ref); err != nil {
			return err
		}
		return do()
	}))
}

// during calls do in a call, which Close waits for.
func (d *Driver) during(ctx context.Context, do func() error) error {
	d.mu.Lock()
	err := d.ready(ctx)
	if err == nil {
		d.ops.Add(1)
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	defer d.ops.Done()
	return do()
}

// fail adds the operation and its session or key to an error, unless that quotes an invalid
// name. Nil stays nil.
func fail(op string, of any, err error) error {
	if err == nil {
		return nil
	}
	if _, misnamed := errors.AsType[*driver.NameError](err); !misnamed {
		switch of := of.(type) {
		case driver.Ref:
			op += fmt.Sprintf(": session %q of agent %q", of.ID, of.Agent)
		case driver.KeyRef:
			op += fmt.Sprintf(": key %q of agent %q", of.Key, of.Agent)
		case string:
			if of != "" {
				op += fmt.Sprintf(": agent %q", of)
			}
		}
	}
	return fmt.Errorf("pgdriver: %s: %w", op, err)
}
