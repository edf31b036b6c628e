package live

import (
	"context"
	"errors"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// Rows are put into the index after metadata, as SetMeta promises, when a turn ends,
// when a session leaves the table, when the store is closed or listed, and by an
// append that comes rowAge after the last row. So the order of lists is exact to
// rowAge.
const (
	rowAge = 5 * time.Second
	// rowWait is how long a caller waits for an index that is locked: by a
	// process that was stopped, for example. The rows are made again later.
	rowWait = 500 * time.Millisecond
)

// PutRow writes the row of the session to the index if that lacks an append of this
// process. Without fill, a row for which older lines must be read is left for later. A
// failure is only logged: the transcript has all the data of the row. PutRow reports
// whether the index was locked for as long as PutRow waited.
func (s *State) PutRow(ctx context.Context, fill bool) (locked bool) {
	ctx = context.WithoutCancel(ctx)
	row, ok, err := s.takeRow(ctx, fill)
	if ok {
		wait, cancel := context.WithTimeout(ctx, rowWait)
		defer cancel()
		switch err = s.o.Driver.Put(wait, row); {
		case errors.Is(err, driver.ErrArchived):
			err = nil // it keeps its own row
		case err != nil:
			s.rowDue.Store(true)
			locked = errors.Is(err, driver.ErrBusy)
		}
	}
	if IsGone(err) {
		s.Forget()
	} else if err != nil && !errors.Is(err, driver.ErrClosed) {
		s.o.Logger.Warn("the index was not brought up to date; the next row will do it",
			"agent", s.ref.Agent, "session", s.ref.ID, "err", err)
	}
	return locked
}

// RowDue notes that the index may lack lines, so that the next PutRow puts a row.
func (s *State) RowDue() { s.rowDue.Store(true) }

// takeRow returns the row to put, if there is one.
func (s *State) takeRow(ctx context.Context, fill bool) (row driver.Row, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rowDue.Load() {
		return row, false, nil
	}
	if err := s.catchUp(ctx); err != nil {
		return row, false, err
	}
	if !s.Filled() && !fill {
		return row, false, nil
	}
	if row, err = s.Row(ctx); err != nil {
		return row, false, err
	}
	s.rowDue.Store(false)
	s.rowAt = s.wroteAt
	return row, true, nil
}
