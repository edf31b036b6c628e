package memdriver

import (
	"bytes"
	"context"
	"errors"
	"iter"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

var _ driver.Rewriter = (*memory)(nil)

var errNoHeader = errors.New("the first new line must be a header with a higher rev, nothing was changed")

// Rewrite implements [driver.Rewriter]. Until the next Put the row holds only
// facts of the header.
func (d *memory) Rewrite(ctx context.Context, ref driver.Ref, change func(iter.Seq2[transcript.Record, error], func([]byte) error) error) error {
	const op = "Rewrite"
	s, err := d.alone(ctx, op, ref, d.find)
	if err != nil {
		return err
	}
	defer d.storage.mu.Unlock()
	if err := s.live(); err != nil {
		return fail(op, ref, err)
	}
	records := func(yield func(transcript.Record, error) bool) {
		for _, rec := range s.records {
			if !yield(rec, nil) {
				return
			}
		}
	}
	var lines []driver.Line
	err = change(records, func(line []byte) error {
		e, err := transcript.ParseEntry(bytes.Clone(line))
		lines = append(lines, driver.Line{ID: e.ID, Data: bytes.Clone(line)})
		return err
	})
	if err != nil {
		return err
	}
	var first transcript.Body
	if len(lines) > 0 {
		e, _ := transcript.ParseEntry(lines[0].Data) // it was parsed before
		first = e.Body
	}
	h, ok := first.(transcript.Header)
	if !ok || h.Rev <= s.row.Rev {
		return fail(op, ref, errNoHeader)
	}
	next := d.storage.newSession(driver.Row{
		ID: ref.ID, Agent: ref.Agent, Owner: s.row.Owner, Key: s.row.Key, Gen: s.row.Gen, Rev: h.Rev, UpdatedAt: s.row.UpdatedAt, CreatedAt: h.Created,
	})
	if _, err = next.append(lines); err == nil {
		err = d.writable(op, ref)
	}
	if err != nil {
		return fail(op, ref, err)
	}
	next.turn, next.gone = s.turn, s.gone
	*s = *next
	d.storage.tell(ref)
	return nil
}
