package filedriver

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/session/driver"
)

const (
	indexName    = "sessions.jsonl"
	lockName     = "sessions.lock"
	indexVersion = 3
	// An index is rewritten when it is longer than twice its rows plus rewriteAbove bytes.
	rewriteAbove = 64 << 10
)

// A record is one line of the index. The first line has Version; every other
// one has one of the members below Row.
type record struct {
	Version int    `json:"index,omitempty"`
	Boot    string `json:"boot,omitempty"` // of the system, see bootID
	Agent   string `json:"agent,omitempty"`

	Row     *driver.Row `json:"row,omitempty"`
	Change  string      `json:"change,omitempty"`  // a session that is made, archived, restored or made current
	Listed  folderTimes `json:"listed,omitzero"`   // of the folders whose names earlier lines cover
	Unknown string      `json:"unknown,omitempty"` // a transcript whose header cannot be read
	Open    int64       `json:"open,omitempty"`    // a writer that may append from now on
	Closed  int64       `json:"closed,omitempty"`  // a writer that appends no more; its rows are in the index
	Delete  string      `json:"delete,omitempty"`
	Erase   string      `json:"erase,omitempty"` // a session whose lines are replaced
}

// A line is a decoded line of the index.
type line struct {
	record
	row     *entry // nil if the line is not a row
	damaged bool
	end     int64 // offset after it
}

// headRow is the beginning of a row.
const headRow = `{"row":`

// peek reads the beginning of a line with a row as this package writes it; the
// entry gets the row's place in the line. It reports false for other lines.
func peek(text []byte) (l line, ok bool) {
	p := peeker{text, true}
	if !p.maybe(headRow) {
		return line{}, false
	}
	e := &entry{at: int64(len(text) - len(p.rest)), n: len(p.rest) - len("}")}
	p.skip(`{"id":"`)
	id := p.text()
	if p.maybe(`,"updatedAt":"`) {
		p.ok = p.ok && e.updatedAt.UnmarshalText(p.text()) == nil
	}
	p.skip(`,"size":`)
	e.size = p.number()
	p.skip(`,"gen":`)
	e.gen = p.number()
	if p.maybe(`,"rev":`) {
		e.rev = int(p.number())
	}
	if e.used = p.maybe(`,"lastId":"`); e.used {
		p.text()
	}
	e.archived = p.maybe(`,"archived":true`)
	var owner []byte
	if p.maybe(`,"owner":"`) {
		owner = p.text()
	}
	p.skip(`,"key":"`)
	key := p.text()
	var buf [192]byte
	names := append(append(append(buf[:0], id...), owner...), key...)
	if !p.ok || len(key) == 0 || bytes.IndexByte(names, '\\') >= 0 || !bytes.HasSuffix(p.rest, []byte("}}")) {
		return line{}, false
	}
	all := string(names) // one allocation
	e.id, e.owner, e.key = all[:len(id)], all[len(id):len(id)+len(owner)], all[len(id)+len(owner):]
	l.row = e
	return l, true
}

// peekMark reads a line with a change, or with the times of folders, as this package
// writes it: a session that is made has one of each. It reports false for any
// other line.
func peekMark(text []byte) (l line, ok bool) {
	p := peeker{text, true}
	switch {
	case p.maybe(`{"change":"`):
		l.Change = string(p.text())
		return l, p.ok && l.Change != "" && strings.IndexByte(l.Change, '\\') < 0 && string(p.rest) == "}"
	case p.maybe(`{"listed":[`):
		l.Listed[0] = p.number()
		p.skip(",")
		l.Listed[1] = p.number()
		return l, p.ok && string(p.rest) == "]}"
	}
	return line{}, false
}

// A peeker walks over JSON whose members have a known order.
type peeker struct {
	rest []byte
	ok   bool
}

func (p *peeker) maybe(prefix string) bool {
	if len(p.rest) < len(prefix) || string(p.rest[:len(prefix)]) != prefix {
		return false
	}
	p.rest = p.rest[len(prefix):]
	return true
}

func (p *peeker) skip(prefix string) { p.ok = p.maybe(prefix) && p.ok }

// text returns the rest of a text, and moves past its quote.
func (p *peeker) text() []byte {
	i := bytes.IndexByte(p.rest, '"')
	if i < 0 {
		p.ok = false
		return nil
	}
	found := p.rest[:i]
	p.rest = p.rest[i+1:]
	return found
}

func (p *peeker) number() (n int64) {
	i := 0
	for ; i < len(p.rest) && '0' <= p.rest[i] && p.rest[i] <= '9' && i < 19; i++ {
		n = n*10 + int64(p.rest[i]-'0')
	}
	p.ok = p.ok && i > 0 && (i < 19 || p.rest[0] < '9') // no overflow
	p.rest = p.rest[i:]
	return n
}

func decodeJSON(text []byte) (l line) {
	l.damaged = json.Unmarshal(text, &l.record) != nil
	if row := l.Row; row != nil && row.ID != "" && !l.damaged {
		l.row = entryOf(*row)
	}
	return l
}

func appendRecord(dst []byte, rec record) []byte {
	if rec.Row != nil {
		row := storable(*rec.Row)
		row.Agent = "" // the first line has it
		rec.Row = &row
	}
	line, _ := json.Marshal(rec) // never fails
	return append(append(dst, line...), '\n')
}

// folderTimes are the times of the last changes of the folders of transcripts and
// archives, in nanoseconds; 0 if there is no such folder.
type folderTimes [2]int64
