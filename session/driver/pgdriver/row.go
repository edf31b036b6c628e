package pgdriver

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/driver"
)

// rowColumns are the columns for readRow.
const rowColumns = "t.agent, t.id, t.owner, t.key, t.gen, t.rev, t.archived, t.bytes, t.row"

// isCurrent is an SQL condition that is true for the current session of a key.
const isCurrent = `(NOT t.archived AND t.gen > 0 AND t.gen = (SELECT max(o.gen) FROM {s}.sessions o
	WHERE o.agent = t.agent AND o.key_hash = t.key_hash AND NOT o.archived))`

// readRow reads the rowColumns of a query into a row, and further columns into more.
func readRow(r pgx.Row, more ...any) (row driver.Row, err error) {
	var is driver.Row
	var owner, key, text []byte
	if err = r.Scan(append([]any{&is.Agent, &is.ID, &owner, &key, &is.Gen, &is.Rev, &is.Archived, &is.Bytes, &text}, more...)...); err != nil {
		return row, missing(err)
	}
	if err := json.Unmarshal(text, &row); err != nil {
		row = driver.Row{} // package session reads the rest from the lines
	}
	row.Agent, row.ID, row.Owner, row.Key = is.Agent, is.ID, string(owner), string(key)
	row.Gen, row.Rev, row.Archived, row.Bytes = is.Gen, is.Rev, is.Archived, is.Bytes
	return row, nil
}

// stored returns the values of a row's columns.
func stored(row driver.Row) (seconds int64, nanoseconds int, text []byte, err error) {
	text, err = json.Marshal(row)
	return row.UpdatedAt.Unix(), row.UpdatedAt.Nanosecond(), text, err
}

// Get implements [driver.Driver].
func (d *Driver) Get(ctx context.Context, ref driver.Ref) (row driver.Row, err error) {
	err = d.on(ctx, "get", ref, func() (err error) {
		row, err = d.get(d.joining(ctx), ref)
		return err
	})
	return row, err
}

func (d *Driver) get(ctx context.Context, ref driver.Ref) (driver.Row, error) {
	return readRow(d.row(ctx, "SELECT "+rowColumns+" FROM {s}.sessions t WHERE t.agent = $1 AND t.id = $2", ref.Agent, ref.ID))
}

// current returns the row of the current session of a key.
func (d *Driver) current(ctx context.Context, key driver.KeyRef) (driver.Row, error) {
	if err := driver.CheckKey(key); err != nil {
		return driver.Row{}, err
	}
	return readRow(d.row(ctx, "SELECT "+rowColumns+` FROM {s}.sessions t
		WHERE t.agent = $1 AND t.key_hash = $2 AND t.gen > 0 AND NOT t.archived ORDER BY t.gen DESC LIMIT 1`, key.Agent, ownedHash(key)))
}

// Put implements [driver.Driver].
func (d *Driver) Put(ctx context.Context, row driver.Row) error {
	return d.on(ctx, "put", row.Ref(), func() error { return d.put(d.joining(ctx), row) })
}

func (d *Driver) put(ctx context.Context, row driver.Row) error {
	seconds, nanoseconds, text, err := stored(row)
	if err != nil {
		return err
	}
	var wait *string // nil keeps the setting of a transaction, which has locked the row
	if _, ok := d.inside(ctx); !ok {
		wait = new(lockWait(ctx))
	}
	n, err := d.exec(ctx, `UPDATE {s}.sessions SET updated_s = $3, updated_ns = $4, row = $5
		WHERE agent = $1 AND id = $2 AND NOT archived AND rev <= $6 AND ($8 = 0 OR body = $8)
		AND set_config('lock_timeout', coalesce($7, current_setting('lock_timeout')), true) <> ''`,
		row.Agent, row.ID, seconds, nanoseconds, text, row.Rev, wait, row.Size>>lineBits)
	if err != nil || n > 0 {
		return err
	}
	now, err := d.get(ctx, row.Ref())
	if err == nil && now.Archived {
		err = driver.ErrArchived
	}
	return err // nil if the row is from lines that were replaced or deleted
}

// List implements [driver.Driver].
func (d *Driver) List(ctx context.Context, agent string, after driver.Position, n int) (list []driver.Row, err error) {
	err = d.during(ctx, func() (err error) {
		if agent == "" {
			list, err = d.listAgents(d.joining(ctx))
		} else {
			list, err = d.list(d.joining(ctx), agent, after, n)
		}
		return err
	})
	return list, fail("list", agent, err)
}

func (d *Driver) list(ctx context.Context, agent string, after driver.Position, n int) ([]driver.Row, error) {
	if err := driver.CheckAgent(agent); err != nil {
		return nil, err
	}
	if (after == driver.Position{}) {
		after = driver.Position{UpdatedAt: time.Unix(1<<62, 0), ID: "~"} // before every row
	}
	var limit *int
	if n > 0 {
		limit = &n
	}
	return collect(ctx, d, func(r pgx.CollectableRow) (driver.Row, error) {
		var body, lines int64
		var current bool
		row, err := readRow(r, &current, &body, &lines)
		row.Current, row.Stale = current, row.Size != int64(cursorOf(body, lines))
		return row, err
	}, "SELECT "+rowColumns+", "+isCurrent+`, t.body, t.lines
		FROM {s}.sessions t
		WHERE t.agent = $1 AND (t.updated_s, t.updated_ns, t.id) < ($2, $3, $4)
		ORDER BY t.updated_s DESC, t.updated_ns DESC, t.id DESC LIMIT $5`,
		agent, after.UpdatedAt.Unix(), after.UpdatedAt.Nanosecond(), after.ID, limit)
}

// listAgents returns a row for each agent that has sessions.
func (d *Driver) listAgents(ctx context.Context) ([]driver.Row, error) {
	return collect(ctx, d, func(r pgx.CollectableRow) (row driver.Row, err error) {
		err = r.Scan(&row.Agent)
		return row, err
	}, `WITH RECURSIVE names AS (
		(SELECT agent FROM {s}.sessions ORDER BY agent LIMIT 1)
		UNION ALL
		SELECT (SELECT t.agent FROM {s}.sessions t WHERE t.agent > n.agent ORDER BY t.agent LIMIT 1) FROM names n WHERE n.agent IS NOT NULL)
		SELECT agent FROM names WHERE agent IS NOT NULL`)
}
