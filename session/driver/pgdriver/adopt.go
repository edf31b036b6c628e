package pgdriver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/driver"
)

var _ driver.Adopter = (*Driver)(nil)

// Adopt implements [driver.Adopter].
func (d *Driver) Adopt(ctx context.Context, row driver.Row, header driver.Line) error {
	ref := row.Ref()
	if err := d.enter(ctx); err != nil {
		return fail("adopt", ref, err)
	}
	defer d.ops.Done()
	return fail("adopt", ref, d.adopt(ctx, row, header))
}

func (d *Driver) adopt(ctx context.Context, row driver.Row, header driver.Line) error {
	if err := driver.CheckRef(row.Ref()); err != nil {
		return err
	}
	if err := driver.CheckKey(row.KeyRef()); err != nil {
		return err
	}
	l, err := linesOf([]driver.Line{header})
	if err != nil {
		return err
	}
	ctx, cancel := writing(ctx)
	defer cancel()
	s := &still{d: d, row: row}
	err = d.persist(ctx, func(ctx context.Context) error {
		return d.transaction(ctx, func(tx pgx.Tx) error {
			s.ctx, s.tx = ctx, tx
			return s.adopt(l)
		})
	}, nil) // twice does no harm
	if err == nil {
		d.names.Store(row.Ref(), s.body)
		d.changed(row.Ref())
	}
	return err
}

// adopt raises the gen of a session, or makes the session. It locks the key and then
// the session, as every call does.
func (s *still) adopt(header lines) error {
	hash := ownedHash(s.row.KeyRef())
	if err := s.settle(); err != nil {
		return err
	}
	if err := s.exec(`INSERT INTO {s}.keys AS k (agent, hash, gen) VALUES ($1, $2, $3)
		ON CONFLICT (agent, hash) DO UPDATE SET gen = greatest(k.gen, excluded.gen)`, s.row.Agent, hash, s.row.Gen); err != nil {
		return err
	}
	var other string
	found, err := s.one([]any{&other}, "SELECT id FROM {s}.sessions WHERE agent = $1 AND key_hash = $2 AND gen = $3 AND gen > 0 AND id <> $4 LIMIT 1",
		s.row.Agent, hash, s.row.Gen, s.row.ID)
	if err != nil {
		return err
	}
	if found {
		return verdict{fmt.Errorf("session %q of the key also has gen %d: delete that session, or copy into another store; nothing was written: %w", other, s.row.Gen, fs.ErrExist)}
	}
	var inUse []byte
	var archived bool
	found, err = s.one([]any{&s.body, &inUse, &archived}, "SELECT body, key_hash, archived FROM {s}.sessions WHERE agent = $1 AND id = $2 FOR NO KEY UPDATE",
		s.row.Agent, s.row.ID)
	switch {
	case err != nil:
		return err
	case !found:
		return s.make(hash, header)
	case !bytes.Equal(inUse, hash):
		return verdict{errInUse}
	case archived:
		return verdict{driver.ErrArchived}
	}
	return s.exec("UPDATE {s}.sessions SET gen = $3 WHERE agent = $1 AND id = $2 AND gen < $3", s.row.Agent, s.row.ID, s.row.Gen)
}

// make makes the session with its first line.
func (s *still) make(hash []byte, header lines) error {
	seconds, nanoseconds, text, err := stored(s.row)
	if err != nil {
		return verdict{err}
	}
	_, err = s.one([]any{&s.body}, `INSERT INTO {s}.sessions (agent, id, lines, owner, key, key_hash, gen, rev, updated_s, updated_ns, row)
		VALUES ($1, $2, 1, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING body`,
		s.row.Agent, s.row.ID, []byte(s.row.Owner), []byte(s.row.Key), hash, s.row.Gen, s.row.Rev, seconds, nanoseconds, text)
	if err != nil {
		return err
	}
	return s.insert(0, header)
}

// one reads the only row of a query into to, and reports whether there is one.
func (s *still) one(to []any, sql string, args ...any) (found bool, err error) {
	err = s.tx.QueryRow(s.ctx, s.d.sql.Replace(sql), append([]any{pgx.QueryExecModeExec}, args...)...).Scan(to...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}
