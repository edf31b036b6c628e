package session

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/title"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// describe makes the row of a session from its transcript. known holds for the
// lines before known.Size: of those only the ones that the history needs are
// read.
func describe(known driver.Row, scan scan, opts *Options) (driver.Row, error) {
	r, err := readOf(known, scan, opts)
	if err == nil {
		err = r.fill(scan)
	}
	if err != nil {
		return known, err
	}
	return r.describe(), nil
}

// readOf reads what the history of a session needs, up to the end of a scan.
func readOf(known driver.Row, scan scan, opts *Options) (*reader, error) {
	r := newReader(opts)
	err := r.begin(scan, known, false)
	if err == nil {
		err = r.add(r.batcher.Break())
	}
	return &r, err
}

// describe returns the row, which must be filled. It counts the tokens added
// since the last time.
func (r *reader) describe() driver.Row {
	row := r.row
	row.Size, row.Turns, row.TokenEstimate = int64(r.next), r.fold.Turns(), r.stored.Count(r.fold)
	return row
}

// note brings the row up to date with one entry.
func (r *reader) note(e transcript.Entry) error {
	switch b := e.Body.(type) {
	case transcript.Header:
		if r.version != 0 {
			return nil // a second header is ignored
		}
		if e.ID != r.row.ID {
			return fmt.Errorf("its header names session %q: the file was renamed or copied; give it back its name", e.ID)
		}
		r.version, r.copiedLeft = b.Version, b.Base.Lines
		r.row.Owner, r.row.Key, r.row.CreatedAt, r.row.UpdatedAt = b.Owner, b.Key, b.Created, e.Time
		r.row.Gen, r.row.Rev = max(r.row.Gen, b.Gen), b.Rev
		r.row.Base, r.row.Descent, r.row.Parent = b.Base, b.Descent, b.Parent
		applyMeta(&r.row, b.Meta)
		if r.row.Agent == "" {
			if k, err := ParseKey(b.Key); err == nil {
				r.row.Agent = k.Agent
			}
		}
		return nil
	case transcript.Meta:
		if r.copiedLeft == 0 { // else it came along with a message
			applyMeta(&r.row, b)
		}
	case transcript.Compaction:
		if r.copiedLeft == 0 {
			r.row.Compactions++
		}
	case transcript.Current:
		r.row.Gen = max(r.row.Gen, b.Gen)
	case transcript.MessageLine:
		if b.Of == "" && (b.Kind == transcript.TypeUser || b.Kind == transcript.TypeAssistant) {
			r.row.Messages++
		}
		if r.copiedLeft == 0 { // the base counts the others
			spent(&r.row, b)
		}
		if b.Kind == transcript.TypeUser {
			r.row.LastUserAt = e.Time
			if r.row.Title == "" && !r.row.TitleByHand {
				r.row.Title = title.Of(b.Message().Text())
			}
		}
	}
	r.copiedLeft = max(r.copiedLeft-1, 0)
	if e.ID != "" {
		r.row.LastID = e.ID
	}
	if transcript.IsHead(e.Type()) && e.Time.After(r.row.UpdatedAt) {
		r.row.UpdatedAt = e.Time
	}
	return nil
}

// spent adds an answer to the usage of a row.
func spent(row *driver.Row, f transcript.MessageLine) {
	if f.Kind != transcript.TypeAssistant || f.Usage.IsZero() {
		return
	}
	sum := map[string]driver.Usage{}
	maps.Copy(sum, row.Usage)
	sum[f.Model] = sum[f.Model].Plus(driver.Usage{
		Answers: 1, Input: f.Usage.Input, Output: f.Usage.Output, CacheRead: f.Usage.CacheRead, CacheWrite: f.Usage.CacheWrite,
	})
	row.Usage = sum
}

func applyMeta(row *driver.Row, m transcript.Meta) {
	if m.Title != nil {
		row.Title, row.TitleByHand, row.TitledAt = *m.Title, m.TitleBy != transcript.ByModel, row.Messages
	}
	if m.Labels != nil {
		row.Labels = slices.Clone(m.Labels)
	}
	if m.TTL != nil {
		row.TTL = *m.TTL
	}
	if m.Keep != nil {
		row.Keep = *m.Keep
	}
}

// Rows are put into the index when something is promised (meta), when a turn
// ends, when a session leaves the table, when the store is closed or listed, and
// by an append that comes rowAge after the last row. So the order of lists is exact to
// rowAge.
const (
	rowAge = 5 * time.Second
	// rowWait is how long a caller waits for an index that is locked: by a
	// process that was stopped, for example. The rows are made again later.
	rowWait = 500 * time.Millisecond
)

// putRow puts the row of a session if the index lacks an append of this process.
// If fill is not set, a row for which older lines would have to be read is left
// for later. A failure is only logged: the transcript contains all data of a
// row. It reports whether the index was locked all the time.
func (st *Store) putRow(ctx context.Context, s *state, fill bool) (locked bool) {
	ctx = context.WithoutCancel(ctx)
	row, ok, err := s.takeRow(ctx, fill)
	if ok {
		wait, cancel := context.WithTimeout(ctx, rowWait)
		defer cancel()
		switch err = st.drv.Put(wait, row); {
		case errors.Is(err, ErrArchived):
			err = nil // with a row of its own
		case err != nil:
			s.rowDue.Store(true)
			locked = errors.Is(err, ErrBusy)
		}
	}
	if err != nil && !errors.Is(err, ErrClosed) && !isGone(err) {
		st.opts.Logger.Warn("the index was not brought up to date; the next row will do it",
			"agent", s.ref.Agent, "session", s.ref.ID, "err", err)
	}
	return locked
}

// putRows is putRow for all sessions of an agent, or of all agents if agent is
// empty. It waits once for an index that is locked, not once for each row.
func (st *Store) putRows(ctx context.Context, agent string, fill bool) {
	locked := map[string]bool{} // by agent; each has an index of its own
	for _, s := range st.table.due(agent) {
		if !locked[s.ref.Agent] {
			locked[s.ref.Agent] = st.putRow(ctx, s, fill)
		}
	}
}

// takeRow returns the row to put, if there is one.
func (s *state) takeRow(ctx context.Context, fill bool) (row driver.Row, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rowDue.Load() {
		return row, false, nil
	}
	if err := s.catchUp(ctx); err != nil {
		return row, false, err
	}
	if !s.filled() && !fill {
		return row, false, nil
	}
	if err := s.fill(s.scan(ctx)); err != nil {
		return row, false, err
	}
	s.rowDue.Store(false)
	s.rowAt = s.wroteAt
	return s.describe(), true, nil
}
