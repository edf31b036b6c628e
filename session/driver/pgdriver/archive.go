package pgdriver

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/driver"
)

var _ driver.Archiver = (*Driver)(nil)

// Archive implements [driver.Archiver].
func (d *Driver) Archive(ctx context.Context, ref driver.Ref, check func(driver.Row) error) error {
	err := d.still(ctx, ref, check, func(tx *still) error {
		if tx.row.Archived {
			return nil
		}
		return tx.exec("UPDATE {s}.sessions SET archived = true WHERE agent = $1 AND id = $2", ref.Agent, ref.ID)
	})
	return fail("archive", ref, err)
}

// Restore implements [driver.Archiver].
func (d *Driver) Restore(ctx context.Context, ref driver.Ref) error {
	if err := d.enter(ctx); err != nil {
		return fail("restore", ref, err)
	}
	defer d.ops.Done()
	if err := driver.CheckRef(ref); err != nil {
		return fail("restore", ref, err)
	}
	ctx, cancel := begun(ctx)
	defer cancel()
	n, err := d.exec(ctx, "UPDATE {s}.sessions SET archived = false WHERE agent = $1 AND id = $2", ref.Agent, ref.ID)
	if err == nil && n == 0 {
		err = errNoSession
	}
	if err == nil {
		d.changed(ref)
	}
	return fail("restore", ref, err)
}

// DeleteIf implements [driver.Archiver].
func (d *Driver) DeleteIf(ctx context.Context, refs []driver.Ref, check func(driver.Row) error) []error {
	errs := make([]error, len(refs))
	for i, ref := range refs {
		errs[i] = fail("delete", ref, d.still(ctx, ref, check, func(tx *still) error {
			return tx.exec("SELECT {s}.remove($1, $2, $3)", ref.Agent, ref.ID, d.sync)
		}))
		if errs[i] == nil {
			d.names.Delete(ref)
		}
	}
	return errs
}

// A still session is one that nobody can append to, and whose key stays as it is, as
// long as its transaction lasts.
type still struct {
	ctx context.Context //nolint:containedctx // that of the transaction
	d   *Driver
	tx  pgx.Tx
	row driver.Row
}

func (s *still) exec(sql string, args ...any) error {
	_, err := s.tx.Exec(s.ctx, s.d.sql.Replace(sql), append([]any{pgx.QueryExecModeExec}, args...)...)
	return err
}

// still changes a session while nothing else can, if no turn runs on it and check
// allows it; check is not asked about an archived one that shall only be archived.
func (d *Driver) still(ctx context.Context, ref driver.Ref, check func(driver.Row) error, change func(*still) error) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.ops.Done()
	if err := driver.CheckRef(ref); err != nil {
		return err
	}
	ctx, cancel := begun(ctx)
	defer cancel()
	var refused error
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		s := &still{ctx: ctx, d: d, tx: tx}
		lock := `SELECT k.gen FROM {s}.keys k JOIN {s}.sessions t ON k.agent = t.agent AND k.hash = t.key_hash
			WHERE t.agent = $1 AND t.id = $2 FOR NO KEY UPDATE OF k`
		if err := s.exec(lock, ref.Agent, ref.ID); err != nil {
			return err
		}
		if err := s.exec("SELECT set_config('synchronous_commit', $1, true)", d.sync); err != nil {
			return err
		}
		var body, lines int64
		var busy, current bool
		var err error
		s.row, err = readRow(tx.QueryRow(ctx, d.sql.Replace("SELECT "+rowColumns+`, t.body, t.lines,
				t.turn IS NOT NULL AND t.turn_until >= clock_timestamp(),
				NOT t.archived AND t.gen = (SELECT max(o.gen) FROM {s}.sessions o
					WHERE o.agent = t.agent AND o.key_hash = t.key_hash AND NOT o.archived)
			FROM {s}.sessions t WHERE t.agent = $1 AND t.id = $2 FOR UPDATE`), pgx.QueryExecModeExec, ref.Agent, ref.ID),
			&body, &lines, &busy, &current)
		switch {
		case err != nil:
			return err
		case busy:
			return driver.ErrBusy
		}
		s.row.Size, s.row.Current = int64(cursorOf(body, lines)), current
		if check != nil {
			if refused = check(s.row); refused != nil {
				return refused
			}
		}
		return change(s)
	})
	if err == nil {
		d.changed(ref)
	}
	if refused != nil {
		return refused
	}
	return errors.Join(err)
}
