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
	row     driver.Row          // with Bytes
	body    driver.Cursor       // the high half of its cursors; a rewrite gives another one
	records []transcript.Record // the k-th ends at cursor body|k; only added to
	turn    chan struct{}       // holds one element while the turn is locked
	gone    chan struct{}       // closed when the session is deleted

	deciding chan struct{} // closed when an append has decided; nil if none is deciding
}

// maxLines is the part of a cursor that counts the lines before it.
const maxLines driver.Cursor = 1<<32 - 1

func (st *storage) newSession(row driver.Row) *session {
	st.body += maxLines + 1
	return &session{
		row:  row,
		body: st.body,
		turn: make(chan struct{}, 1),
		gone: make(chan struct{}),
	}
}

func (s *session) end() driver.Cursor { return s.body | driver.Cursor(len(s.records)) }

func (s *session) copyRow() driver.Row {
	row := s.row
	row.Labels = slices.Clone(row.Labels)
	return row
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
	}
	r.End = s.end()
	return r, nil
}

// add records one more line. A malformed line becomes damage with its size but
// without its bytes.
func (s *session) add(data []byte) {
	rec := transcript.Record{Offset: int64(s.end()), End: int64(s.end()) + 1}
	e, err := transcript.ParseEntry(bytes.Clone(data))
	if err != nil {
		rec.Damage = &transcript.Damage{Kind: transcript.DamageMalformed, Offset: rec.Offset, Size: int64(len(data))}
		if de, ok := errors.AsType[*transcript.DamageError](err); ok {
			rec.Damage.Kind, rec.Damage.Reason = de.Kind, de.Reason
		}
	} else {
		rec.Entry = e
	}
	s.records = append(s.records, rec)
	s.row.Bytes += int64(len(data)) + 1
}
