package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/redact"
)

// A Filter changes entries before they are stored and before they leave the store, and
// may keep parts of them elsewhere: see [Options].Filters. [Redact] is one, and package
// session/blobs has another. Nil fields do nothing. The functions are called by several
// goroutines, must not modify their arguments unless documented, and return as many
// entries as they get. They must not append to the session: in an Update they would wait
// for themselves. An error fails the call.
type Filter struct {
	// Write returns entries as they are to be stored. The entries belong to one append or
	// to a new session. A new session begins with its header, and the next Base.Lines
	// entries are copies from the session that the header calls Base; they are stored as
	// they are, whatever Write returns. The session gets its name after Write, which
	// copies the parts that the lines need from the sessions of Descent. Then ctx ends,
	// even if the session was not made.
	//
	// Write is called again when a call is retried, with entries that it has returned,
	// and with entries that are not stored in the end. So its result depends on the
	// entries alone, and it never changes or removes earlier results. A filter that can
	// change texts returns another slice each time, even if it has changed nothing:
	// drafts then hold back text, see [Redact].
	Write func(ctx context.Context, ref Ref, entries []transcript.Entry) ([]transcript.Entry, error)
	// Model changes a history before a request is made from it. It may replace the
	// Content of messages, and must not modify it.
	Model func(ctx context.Context, ref Ref, h *rebuild.History) error
	// Export returns entries as other programs are to have them. Nothing is stored.
	Export func(ctx context.Context, ref Ref, entries []transcript.Entry) ([]transcript.Entry, error)
	// Sweep removes what Write has kept elsewhere and no entry needs any more. It is
	// called after an erase with the remaining entries, which it may range over several
	// times; until it returns, no call can append to the session. After a deletion, and
	// if a new session could not be made, it is called without entries.
	Sweep func(ctx context.Context, ref Ref, entries iter.Seq2[transcript.Entry, error]) error

	masks bool // it is of Redact
}

// Redact returns a Filter that stores and exports the texts of entries as hook returns
// them. Package transcript/redact has a ready hook, redact.Secrets, and its Entries
// defines which strings are texts. An answer that hook changes is stored without its
// reasoning. Lines that were written before, and their copies in a fork, stay as they
// are; exports mask them.
//
// A store remembers its first write with a Redact filter. From then on a program that opens
// the store without one gets Redact(redact.Secrets) as its first filter, and a warning: the
// command line and a server mask as well, with the rules of the ready hook. Programs that
// have the store open at that moment are not affected.
//
// Hook must depend on the text alone, so that an append that is repeated under its
// idempotency key is the same, and must not change text that it has returned. A draft
// holds back its last line until that is complete, and text that hook would mask together
// with text after it: where a secret of several lines has no end, hook must mask it up to
// the end of the text.
func Redact(hook func(ctx context.Context, text string) string) Filter {
	if hook == nil {
		return Filter{}
	}
	mask := func(ctx context.Context, _ Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
		return redact.Entries(entries, func(text string) string { return hook(ctx, text) })
	}
	return Filter{masks: true, Export: mask, Write: func(ctx context.Context, ref Ref, entries []transcript.Entry) ([]transcript.Entry, error) {
		own := 1 + copiesIn(entries)
		if own == 1 {
			return mask(ctx, ref, entries)
		}
		out, err := mask(ctx, ref, slices.Concat(entries[:1], entries[own:]))
		if err != nil {
			return nil, err
		}
		return slices.Insert(out, 1, entries[1:own]...), nil
	}}
}

// copiesIn returns how many entries after the header of a new session are copies.
func copiesIn(entries []transcript.Entry) int {
	if len(entries) == 0 {
		return 0
	}
	h, _ := entries[0].Body.(transcript.Header)
	return max(0, min(h.Base.Lines, len(entries)-1))
}

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
// passes entries on should call it, as package exchange does. They are whole appends,
// or whole answers. It does not modify entries.
func (s *Session) FilterExport(ctx context.Context, entries []transcript.Entry) (_ []transcript.Entry, err error) {
	for _, f := range slices.Backward(s.store.opts.Filters) {
		if entries, err = filtered(ctx, s.ref, entries, f.Export); err != nil {
			return nil, s.store.wrap("filter", s.ref, err)
		}
	}
	return entries, nil
}

// maskedNote is a session that exists if the store masks texts.
var maskedNote = Ref{Agent: "_settings", ID: "masked"}

func (st *Store) masks() bool {
	return slices.ContainsFunc(st.opts.Filters, func(f Filter) bool { return f.masks })
}

// keepMasking adds the ready hook to the filters if the store masks and the options do not.
// If that is unknown it masks: a mask can be explained, a stored password not recalled.
func (st *Store) keepMasking() {
	if st.masks() {
		return
	}
	if _, err := st.drv.Get(context.Background(), maskedNote); !errors.Is(err, fs.ErrNotExist) {
		st.opts.Filters = slices.Concat([]Filter{Redact(redact.Secrets)}, st.opts.Filters)
		st.opts.Logger.Warn("the store masks secrets and the options lack session.Redact: redact.Secrets masks them", "err", err)
	}
}

// noteMasking records that the store masks, before the first masked entry is written.
func (st *Store) noteMasking(ctx context.Context) error {
	if st.noted.Load() || !st.masks() {
		return nil
	}
	unscoped := &Store{shared: st.shared}
	_, err := unscoped.Create(ctx, Key{Agent: maskedNote.Agent}, &CreateOptions{ID: maskedNote.ID})
	if err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, ErrReadOnly) {
		return err
	}
	st.noted.Store(true)
	return nil
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

// filtered passes entries to a function of a filter, and checks the result.
func filtered(
	ctx context.Context, ref Ref, entries []transcript.Entry,
	filter func(context.Context, Ref, []transcript.Entry) ([]transcript.Entry, error),
) ([]transcript.Entry, error) {
	if filter == nil {
		return entries, nil
	}
	out, err := filter(ctx, ref, entries)
	if err == nil && len(out) != len(entries) {
		err = fmt.Errorf("a filter returns %d entries for %d", len(out), len(entries))
	}
	for i, e := range out {
		if n := len(e.Line()); n > transcript.DefaultMaxLine && err == nil {
			err = fmt.Errorf("entry %d of %d: a line of %d bytes is over the limit of %d", i+1, len(out), n, transcript.DefaultMaxLine)
		}
	}
	return out, err
}

// filterBody passes the texts of a body to the filters before it is measured or handed
// to the caller and to observers, and not only when it is written.
func filterBody[T transcript.Body](ctx context.Context, s *Session, body T) (T, error) {
	got, err := s.store.filterWrite(ctx, s.ref, []transcript.Entry{{Body: body}})
	if err != nil {
		return body, err
	}
	if b, ok := got[0].Body.(T); ok {
		body = b
	}
	return body, nil
}

// filterNew calls create with the entries of a new session, the header first, as the
// filters let them be written.
func (st *Store) filterNew(
	ctx context.Context, ref Ref, entries []transcript.Entry, create func(entries []transcript.Entry) (driver.Row, error),
) (row driver.Row, err error) {
	if len(st.opts.Filters) == 0 {
		return create(entries)
	}
	if _, err := st.drv.Get(ctx, ref); err == nil {
		return row, fmt.Errorf("session %s of agent %q: %w: choose another ID or none", ref.ID, ref.Agent, fs.ErrExist)
	}
	// The caller may give up while the filters work. Their context ends with the call,
	// however, once they have done it.
	making, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, end)
	out, err := st.filterWrite(making, ref, entries)
	if !stop() {
		err = cmp.Or(ctx.Err(), err)
	}
	if err == nil {
		own := 1 + copiesIn(entries)
		row, err = create(slices.Concat(out[:1], entries[1:own], out[own:]))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = errors.Join(err, st.sweepDeleted(context.WithoutCancel(ctx), ref))
	}
	return row, err
}

// sweeps reports whether a filter keeps anything elsewhere.
func (st *Store) sweeps() bool {
	return slices.ContainsFunc(st.opts.Filters, func(f Filter) bool { return f.Sweep != nil })
}

func (st *Store) sweepDeleted(ctx context.Context, refs ...Ref) (err error) {
	if !st.sweeps() {
		return nil
	}
	none := func(func(transcript.Entry, error) bool) {}
	for _, ref := range refs {
		if _, getErr := st.drv.Get(ctx, ref); errors.Is(getErr, fs.ErrNotExist) {
			err = errors.Join(err, st.sweep(ctx, ref, none))
		}
	}
	return err
}

func (st *Store) sweep(ctx context.Context, ref Ref, left iter.Seq2[transcript.Entry, error]) (err error) {
	for _, f := range st.opts.Filters {
		if f.Sweep != nil {
			err = errors.Join(err, f.Sweep(ctx, ref, left))
		}
	}
	return err
}

// sweepErased has the filters remove what the lines of the session do not need any more,
// while no other call can append to it.
func (s *Session) sweepErased(ctx context.Context) error {
	if !s.store.sweeps() {
		return nil
	}
	_, err := s.store.drv.Append(ctx, s.ref, nil, driver.Anywhere, func(ctx context.Context, _ driver.Cursor) ([]driver.Line, error) {
		return nil, s.store.sweep(ctx, s.ref, func(yield func(transcript.Entry, error) bool) {
			for rec, err := range s.store.drv.Scan(ctx, s.ref, 0, driver.Forward, nil) {
				if (err != nil || rec.HasEntry()) && !yield(rec.Entry, err) {
					return
				}
			}
		})
	})
	return err
}
