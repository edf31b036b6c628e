package transcript

import (
	"strconv"
	"sync"

	"github.com/convolog/convolog/internal/jsontext"
)

// ParseEntry decodes one line of a native transcript, given without its
// newline. The entry retains line; the caller must not modify it afterwards.
// The error is a *[DamageError] with the reason why the line is not an entry.
// ParseEntry does not verify checksums; [Scan] does.
//
// An entry is a JSON object in valid UTF-8 with a string member "type". A known
// type whose members have the wrong JSON type is not an entry; an unknown type
// becomes [Unknown].
func ParseEntry(line []byte) (Entry, error) {
	e, err := decodeEntry(jsontext.Trim(line))
	if err != nil {
		// Damage to the text outranks errors of decoding it.
		if kind := classify(line); kind != "" {
			err = &DamageError{Kind: kind}
		}
		return Entry{}, err
	}
	return e, nil
}

// decodeEntry decodes a line that has no white space around it and validates it
// in the same pass. Its error is only meaningful if the line is a valid JSON
// object.
func decodeEntry(line []byte) (Entry, error) {
	kind := ""
	for name, v := range jsontext.Members(line) {
		if name == "type" {
			kind, _ = jsontext.Word(v)
			break
		}
	}
	e, c := Entry{line: line}, codec{}
	for {
		if kind == "" {
			return Entry{}, &DamageError{Kind: DamageMalformed, Reason: "no type"}
		}
		e.Body = decodeBody(&c, kind, &e)
		if !c.retype {
			break
		}
		// A second "type" follows: the last of equal names counts.
		kind, e, c = typeMember(line), Entry{line: line}, codec{typed: true}
	}
	if c.bad != "" || !c.valid {
		return Entry{}, &DamageError{Kind: DamageMalformed, Reason: kind + " entry: unusable " + strconv.Quote(c.bad)}
	}
	return e, nil
}

// line decodes the members of an entry: common members into e, the others by
// calling members.
func (c *codec) line(kind string, e *Entry, mid *string, members func()) {
	w := jsontext.NewWalk(e.line)
	for w.Next() {
		c.name, c.value, c.taken = w.Name, w.Value, false
		switch c.name {
		case "type":
			if s, _ := jsontext.Word(c.value); s != kind && !c.typed {
				c.retype = true
				return
			}
			continue
		case "src", "crc": // see Source and WithChecksum
			continue
		}
		if e.members(c, mid); !c.taken {
			members()
		}
		if c.bad != "" {
			return
		}
	}
	c.valid = w.Valid()
}

// decodeBody decodes the members of a line of the given type into e and returns
// the body. Members are matched against one body only, so messages stay on the stack until
// they are returned.
func decodeBody(c *codec, kind string, e *Entry) Body {
	switch kind {
	case TypeUser:
		b := MessageLine{Kind: kind, Role: RoleUser}
		c.line(kind, e, &b.Of, func() { b.user(c) })
		return b
	case TypeAssistant:
		b := MessageLine{Kind: kind, Role: RoleAssistant}
		c.line(kind, e, &b.Of, func() {
			b.answer(c)
			b.message(c)
		})
		return b
	case TypeToolUse:
		b := MessageLine{Kind: kind, Role: RoleAssistant}
		var call ToolCallBlock
		c.line(kind, e, &b.Of, func() { call.line(c) })
		b.Content = []Block{call}
		return b
	case TypeToolResult:
		b := MessageLine{Kind: kind, Role: RoleUser}
		var result ToolResultBlock
		c.line(kind, e, &b.Of, func() { result.line(c) })
		b.Content = []Block{result}
		return b
	}
	if f, ok := formOf(kind); ok {
		*c, *e = f.decode(*c, kind, *e)
		return e.Body
	}
	b := Unknown{Kind: kind}
	c.line(kind, e, nil, func() { b.members(c) })
	return b
}

// A form decodes and encodes the lines of one type. It takes copies, since the originals
// stay on the stack.
type form struct {
	decode func(c codec, kind string, e Entry) (codec, Entry)
	encode func(c codec, body Body) codec
}

// forms are the types of lines with one set of members each, by name. Lines hold lines, so
// a value with its declaration would depend on itself.
var (
	forms     map[string]form
	formsOnce sync.Once
)

func formOf(kind string) (f form, ok bool) {
	formsOnce.Do(addForms)
	f, ok = forms[kind]
	return f, ok
}

func addForms() {
	forms = map[string]form{}
	addForm((*Header).members)
	addForm((*Compaction).members)
	addForm((*Clip).members)
	addForm((*Hide).members)
	addForm((*Rewind).members)
	addForm((*System).members)
	addForm((*Tools).members)
	addForm((*Meta).members)
	addForm((*Current).members)
	addForm((*Calibration).members)
	addForm((*ToolStatus).members)
	addForm((*Used).members)
	addForm((*Commit).members)
	addForm((*Extracted).members)
	addForm((*Dispatch).members)
	addForm((*Decision).members)
	addForm((*Interrupt).members)
	addForm((*Queued).members)
	addForm((*Draft).members)
	addForm((*Pin).members)
	addForm((*Value).members)
	addForm((*Erasure).members)
	addForm((*Custom).members)
}

func addForm[B Body](members func(*B, *codec)) {
	type decoded struct {
		c codec
		e Entry
		b B
	}
	var zero B
	used := sync.Pool{New: func() any { return new(decoded) }} // zero ones
	forms[zero.kind()] = form{
		decode: func(c codec, kind string, e Entry) (codec, Entry) {
			d, _ := used.Get().(*decoded)
			d.c, d.e = c, e
			d.c.line(kind, &d.e, nil, func() { members(&d.b, &d.c) })
			c, e = d.c, d.e
			e.Body = d.b
			*d = decoded{}
			used.Put(d)
			return c, e
		},
		encode: func(c codec, body Body) codec {
			b, _ := body.(B)
			members(&b, &c)
			return c
		},
	}
}

// lineMember reports whether lines of the given type have a member of that
// name.
func lineMember(kind, name string) bool {
	switch name {
	case "type", "id", "ts", "batch", "part", "idem", "idemHash", "src", "crc", "app", "erased", "mid", "extra", "tool_use_id":
		return true
	case "name", "input":
		return kind == TypeToolUse
	case "content", "is_error":
		return kind == TypeToolResult
	}
	return false
}
