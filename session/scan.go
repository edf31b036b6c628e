package session

import (
	"bytes"
	"context"
	"iter"
	"strings"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// ScanOptions of [Session.Scan]. The zero value yields every record in order.
type ScanOptions struct {
	// From and To limit the scan to records that begin at or after From and before To,
	// places as [View.End] and [transcript.Record].Offset give them; 0 means
	// unlimited.
	From, To int64
	// Backward yields the last record first.
	Backward bool
	// Own leaves out the header of a fork and the lines that Fork has copied.
	Own bool
	// Keep, if not nil, selects the lines to decode. It is called with one line or
	// several whole ones, without the newline of the last, and must accept several if it
	// accepts one of them. It must not retain or modify them. A scan with Keep that
	// refuses most lines costs little more than reading, if it is Backward.
	Keep func(lines []byte) bool
	// ID leaves out all records except entries with this ID. A Backward scan
	// decodes few others.
	ID string
}

// Scan yields the records of the transcript: entries, and damage where it lies. It
// may be ranged over several times, keeps no more lines in memory than
// [transcript.Scan], and holds no lock.
func (s *Session) Scan(ctx context.Context, opts ScanOptions) iter.Seq2[transcript.Record, error] {
	return s.store.Scan(ctx, s.ref, opts)
}

// Scan is [Session.Scan] by name, for programs that read many sessions: a [Store.Get]
// for each may cost more.
func (st *Store) Scan(ctx context.Context, ref Ref, opts ScanOptions) iter.Seq2[transcript.Record, error] {
	ref = inMain(ref)
	return func(yield func(transcript.Record, error) bool) {
		o := opts
		fail := func(err error) { yield(transcript.Record{}, st.wrap("read", ref, err)) }
		own := func() (err error) { // leaves out copied lines
			if o.Own {
				o.Own = false
				var place int64
				place, err = st.ownLines(ctx, ref)
				o.From = max(o.From, place)
			}
			return err
		}
		err := st.check(ctx, ref)
		if err == nil && !o.Backward {
			err = own()
		}
		if err != nil {
			fail(err)
			return
		}
		for rec, err := range o.scan(ctx, st.drv, ref) {
			if err == nil {
				err = own() // backward: a search without a hit never asks
			}
			if err != nil {
				fail(err)
				return
			}
			tooEarly, tooLate := rec.Offset < o.From, o.To > 0 && rec.Offset >= o.To
			if tooEarly && o.Backward || tooLate && !o.Backward {
				return
			}
			if !tooEarly && !tooLate && o.wants(rec) && !yield(rec, nil) {
				return
			}
		}
	}
}

// scan yields the records that the options select, and perhaps others.
func (o *ScanOptions) scan(ctx context.Context, drv driver.Driver, ref Ref) iter.Seq2[transcript.Record, error] {
	switch {
	case !o.Backward:
		return drv.Scan(ctx, ref, driver.Cursor(o.From), driver.Forward, nil)
	case o.Keep == nil && o.ID == "" && o.To == 0 && o.From == 0:
		return drv.Scan(ctx, ref, 0, driver.Backward, nil)
	}
	keep := o.Keep
	if o.ID != "" {
		keep = holdsID(o.ID)
	}
	return drv.Scan(ctx, ref, 0, driver.Backward, func(at driver.Cursor, lines []byte) bool {
		early := int64(at) < o.From // the scan ends there
		return (o.To == 0 || int64(at) < o.To) && (early || keep == nil || keep(lines))
	})
}

// wants reports whether a decoded record is a requested one.
func (o *ScanOptions) wants(rec transcript.Record) bool {
	switch {
	case o.ID != "":
		return rec.HasEntry() && rec.Entry.ID == o.ID
	case o.Keep != nil && !o.Backward && rec.HasEntry():
		return o.Keep(rec.Entry.Line())
	}
	return true
}

// holdsID returns the function that reports whether lines may hold an entry with an
// ID.
func holdsID(id string) func(lines []byte) bool {
	plain := !strings.ContainsFunc(id, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '/' })
	quoted := []byte(`"` + id + `"`)
	return func(lines []byte) bool {
		return !plain || bytes.Contains(lines, quoted) || bytes.Contains(lines, []byte(`\u`))
	}
}

// ownLines returns the place after the lines that a fork was made with, 0 for a session
// that is not a fork.
func (st *Store) ownLines(ctx context.Context, ref Ref) (place int64, err error) {
	copied := -1 // lines that are still to come
	for rec, err := range st.drv.Scan(ctx, ref, 0, driver.Forward, nil) {
		if err != nil {
			return 0, err
		}
		if copied < 0 {
			h, _ := rec.Entry.Body.(transcript.Header)
			if copied = h.Base.Lines; copied == 0 {
				return 0, nil
			}
			continue
		}
		if copied--; copied == 0 {
			return rec.End, nil
		}
	}
	return 0, nil
}
