package pgdriver

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var _ driver.Rewriter = (*Driver)(nil)

var errNoHeader = errors.New("the first new line must be a header with a higher rev, nothing was changed")

// Rewrite implements [driver.Rewriter]. The new lines are in memory until all are written.
// As after Delete, the server keeps the old lines until its next VACUUM.
func (d *Driver) Rewrite(ctx context.Context, ref driver.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	rev := 0
	return d.still(ctx, "rewrite", ref, func(r driver.Row, err error) bool { return err == nil && rev > 0 && r.Rev >= rev }, func(s *still) error {
		if s.row.Archived {
			return verdict{driver.ErrArchived}
		}
		var all []driver.Line
		err := change(s.records, func(line []byte) error {
			line = bytes.Clone(line)
			e, err := transcript.ParseEntry(line)
			all = append(all, driver.Line{ID: e.ID, Data: line})
			return err
		})
		if err != nil {
			return verdict{err}
		}
		rev, err = s.replace(all)
		return err
	})
}

// records yields the lines of the session as its transaction sees them.
func (s *still) records(yield func(transcript.Record, error) bool) {
	for page, err := range s.pages {
		if err != nil {
			yield(transcript.Record{}, err)
			return
		}
		for _, l := range page {
			if !yield(record(l.data, s.body, l.seq-1), nil) {
				return
			}
		}
	}
}

// replace gives the session a new body with these lines.
func (s *still) replace(all []driver.Line) (rev int, err error) {
	var h transcript.Header
	if len(all) > 0 {
		e, err := transcript.ParseEntry(all[0].Data)
		if err != nil {
			return 0, verdict{err}
		}
		h, _ = e.Body.(transcript.Header)
	}
	if h.Rev <= s.row.Rev {
		return 0, verdict{errNoHeader}
	}
	l, err := linesOf(all)
	if err != nil {
		return 0, err
	}
	seconds, nanoseconds, text, err := stored(driver.Row{UpdatedAt: s.row.UpdatedAt, CreatedAt: h.Created})
	if err != nil {
		return 0, err
	}
	old := s.body
	row := s.d.row(s.ctx, `UPDATE {s}.sessions SET body = pg_catalog.nextval('{s}.bodies'), lines = $3, bytes = $4, rev = $5,
		updated_s = $6, updated_ns = $7, row = $8 WHERE agent = $1 AND id = $2 RETURNING body`,
		s.row.Agent, s.row.ID, len(all), l.bytes, h.Rev, seconds, nanoseconds, text)
	if err := row.Scan(&s.body); err != nil {
		return 0, err
	}
	if err := s.insert(0, l); err != nil {
		return 0, err
	}
	return h.Rev, s.exec("DELETE FROM {s}.lines WHERE body = $1", old)
}

// Beyond lists the places where deleted or erased words may remain.
func (d *Driver) Beyond() []string {
	return []string{
		"dead rows of the tables, until the next VACUUM of the server",
		"the write-ahead log of the server and its archive, until they are recycled",
		"replicas, until they have replayed the erase, and delayed replicas",
		"dumps and base backups of the database",
	}
}
