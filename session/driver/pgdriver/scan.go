package pgdriver

import (
	"context"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A page is what a scan has in memory: so many lines at most, and no more bytes than
// that once there is one.
const (
	pageLines = 512
	pageBytes = 1 << 20
)

const (
	selectForward = `SELECT seq, data FROM (
		SELECT seq, data, sum(octet_length(data)) OVER (ORDER BY seq) - octet_length(data) AS before
		FROM {s}.lines WHERE body = $1 AND seq > $2 AND seq <= $3 ORDER BY seq LIMIT $4) p
		WHERE before < $5 ORDER BY seq`
	selectBackward = `SELECT seq, data FROM (
		SELECT seq, data, sum(octet_length(data)) OVER (ORDER BY seq DESC) - octet_length(data) AS before
		FROM {s}.lines WHERE body = $1 AND seq > $2 AND seq <= $3 ORDER BY seq DESC LIMIT $4) p
		WHERE before < $5 ORDER BY seq DESC`
)

// Scan implements [driver.Driver]. A loop sees the lines that were there when it
// began, a page at a time; it keeps no connection between two pages.
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		if err := d.scan(ctx, ref, from, dir, func(rec transcript.Record) bool { return yield(rec, nil) }); err != nil {
			yield(transcript.Record{}, fail("scan", ref, err))
		}
	}
}

// scan gives records until give returns false.
func (d *Driver) scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, give func(transcript.Record) bool) error {
	body, end, err := d.end(ctx, ref)
	if err != nil {
		return err
	}
	first, err := place(from, body)
	if err != nil {
		return err
	}
	query := selectForward
	if dir == driver.Backward {
		query = selectBackward
	}
	for first < end {
		page, err := d.page(ctx, query, body, first, end)
		if err != nil {
			return err
		}
		if len(page) == 0 { // deleted or replaced meanwhile
			if _, _, err = d.end(ctx, ref); err == nil {
				err = driver.ErrReplaced
			}
			return err
		}
		for _, line := range page {
			if err := d.ready(ctx); err != nil {
				return err
			}
			if !give(record(line.data, body, line.seq-1)) {
				return nil
			}
		}
		if last := page[len(page)-1].seq; dir == driver.Backward {
			end = last - 1
		} else {
			first = last
		}
	}
	return nil
}

type storedLine struct {
	seq  int64
	data []byte
}

func (d *Driver) page(ctx context.Context, query string, body, first, end int64) (page []storedLine, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.ops.Done()
	rows, err := d.rows(ctx, query, body, first, end, pageLines, pageBytes)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var l storedLine
		if err := rows.Scan(&l.seq, &l.data); err != nil {
			return nil, err
		}
		page = append(page, l)
	}
	return page, rows.Err()
}

// end returns the body of a session and how many lines it has. It fails once with
// [driver.ErrReplaced] when the body is not the one that this driver knew, because
// the cursors that the caller has are old.
func (d *Driver) end(ctx context.Context, ref driver.Ref) (body, lines int64, err error) {
	if err := d.enter(ctx); err != nil {
		return 0, 0, err
	}
	defer d.ops.Done()
	if err := driver.CheckRef(ref); err != nil {
		return 0, 0, err
	}
	err = d.row(ctx, "SELECT body, lines FROM {s}.sessions WHERE agent = $1 AND id = $2", ref.Agent, ref.ID).Scan(&body, &lines)
	if err = missing(err); err != nil {
		return 0, 0, err
	}
	if was, known := d.names.Swap(ref, body); known && was != body {
		return 0, 0, driver.ErrReplaced
	}
	return body, lines, nil
}

// Settle implements [driver.Driver]. The database never shows a part of an append.
func (d *Driver) Settle(ctx context.Context, ref driver.Ref) (driver.Cursor, error) {
	body, lines, err := d.end(ctx, ref)
	return cursorOf(body, lines), fail("settle", ref, err)
}

// Flush implements [driver.Driver]. What was acknowledged is as durable as it will
// be; with Options.Async the server writes it soon after.
func (d *Driver) Flush(ctx context.Context, ref driver.Ref) error {
	_, err := d.Get(ctx, ref)
	return err
}
