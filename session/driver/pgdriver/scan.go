package pgdriver

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A page is the part of a scan in memory. It has at most pageLines lines, and gets no
// further line once it has pageBytes bytes.
const (
	pageLines = 1024
	pageBytes = 1 << 20
)

// The sum of the sizes is cheap. The query computes a running sum only for long lines.
const selectLines = `SELECT seq, data FROM {s}.lines WHERE body = $1 AND seq > $2 AND seq <= $3 ORDER BY seq {dir} LIMIT (
	SELECT CASE WHEN sum(size) <= $5 THEN $4 ELSE (
		SELECT count(*) FROM (
			SELECT sum(octet_length(data)) OVER (ORDER BY seq {dir} ROWS UNBOUNDED PRECEDING) - octet_length(data) AS before
			FROM {s}.lines WHERE body = $1 AND seq > $2 AND seq <= $3 ORDER BY seq {dir} LIMIT $4) w
		WHERE before < $5) END
	FROM (SELECT octet_length(data) AS size FROM {s}.lines WHERE body = $1 AND seq > $2 AND seq <= $3 ORDER BY seq {dir} LIMIT $4) p)`

// A page of an archived session is a block. The statement needs no limits, but must use all
// parameters.
const selectBlock = `SELECT first, data FROM {s}.blocks
	WHERE body = $1 AND last > $2 AND first <= $3 AND $4::int + $5::int > 0 ORDER BY first {dir} LIMIT 1`

// pageQuery returns a query for the next page of lines after $2 and up to $3.
func pageQuery(archived bool, dir driver.Direction) string {
	query, order := selectLines, ""
	if archived {
		query = selectBlock
	}
	if dir == driver.Backward {
		order = "DESC"
	}
	return strings.ReplaceAll(query, "{dir}", order)
}

// Scan implements [driver.Driver]. A loop sees the lines that existed when it began. It
// reads a page at a time, and keeps no connection between two pages.
func (d *Driver) Scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, keep driver.Keep) iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		if err := d.scan(d.joining(ctx), ref, from, dir, func(rec transcript.Record) bool { return !driver.Keeps(keep, rec) || yield(rec, nil) }); err != nil {
			yield(transcript.Record{}, fail("scan", ref, err))
		}
	}
}

// scan calls give with each record until give returns false.
func (d *Driver) scan(ctx context.Context, ref driver.Ref, from driver.Cursor, dir driver.Direction, give func(transcript.Record) bool) error {
	body, end, archived, err := d.end(ctx, ref)
	if err != nil {
		return err
	}
	if from > 0 && int64(from)>>lineBits != body {
		return driver.ErrReplaced
	}
	first := int64(max(from, 0)) & maxLines
	for first < end {
		var lines []storedLine
		err := d.during(ctx, func() (err error) {
			lines, err = d.page(ctx, archived, dir, body, first, end)
			return err
		})
		page := records(lines, body)
		if err != nil {
			return err
		}
		if len(page) == 0 { // the session was archived, restored, deleted or replaced
			var now int64
			was := archived
			if now, _, archived, err = d.end(ctx, ref); err == nil && (now != body || archived == was) {
				err = driver.ErrReplaced
			}
			if err != nil {
				return err
			}
			continue
		}
		if dir == driver.Backward && archived {
			slices.Reverse(page)
		}
		for _, rec := range page {
			if err := d.ready(ctx); err != nil {
				return err
			}
			if !give(rec) {
				return nil
			}
		}
		if last := page[len(page)-1].End & maxLines; dir == driver.Backward {
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

// page returns the next lines of a body after first and up to end.
func (d *Driver) page(ctx context.Context, archived bool, dir driver.Direction, body, first, end int64) ([]storedLine, error) {
	page, err := collect(ctx, d, func(r pgx.CollectableRow) (l storedLine, err error) {
		err = r.Scan(&l.seq, &l.data) // allocates new data for each line
		return l, err
	}, pageQuery(archived, dir), body, first, end, pageLines, pageBytes)
	if err != nil || !archived || len(page) == 0 {
		return page, err
	}
	return unzip(page[0].data, page[0].seq, first, end)
}

// records decodes the lines of a page in parallel.
func records(lines []storedLine, body int64) []transcript.Record {
	page := make([]transcript.Record, len(lines))
	const share = 64
	var work sync.WaitGroup
	for from := 0; from < len(lines); from += share {
		work.Go(func() {
			for i := from; i < min(from+share, len(lines)); i++ {
				page[i] = record(lines[i].data, body, lines[i].seq-1)
			}
		})
	}
	work.Wait()
	return page
}

// end returns the body of a session, the number of its lines, and whether it is archived. If
// the body has changed since this driver last saw it, end fails once with
// [driver.ErrReplaced], because the caller's cursors are then old.
func (d *Driver) end(ctx context.Context, ref driver.Ref) (body, lines int64, archived bool, err error) {
	err = d.during(ctx, func() error {
		if err := driver.CheckRef(ref); err != nil {
			return err
		}
		return missing(d.row(ctx, "SELECT body, lines, archived FROM {s}.sessions WHERE agent = $1 AND id = $2", ref.Agent, ref.ID).Scan(&body, &lines, &archived))
	})
	if err != nil {
		return 0, 0, false, err
	}
	if was, known := d.names.Swap(ref, body); known && was != body {
		return 0, 0, false, driver.ErrReplaced
	}
	return body, lines, archived, nil
}

// Flush implements [driver.Driver]. With Options.Async it makes one commit that waits for
// stable storage, and so for all earlier commits. The transaction writes a message, because
// an empty one would not wait. Without Options.Async all commits have waited already.
func (d *Driver) Flush(ctx context.Context, ref driver.Ref, _ bool) error {
	_, err := d.Get(ctx, ref)
	if err == nil && d.opts.Async {
		_, err = d.exec(ctx, "SELECT set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'convolog', '')")
		err = fail("flush", ref, err)
	}
	return err
}
