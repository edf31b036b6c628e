package transcript

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
)

// timeLayout is how times are written: UTC, microseconds, trailing zeros cut.
const timeLayout = "2006-01-02T15:04:05.999999Z07:00"

// ParseEntry decodes one line of a native transcript, given without its
// newline. The entry keeps line; do not modify it afterwards. The error is a
// *[DamageError] that says why the line is no entry.
//
// An entry needs valid UTF-8, a JSON object and a string member "type". A
// known type whose members have the wrong JSON type is no entry either; a type
// that is not known becomes [Unknown].
func ParseEntry(line []byte) (Entry, error) {
	e, err := decodeEntry(jsontext.Trim(line))
	if err != nil {
		// What is wrong with the line comes before what it says.
		if kind := classify(line); kind != "" {
			err = &DamageError{Kind: kind}
		}
		return Entry{}, err
	}
	return e, nil
}

// decodeEntry decodes a line without white space around it and checks it on
// the way. What its error says is true if the line is a valid JSON object.
func decodeEntry(line []byte) (Entry, error) {
	kind := ""
	for name, v := range jsontext.Members(line) {
		if name == "type" {
			kind, _ = jsontext.Word(v)
			break
		}
	}
	e, m := Entry{line: line}, members{ok: true}
	for {
		if kind == "" {
			return Entry{}, &DamageError{Kind: DamageMalformed, Reason: "no type"}
		}
		e.Body = decodeBody(kind, line, &e, &m)
		if !m.retype {
			break
		}
		// A second "type": the last of equal names counts.
		kind, e, m = typeMember(line), Entry{line: line}, members{ok: true, typed: true}
	}
	if !m.ok {
		return Entry{}, &DamageError{Kind: DamageMalformed, Reason: kind + " entry: unusable " + strconv.Quote(m.bad)}
	}
	return e, nil
}

// entry calls body for every member of the line that is not of the envelope.
func (m *members) entry(kind string, line []byte, e *Entry, body func(name string, v []byte)) {
	w := jsontext.NewWalk(line)
	for w.Next() {
		switch name, v := w.Name, w.Value; name {
		case "type":
			if s, _ := jsontext.Word(v); s != kind && !m.typed {
				m.retype = true
				return
			}
		case "id":
			m.str(&e.ID, v)
		case "ts":
			m.time(&e.Time, v)
		case "batch":
			m.num(&e.Batch, v)
		case "part":
			m.num(&e.Part, v)
		case "idem":
			m.str(&e.Idem, v)
		case "idemHash":
			m.str(&e.IdemHash, v)
		case "src": // see Source
		default:
			body(name, v)
		}
		if !m.ok {
			m.bad = w.Name
			return
		}
	}
	m.ok = w.Valid()
}

// appendLine encodes the entry: type, id and ts lead.
func (e Entry) appendLine(dst []byte) []byte {
	o := jsontext.AppendObject(dst)
	o.String("type", e.Type())
	o.OptString("id", e.ID)
	if !e.Time.IsZero() {
		o.Func("ts", func(dst []byte) []byte { return appendTime(dst, e.Time) })
	}
	o.OptInt("batch", int64(e.Batch))
	f, isFragment := e.Body.(Fragment)
	o.OptString("mid", f.Of)
	o.OptInt("part", int64(e.Part))
	o.OptString("idem", e.Idem)
	o.OptString("idemHash", e.IdemHash)
	switch {
	case isFragment:
		f.appendMembers(&o)
	case e.Body != nil:
		rest := o // on the heap, as what is given to an interface is
		e.Body.appendMembers(&rest)
		o = rest
	}
	return o.End()
}

// appendTime appends a time as a JSON string.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().Truncate(time.Microsecond).AppendFormat(dst, timeLayout)
	return append(dst, '"')
}

// checkLine reports a line that must not be written.
func checkLine(line []byte, max int) error {
	if len(line) > max {
		return fmt.Errorf("transcript: an entry of %d bytes is over the limit of %d: split it or store the data elsewhere", len(line), max)
	}
	if bytes.IndexByte(line, '\n') >= 0 {
		return errors.New("transcript: internal error: a line break inside a line")
	}
	return nil
}
