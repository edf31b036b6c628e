package session

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/live"
	"github.com/convolog/convolog/transcript"
)

// FilterWrite returns entries of one append as [Session.Append] would store them. It
// neither stores nor modifies entries. If no filter can change their texts, it returns
// entries itself.
func (s *Session) FilterWrite(ctx context.Context, entries []transcript.Entry) ([]transcript.Entry, error) {
	entries, err := s.store.filterWrite(ctx, s.ref, entries)
	return entries, s.store.wrap("filter", s.ref, err)
}

// FilterModel changes a history that was made from entries of the session, as
// [Session.History] changes its own.
func (s *Session) FilterModel(ctx context.Context, h *rebuild.History) error {
	for _, f := range slices.Backward(s.store.opts.Filters) {
		if f.Model == nil {
			continue
		}
		if err := f.Model(ctx, s.ref, h); err != nil {
			return s.store.wrap("filter", s.ref, err)
		}
	}
	return nil
}

// FilterExport returns entries of the session for other programs: every program that
// passes entries on should call it, as package exchange does. Entries are whole
// appends or answers. It does not modify entries.
func (s *Session) FilterExport(ctx context.Context, entries []transcript.Entry) (_ []transcript.Entry, err error) {
	for _, f := range slices.Backward(s.store.opts.Filters) {
		if entries, err = filtered(ctx, s.ref, entries, f.Export); err != nil {
			return nil, s.store.wrap("filter", s.ref, err)
		}
	}
	return entries, nil
}

// filterWrite passes entries to the filters before they are written.
func (st *Store) filterWrite(ctx context.Context, ref Ref, entries []transcript.Entry) (_ []transcript.Entry, err error) {
	if ofLibrary(ref.Agent) {
		return entries, nil
	}
	if err := st.noteMasking(ctx); err != nil {
		return nil, err
	}
	for _, f := range st.opts.Filters {
		if entries, err = filtered(ctx, ref, entries, f.Write); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// noteMasking records that the store masks, before the first masked entry is written.
func (st *Store) noteMasking(ctx context.Context) error {
	if st.noted.Load() || !masking(st.opts.Filters) {
		return nil
	}
	now := st.opts.Now().UTC().Truncate(time.Microsecond)
	h := transcript.Header{Version: transcript.Version, Key: Key{Agent: maskedNote.Agent, Peer: maskedNote.ID}.String(), Created: now}
	_, err := st.drv.Create(ctx, driver.KeyRef{Agent: maskedNote.Agent, Key: h.Key}, func(gen int64) (driver.Row, driver.Line) {
		h.Gen = gen
		e := transcript.Entry{ID: maskedNote.ID, Time: now, Body: h}
		return driver.Row{ID: e.ID, CreatedAt: now, UpdatedAt: now}, live.LineOf(st.lines.WithChecksum(e))
	})
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, ErrReadOnly) {
		return err
	}
	if !driver.IsTentative(ctx) { // else a rollback may take the note back
		st.noted.Store(true)
	}
	return nil
}

// sweepDeleted asks the filters to remove data of sessions that do not exist.
func (st *Store) sweepDeleted(ctx context.Context, refs ...Ref) (err error) {
	if !sweeping(st.opts.Filters) {
		return nil
	}
	none := func(func(transcript.Entry, error) bool) {}
	for _, ref := range refs {
		if _, getErr := st.drv.Get(ctx, ref); errors.Is(getErr, fs.ErrNotExist) {
			err = errors.Join(err, sweep(ctx, st.opts.Filters, ref, none))
		}
	}
	return err
}
