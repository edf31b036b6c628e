package pgdriver

import (
	"cmp"
	"context"
	"errors"

	"github.com/convolog/convolog/session/driver"
)

// Load implements [driver.Driver].
func (d *Driver) Load(ctx context.Context, key driver.KeyRef, header func(gen int64) (driver.Row, driver.Line)) (row driver.Row, err error) {
	if header == nil {
		ctx = d.joining(ctx)
	}
	err = d.again(ctx, func() (err error) {
		if row, err = d.current(ctx, key); errors.Is(err, errNoSession) && header != nil {
			row, err = d.create(ctx, key, header, nil, true)
		}
		return err
	})
	return row, fail("load", key, err)
}

// Create implements [driver.Driver].
func (d *Driver) Create(ctx context.Context, key driver.KeyRef, header func(gen int64) (driver.Row, driver.Line), more ...driver.Line) (row driver.Row, err error) {
	err = d.again(ctx, func() (err error) {
		row, err = d.create(ctx, key, header, more, false)
		return err
	})
	return row, fail("create", key, err)
}

// SetCurrent implements [driver.Driver].
func (d *Driver) SetCurrent(ctx context.Context, ref driver.Ref, gen int64, line func(gen int64) driver.Line) (row driver.Row, err error) {
	err = d.again(ctx, func() (err error) {
		row, err = d.setCurrent(ctx, ref, gen, line)
		return err
	})
	return row, fail("set current", ref, err)
}

// again calls do in a call, until no other call takes the same gen.
func (d *Driver) again(ctx context.Context, do func() error) error {
	return d.during(ctx, func() (err error) {
		for err = errAgain; errors.Is(err, errAgain); {
			err = do()
		}
		return err
	})
}

// create makes a session. It calls header with the next gen of the key, and fails with
// errAgain if another call took that gen. If only is set, it also fails with errAgain if
// there is a current session of the key.
func (d *Driver) create(ctx context.Context, key driver.KeyRef, header func(gen int64) (driver.Row, driver.Line), more []driver.Line, only bool) (row driver.Row, err error) {
	if err := driver.CheckKey(key); err != nil {
		return row, err
	}
	gen, err := d.gen(ctx, key)
	if err != nil {
		return row, err
	}
	row, first := header(gen + 1)
	row.Agent, row.Owner, row.Key, row.Gen = key.Agent, key.Owner, key.Key, gen+1
	given := row.GivenGen > 0
	switch {
	case row.Aside:
		row.Gen, row.Aside = 0, false
	case given:
		row.Gen, row.GivenGen = row.GivenGen, 0
	}
	if err := driver.CheckRef(row.Ref()); err != nil {
		return row, err
	}
	l, err := linesOf(append([]driver.Line{first}, more...))
	if err != nil {
		return row, err
	}
	row.Size = 0 // the database chooses the body of the session, and so its cursors
	seconds, nanoseconds, text, err := stored(row)
	if err != nil {
		return row, err
	}
	base, rev := "", row.BaseRev
	if rev != nil {
		base, row.BaseRev = row.Base.Session, nil
	}
	var status string
	var body *int64
	create := d.row(ctx, "SELECT o_status, o_body FROM {s}.create($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,$19)",
		key.Agent, row.ID, []byte(key.Owner), []byte(key.Key), ownedHash(key), row.Gen, row.Rev, d.sync, lockWait(ctx), seconds, nanoseconds, text, only,
		l.ids, l.data, l.bytes, base, rev, given)
	unsure := false
	written := func(ctx context.Context) (bool, error) {
		// Only this call knows the ID of its first line. A session is created with all its
		// lines in one transaction.
		unsure, status = true, "ok"
		var seq *int64
		return d.look(ctx, row.Ref(), first.ID, first.Data, nil, &body, &seq)
	}
	err = d.call(ctx, create, written, &status, &body)
	if err == nil && unsure && status != "ok" { // the previous attempt may have created it
		was := status
		if done, lookErr := written(ctx); lookErr != nil {
			err = unknown(lookErr)
		} else if !done {
			status = was
		}
	}
	if err == nil {
		err = errorOf(status, row.Gen)
	}
	if err != nil {
		return row, err
	}
	d.names.Store(row.Ref(), *body)
	d.changed(row.Ref())
	return row, nil
}

// gen returns the highest gen of a key so far.
func (d *Driver) gen(ctx context.Context, key driver.KeyRef) (gen int64, err error) {
	err = d.row(ctx, "SELECT coalesce(max(gen), 0) FROM {s}.keys WHERE agent = $1 AND hash = $2", key.Agent, ownedHash(key)).Scan(&gen)
	return gen, err
}

func (d *Driver) setCurrent(ctx context.Context, ref driver.Ref, given int64, line func(gen int64) driver.Line) (row driver.Row, err error) {
	if err := driver.CheckRef(ref); err != nil {
		return row, err
	}
	if row, err = d.get(ctx, ref); err != nil {
		return row, err
	}
	if row.Archived {
		return row, driver.ErrArchived
	}
	gen, err := d.gen(ctx, row.KeyRef())
	if err != nil {
		return row, err
	}
	var l driver.Line // stays empty for a given gen
	if row.Gen = max(row.Gen, given); given == 0 {
		current, err := d.current(ctx, row.KeyRef())
		if err != nil && !errors.Is(err, errNoSession) { // otherwise the key lacks a current session
			return row, err
		}
		if current.ID == ref.ID {
			return current, nil
		}
		row.Gen = gen + 1
		l = line(row.Gen)
		if _, err := linesOf([]driver.Line{l}); err != nil {
			return row, err
		}
	}
	var status string
	set := d.row(ctx, "SELECT {s}.set_current($1,$2,$3,$4,$5,$6,$7)", ref.Agent, ref.ID, cmp.Or(given, row.Gen), d.sync, lockWait(ctx), l.ID, l.Data)
	err = d.call(ctx, set, func(ctx context.Context) (bool, error) {
		if status = "ok"; given > 0 {
			return false, nil // repeating the call is harmless
		}
		return d.look(ctx, ref, l.ID, l.Data, nil, new(*int64), new(*int64))
	}, &status)
	if err == nil {
		err = errorOf(status, given)
	}
	if err == nil {
		d.changed(ref)
	}
	return row, err
}

// Delete implements [driver.Driver]. Copies of deleted rows stay in the tables until the
// next VACUUM of the server, and longer in its write-ahead log and in backups.
func (d *Driver) Delete(ctx context.Context, at driver.Cursor, refs ...driver.Ref) error {
	return errors.Join(driver.Once(refs, func(ref driver.Ref) error { return d.delete(ctx, ref, at) })...)
}

func (d *Driver) delete(ctx context.Context, ref driver.Ref, at driver.Cursor) error {
	unsure := false
	err := d.still(ctx, "delete", ref, func(_ driver.Row, err error) bool {
		unsure = true
		return err != nil
	}, func(s *still) error {
		if at >= 0 {
			if err := s.allow(at); err != nil {
				return err
			}
		}
		return s.exec("SELECT {s}.remove($1, $2, $3, $4)", ref.Agent, ref.ID, d.strict, lockWait(s.ctx))
	})
	if unsure && errors.Is(err, errNoSession) { // an earlier attempt deleted it
		err = nil
	}
	if err == nil {
		d.names.Delete(ref)
	}
	return err
}
