package pgdriver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var _ driver.Rewriter = (*Driver)(nil)

var errNoHeader = errors.New("the first of the new lines is no header with a higher rev, nothing was changed")

// Rewrite implements [driver.Rewriter]. The new lines are in memory until all are
// written. As after Delete, the server keeps the old ones until its next VACUUM.
func (d *Driver) Rewrite(ctx context.Context, ref driver.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	return fail("rewrite", ref, d.rewrite(ctx, ref, change))
}

func (d *Driver) rewrite(ctx context.Context, ref driver.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	return d.still(ctx, ref, nil, func(s *still) error { // TODO a running turn
		var all []driver.Line
		var readErr error
		err := change(s.records(&readErr), func(line []byte) error {
			line = bytes.Clone(line)
			e, err := transcript.ParseEntry(line)
			all = append(all, driver.Line{ID: e.ID, Type: e.Type(), Data: line})
			return err
		})
		if err = errors.Join(err, readErr); err != nil {
			return err
		}
		return s.replace(all)
	})
}

// records yields the lines of the session as they are in its transaction.
func (s *still) records(failed *error) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		body, end := s.row.Size>>lineBits, s.row.Size&maxLines
		for first := int64(0); first < end; {
			rows, err := s.tx.Query(s.ctx, s.d.sql.Replace(selectForward), pgx.QueryExecModeExec, body, first, end, pageLines, pageBytes)
			var page []storedLine
			if err == nil {
				page, err = pgx.CollectRows(rows, func(r pgx.CollectableRow) (l storedLine, err error) { return l, r.Scan(&l.seq, &l.data) })
			}
			if err == nil && len(page) == 0 {
				err = fmt.Errorf("line %d is missing", first+1)
			}
			if err != nil {
				*failed = err
				yield(transcript.Record{}, err)
				return
			}
			for _, l := range page {
				if !yield(record(l.data, body, l.seq-1), nil) {
					return
				}
				first = l.seq
			}
		}
	}
}

// replace gives the session a new body with these lines.
func (s *still) replace(all []driver.Line) error {
	var h transcript.Header
	if len(all) > 0 {
		e, err := transcript.ParseEntry(all[0].Data)
		if err != nil {
			return err
		}
		h, _ = e.Body.(transcript.Header)
	}
	if h.Rev <= s.row.Rev {
		return errNoHeader
	}
	l, err := linesOf(all)
	if err != nil {
		return err
	}
	if l.head == "" {
		l.head = driver.NoHead
	}
	old := s.row.Size >> lineBits
	seconds, nanoseconds, text, err := stored(driver.Row{UpdatedAt: s.row.UpdatedAt, CreatedAt: h.Created})
	if err != nil {
		return err
	}
	var body int64
	row := s.tx.QueryRow(s.ctx, s.d.sql.Replace(`UPDATE {s}.sessions SET body = nextval('{s}.bodies'), lines = $3, head = $4, rev = $5,
		updated_s = $6, updated_ns = $7, row = $8 WHERE agent = $1 AND id = $2 RETURNING body`), pgx.QueryExecModeExec,
		s.row.Agent, s.row.ID, len(all), l.head, h.Rev, seconds, nanoseconds, text)
	if err := row.Scan(&body); err != nil {
		return err
	}
	if err := s.exec("SELECT {s}.insert_lines($1, 0, $2, $3, $4, $5, $6, $7, $8)", body, l.types, l.ids, l.data, l.keys, l.hashes, l.starts, l.sizes); err != nil {
		return err
	}
	if err := s.exec("DELETE FROM {s}.lines WHERE body = $1", old); err != nil {
		return err
	}
	return s.exec("DELETE FROM {s}.batches WHERE body = $1", old)
}

// Note implements [driver.Rewriter].
func (d *Driver) Note(ctx context.Context, name string, data []byte) error {
	if err := d.enter(ctx); err != nil {
		return fmt.Errorf("pgdriver: note: %w", err)
	}
	defer d.ops.Done()
	ctx, cancel := begun(ctx)
	defer cancel()
	var err error
	if data == nil {
		_, err = d.exec(ctx, "DELETE FROM {s}.notes WHERE name = $1", name)
	} else {
		_, err = d.exec(ctx, "INSERT INTO {s}.notes (name, data) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET data = excluded.data", name, data)
	}
	if err != nil {
		return fmt.Errorf("pgdriver: note %q: %w", name, err)
	}
	return nil
}

// Notes implements [driver.Rewriter].
func (d *Driver) Notes(ctx context.Context) (map[string][]byte, error) {
	if err := d.enter(ctx); err != nil {
		return nil, fmt.Errorf("pgdriver: notes: %w", err)
	}
	defer d.ops.Done()
	notes := map[string][]byte{}
	rows, err := d.rows(ctx, "SELECT name, data FROM {s}.notes")
	if err == nil {
		var name string
		var data []byte
		_, err = pgx.ForEachRow(rows, []any{&name, &data}, func() error {
			notes[name] = bytes.Clone(data)
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("pgdriver: notes: %w", err)
	}
	return notes, nil
}
