package memdriver

import (
	"bytes"
	"errors"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A session is one session of a storage, whose lock guards it.
type session struct {
	row     driver.Row
	records []transcript.Record // the k-th ends at cursor k; only added to
	head    string
	batches transcript.Batcher       // knows the batch that is unfinished
	idem    map[string]driver.Result // by key: the whole batches that have one
	hashes  map[string]string        // of the same
	turn    chan struct{}            // holds one element while the turn is locked
	gone    chan struct{}            // closed when the session is deleted

	deciding chan struct{} // closed when a Decide has returned; nil if none is running
}

func newSession(row driver.Row) *session {
	return &session{
		row:    row,
		head:   driver.NoHead,
		idem:   map[string]driver.Result{},
		hashes: map[string]string{},
		turn:   make(chan struct{}, 1),
		gone:   make(chan struct{}),
	}
}

func (s *session) end() driver.Cursor { return driver.Cursor(len(s.records)) }

func (s *session) copyRow() driver.Row {
	row := s.row
	row.Labels = slices.Clone(row.Labels)
	return row
}

// check reports whether cond holds: the error is nil and the result says that
// nothing is repeated. An idempotency key comes first, because a retry comes
// with the head its first attempt has replaced.
func (s *session) check(cond driver.Cond) (driver.Result, error) {
	if earlier, ok := s.idem[cond.Idem]; ok && cond.Idem != "" {
		if h := s.hashes[cond.Idem]; h != cond.IdemHash && h != transcript.ErasedHash {
			return driver.Result{}, driver.ErrIdemMismatch
		}
		earlier.IDs = slices.Clone(earlier.IDs)
		return earlier, nil
	}
	if cond.Head != "" && cond.Head != s.head {
		return driver.Result{}, driver.ErrConflict
	}
	if len(cond.Conflicts) > 0 {
		base := min(max(cond.Base, 0), s.end())
		for _, rec := range s.records[base:] {
			if slices.Contains(cond.Conflicts, rec.Entry.Type()) {
				return driver.Result{}, driver.ErrConflict
			}
		}
	}
	return driver.Result{}, nil
}

// append adds lines, all or none.
func (s *session) append(lines []driver.Line) (driver.Result, error) {
	for _, l := range lines {
		if bytes.IndexByte(l.Data, '\n') >= 0 {
			return driver.Result{}, errBadLine
		}
	}
	r := driver.Result{Start: s.end()}
	for _, l := range lines {
		s.add(l.Data)
		r.IDs = append(r.IDs, l.ID)
	}
	r.End = s.end()
	return r, nil
}

// add records one more line. A line that is no entry is kept as damage,
// which has a size but no bytes.
func (s *session) add(data []byte) {
	rec := transcript.Record{Offset: int64(s.end()), End: int64(s.end()) + 1}
	e, err := transcript.ParseEntry(bytes.Clone(data))
	if err != nil {
		rec.Damage = &transcript.Damage{Kind: transcript.DamageMalformed, Offset: rec.Offset, Size: int64(len(data))}
		if de, ok := errors.AsType[*transcript.DamageError](err); ok {
			rec.Damage.Kind, rec.Damage.Reason = de.Kind, de.Reason
		}
		s.records = append(s.records, rec)
		s.batches.Break()
		return
	}
	rec.Entry = e
	s.records = append(s.records, rec)
	if transcript.IsHead(e.Type()) {
		s.head = e.ID
	}
	for _, b := range s.batches.Add(e) {
		if first := b.Entries[0]; b.Complete && first.Idem != "" {
			s.remember(first, b.Entries)
		}
	}
}

// remember notes the idempotency key of a batch whose last line was just
// added.
func (s *session) remember(first transcript.Entry, batch []transcript.Entry) {
	r := driver.Result{Start: s.end() - driver.Cursor(len(batch)), End: s.end(), Repeated: true}
	for _, e := range batch {
		r.IDs = append(r.IDs, e.ID)
	}
	s.idem[first.Idem], s.hashes[first.Idem] = r, first.IdemHash
}
