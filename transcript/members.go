package transcript

import (
	"time"

	"github.com/convolog/convolog/internal/jsontext"
)

// members collects the members of one object. ok turns false at the first
// member whose value has the wrong type.
type members struct {
	ok bool

	// Of a block.
	need  string // a member without which it is not of its type
	found bool   // whether need was there
	extra Extra

	// Of an entry.
	bad    string // the member that made ok false
	typed  bool   // its type is settled
	retype bool   // it has a second type
}

// each calls known for every member; what it does not take goes to extra.
func (m *members) each(data []byte, known func(name string, v []byte) bool) {
	for name, v := range jsontext.Members(data) {
		switch {
		case name == "type":
		case known(name, v):
			m.found = m.found || name == m.need
		default:
			m.extra = m.extra.with(name, v)
		}
	}
}

// block returns b if its members made sense.
func (m *members) block(b Block) Block {
	if !m.ok || !m.found {
		return nil
	}
	return b
}

func (m *members) str(dst *string, v []byte) bool {
	s, ok := jsontext.String(v)
	*dst = s
	m.ok = m.ok && ok
	return true
}

// word is str for values that are often the same.
func (m *members) word(dst *string, v []byte) {
	s, ok := jsontext.Word(v)
	*dst = s
	m.ok = m.ok && ok
}

func (m *members) flag(dst *bool, v []byte) bool {
	b, ok := jsontext.Bool(v)
	*dst = b
	m.ok = m.ok && (ok || jsontext.IsNull(v))
	return true
}

func (m *members) content(dst *[]Block, plain *bool, v []byte, inResult bool) bool {
	var err error
	*dst, *plain, err = decodeContent(v, inResult)
	m.ok = m.ok && err == nil
	return true
}

func (m *members) source(dst *Source, v []byte) bool {
	if !jsontext.IsObject(v) {
		m.ok = false
		return true
	}
	*dst = Source{}
	s := members{ok: true}
	for name, v := range jsontext.Members(v) {
		switch name {
		case "type":
			s.str(&dst.Type, v)
		case "media_type":
			s.str(&dst.MediaType, v)
		case "data":
			s.str(&dst.Data, v)
		case "url":
			s.str(&dst.URL, v)
		case "file_id":
			s.str(&dst.FileID, v)
		default:
			dst.Extra = dst.Extra.with(name, v)
		}
	}
	m.ok = m.ok && s.ok
	return true
}

func (m *members) num(dst *int, v []byte) {
	n, ok := jsontext.Int(v)
	*dst = int(n)
	m.ok = m.ok && ok
}

func (m *members) num64(dst *int64, v []byte) {
	n, ok := jsontext.Int(v)
	*dst = n
	m.ok = m.ok && ok
}

// time takes a time it cannot read for none: a strange clock is no reason to
// lose a message.
func (m *members) time(dst *time.Time, v []byte) {
	var t time.Time
	if jsontext.IsString(v) && t.UnmarshalJSON(v) == nil { // allocates nothing
		*dst = t.UTC()
	} else if s, ok := jsontext.String(v); ok {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			*dst = t.UTC()
		}
	}
}

func (m *members) strings(dst *[]string, v []byte) {
	*dst = []string{}
	for e := range jsontext.Elements(v) {
		var s string
		m.str(&s, e)
		*dst = append(*dst, s)
	}
	m.ok = m.ok && jsontext.IsArray(v)
}

func (m *members) clipping(v []byte) Clipping {
	var c Clipping
	m.ok = m.ok && jsontext.IsObject(v)
	for name, v := range jsontext.Members(v) {
		switch name {
		case "entry":
			m.str(&c.Entry, v)
		case "block":
			c.Block = new(int)
			m.num(c.Block, v)
		case "content":
			m.str(&c.Content, v)
		}
	}
	return c
}
