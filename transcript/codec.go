package transcript

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
)

// A codec carries the members of one object between JSON and Go. The method
// members of each type names all of its members once, in the order in which
// they are written, and serves both directions. When encoding, each call writes
// its member. When decoding, members is called for every member of the JSON, and
// the call with the member's name takes its value.
//
// The methods whose names begin with opt write nothing for a zero value.
type codec struct {
	encoding bool
	out      jsontext.Object // encoding

	// Decoding.
	name  string // the member at hand
	value []byte
	taken bool   // a call took it
	found bool   // a block has its required member
	bad   string // the first member whose value has the wrong type

	// Decoding a line.
	typed  bool // its type is settled
	retype bool // a second type follows
	valid  bool // it is valid JSON to its end
}

// encoder returns a codec that appends an object to dst.
func encoder(dst []byte) codec { return codec{encoding: true, out: jsontext.AppendObject(dst)} }

// takes reports whether the member at hand has that name, and takes it.
func (c *codec) takes(name string) bool {
	if c.name != name {
		return false
	}
	c.taken = true
	return true
}

// require notes that the value of the member at hand cannot be used unless ok.
func (c *codec) require(ok bool) {
	if !ok && c.bad == "" {
		c.bad = c.name
	}
}

// omits reports whether an optional member is not to be written.
func (c *codec) omits(empty bool) bool { return c.encoding && empty }

func (c *codec) isNull() bool { return !c.encoding && jsontext.IsNull(c.value) }

func (c *codec) str(name string, p *string) {
	if c.encoding {
		c.out.String(name, *p)
	} else if c.takes(name) {
		s, ok := jsontext.String(c.value)
		*p = s
		c.require(ok)
	}
}

func (c *codec) optStr(name string, p *string) {
	if !c.omits(*p == "") {
		c.str(name, p)
	}
}

// needStr is str for a member that every block of its type contains.
func (c *codec) needStr(name string, p *string) {
	c.str(name, p)
	c.found = c.found || c.name == name
}

// optWord is optStr for values from a small set, which need no allocation.
func (c *codec) optWord(name string, p *string) {
	if c.encoding {
		c.out.OptString(name, *p)
	} else if c.takes(name) {
		s, ok := jsontext.Word(c.value)
		*p = s
		c.require(ok)
	}
}

func (c *codec) num64(name string, p *int64) {
	if c.encoding {
		c.out.Int(name, *p)
	} else if c.takes(name) {
		n, ok := jsontext.Int(c.value)
		*p = n
		c.require(ok)
	}
}

func (c *codec) num(name string, p *int) {
	n := int64(*p)
	c.num64(name, &n)
	*p = int(n)
}

func (c *codec) optNum(name string, p *int) {
	if !c.omits(*p == 0) {
		c.num(name, p)
	}
}

func (c *codec) optFloat(name string, p *float64) {
	if c.encoding {
		if *p != 0 {
			c.out.Func(name, func(dst []byte) []byte { return strconv.AppendFloat(dst, *p, 'g', -1, 64) })
		}
	} else if c.takes(name) {
		f, ok := jsontext.Float(c.value)
		*p = f
		c.require(ok)
	}
}

// flag takes null for false.
func (c *codec) flag(name string, p *bool) {
	if c.encoding {
		c.out.Bool(name, *p)
	} else if c.takes(name) {
		b, ok := jsontext.Bool(c.value)
		*p = b
		c.require(ok || c.isNull())
	}
}

func (c *codec) optFlag(name string, p *bool) {
	if !c.omits(!*p) {
		c.flag(name, p)
	}
}

// optTrue ignores other values than booleans.
func (c *codec) optTrue(name string, p *bool) {
	if c.encoding {
		c.out.OptBool(name, *p)
	} else if c.takes(name) {
		*p, _ = jsontext.Bool(c.value)
	}
}

// optTime ignores an unreadable time: a wrong clock must not lose a message.
func (c *codec) optTime(name string, p *time.Time) {
	if c.encoding {
		if !p.IsZero() {
			c.out.Func(name, func(dst []byte) []byte { return appendTime(dst, *p) })
		}
		return
	}
	if !c.takes(name) {
		return
	}
	var t time.Time
	if jsontext.IsString(c.value) && t.UnmarshalJSON(c.value) == nil { // allocates nothing
		*p = t.UTC()
	} else if s, ok := jsontext.String(c.value); ok {
		if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
			*p = t.UTC()
		}
	}
}

// appendTime appends a time as a JSON string: in UTC, in microseconds without
// trailing zeros.
func appendTime(dst []byte, t time.Time) []byte {
	dst = append(dst, '"')
	dst = t.UTC().Truncate(time.Microsecond).AppendFormat(dst, time.RFC3339Nano)
	return append(dst, '"')
}

func (c *codec) optRaw(name string, p *json.RawMessage) {
	if c.encoding {
		c.out.OptValue(name, *p)
	} else if c.takes(name) {
		*p = slices.Clone(c.value)
	}
}

// optStrs keeps an empty list, drops nil.
func optStrs[S ~string](c *codec, name string, p *[]S) {
	if c.encoding {
		if *p != nil {
			c.out.Func(name, func(dst []byte) []byte { return appendStrings(dst, *p) })
		}
	} else if c.takes(name) {
		c.require(jsontext.IsArray(c.value))
		*p = []S{}
		for v := range jsontext.Elements(c.value) {
			s, ok := jsontext.String(v)
			*p = append(*p, S(s))
			c.require(ok)
		}
	}
}

func appendStrings[S ~string](dst []byte, list []S) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, string(s))
	}
	return append(dst, ']')
}

// present reports whether a member is there; a nil pointer omits it. When
// decoding, it makes room for the value.
func present[T any](c *codec, name string, p **T) bool {
	if !c.encoding && c.name == name {
		*p = new(T)
	}
	return *p != nil
}

// optObject leaves out the zero value.
func optObject[T comparable](c *codec, name string, p *T, members func(*T, *codec)) {
	var zero T
	if !c.omits(*p == zero) {
		object(c, name, p, members)
	}
}

func object[T any](c *codec, name string, p *T, members func(*T, *codec)) {
	if c.encoding {
		c.out.Func(name, func(dst []byte) []byte { return appendObject(dst, p, members) })
	} else if c.takes(name) {
		*p = decodeObject(c, c.value, members)
	}
}

func list[T any](c *codec, name string, p *[]T, members func(*T, *codec)) {
	if c.encoding {
		c.out.Func(name, func(dst []byte) []byte {
			dst = append(dst, '[')
			for i := range *p {
				if i > 0 {
					dst = append(dst, ',')
				}
				dst = appendObject(dst, &(*p)[i], members)
			}
			return append(dst, ']')
		})
	} else if c.takes(name) {
		*p = nil
		c.require(jsontext.IsArray(c.value))
		for v := range jsontext.Elements(c.value) {
			*p = append(*p, decodeObject(c, v, members))
		}
	}
}

func optList[T any](c *codec, name string, p *[]T, members func(*T, *codec)) {
	if !c.omits(len(*p) == 0) {
		list(c, name, p, members)
	}
}

func (c *codec) object(data []byte, members func()) {
	for c.name, c.value = range jsontext.Members(data) {
		c.taken = false
		members()
	}
}

func appendObject[T any](dst []byte, v *T, members func(*T, *codec)) []byte {
	in := encoder(dst)
	members(v, &in)
	return in.out.End()
}

// decodeObject decodes an object in the value of the member at hand.
func decodeObject[T any](c *codec, data []byte, members func(*T, *codec)) (v T) {
	var in codec
	in.object(data, func() { members(&v, &in) })
	c.require(in.bad == "" && jsontext.IsObject(data))
	return v
}
