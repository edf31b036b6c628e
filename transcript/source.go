package transcript

import "github.com/convolog/convolog/internal/jsontext"

// WithSource returns e with a line that is made anew, and in its member "src"
// the line of another program that the entry stands for, byte for byte unless
// it is not valid UTF-8. To a fold the member says nothing.
func (e Entry) WithSource(line []byte) Entry {
	own := e.appendLine(nil)
	own = append(own[:len(own)-1], `,"src":`...)
	own = jsontext.AppendString(own, string(line))
	e.line = append(own, '}')
	return e
}

// Source returns the line that [Entry.WithSource] has kept in a native line; ok
// is false if there is none.
func (e Entry) Source() (line []byte, ok bool) {
	v, ok := jsontext.Member(e.line, "src")
	if !ok {
		return nil, false
	}
	s, ok := jsontext.String(v)
	return []byte(s), ok
}
