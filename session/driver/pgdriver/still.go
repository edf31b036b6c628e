package pgdriver

import (
	"context"
	"errors"
	"fmt"

	"github.com/convolog/convolog/session/driver"
)

// A still is a session that is locked in a transaction. Until the transaction ends, it takes
// no appends, and its key does not change.
type still struct {
	ctx         context.Context //nolint:containedctx // for the transaction
	d           *Driver
	row         driver.Row // includes Size
	body, lines int64
	busy        bool // a turn is running
}

// still calls change while no other call can change the session. After a lost connection,
// settled reports whether the row of the session shows the change.
func (d *Driver) still(ctx context.Context, op string, ref driver.Ref, settled func(driver.Row, error) bool, change func(*still) error) error {
	return d.on(ctx, op, ref, func() error {
		ctx, cancel := writing(ctx)
		defer cancel()
		err := d.persist(ctx, func(ctx context.Context) error {
			return d.transaction(ctx, func(ctx context.Context) error {
				s := &still{ctx: ctx, d: d}
				if err := s.lock(ref); err != nil {
					return err
				}
				return change(s)
			})
		}, func(ctx context.Context) (bool, error) {
			row, err := d.get(ctx, ref)
			if err != nil && !errors.Is(err, errNoSession) {
				return false, err
			}
			return settled(row, err), nil
		})
		if err == nil {
			d.changed(ref)
		}
		return err
	})
}

// lock locks the key and then the session. The commit waits for stable storage, and waits
// for locks are limited.
func (s *still) lock(ref driver.Ref) (err error) {
	if err := s.exec("SELECT set_config('synchronous_commit', $1, true), set_config('lock_timeout', $2, true)", s.d.strict, lockWait(s.ctx)); err != nil {
		return err
	}
	if err := s.exec(`SELECT k.gen FROM {s}.keys k JOIN {s}.sessions t ON k.agent = t.agent AND k.hash = t.key_hash
		WHERE t.agent = $1 AND t.id = $2 FOR NO KEY UPDATE OF k`, ref.Agent, ref.ID); err != nil {
		return err
	}
	if err := s.exec("SELECT FROM {s}.sessions WHERE agent = $1 AND id = $2 FOR UPDATE", ref.Agent, ref.ID); err != nil {
		return err
	}
	s.row, err = readRow(s.d.row(s.ctx, "SELECT "+rowColumns+`, t.body, t.lines, t.turn IS NOT NULL AND t.turn_until >= clock_timestamp()
		FROM {s}.sessions t WHERE t.agent = $1 AND t.id = $2`, ref.Agent, ref.ID), &s.body, &s.lines, &s.busy)
	s.row.Size = int64(cursorOf(s.body, s.lines))
	return err
}

// allow returns an error if a turn is running, or if the session does not end at the cursor
// at. A negative at allows any end.
func (s *still) allow(at driver.Cursor) error {
	switch {
	case s.busy:
		return verdict{driver.ErrBusy}
	case at >= 0 && int64(at) != s.row.Size:
		return verdict{driver.ErrConflict}
	}
	return nil
}

// exec executes a statement, whose failure ends the transaction.
func (s *still) exec(sql string, args ...any) error {
	return s.d.connected(s.ctx, func(c querier) error {
		_, err := c.Exec(s.ctx, s.d.sql.Replace(sql), s.d.args(s.ctx, args)...)
		return err
	})
}

// pages yields the lines of the session, a page at a time, and then an error, if any.
func (s *still) pages(yield func([]storedLine, error) bool) {
	for first := int64(0); first < s.lines; {
		page, err := s.d.page(s.ctx, s.row.Archived, driver.Forward, s.body, first, s.lines)
		if err == nil && len(page) == 0 {
			err = verdict{fmt.Errorf("line %d is missing", first+1)}
		}
		if !yield(page, err) || err != nil {
			return
		}
		first = page[len(page)-1].seq
	}
}

// insert adds lines after the first lines of the session.
func (s *still) insert(first int64, l lines) error {
	return s.exec("SELECT {s}.insert_lines($1, $2, $3, $4)", s.body, first, l.ids, l.data)
}
