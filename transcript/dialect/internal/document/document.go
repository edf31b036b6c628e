// Package document splits JSON documents that hold conversations into records, without
// parsing more than one message at a time.
//
// A document is an object, or an array of objects. Each object is a conversation. One of
// its members holds the messages, as an array or as an object of messages by ID.
//
// The index of a conversation needs its other members and some 50 bytes a message. A
// value that is not JSON is damage, and reading continues after it if its brackets are
// balanced. Otherwise the rest of the document is damage.
package document

import (
	"bufio"
	"errors"
	"io"
	"iter"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// A Message locates a message.
type Message struct {
	Key        string // its name in an object of messages
	Start, End int64
}

// A Conversation is the index of one object.
type Conversation struct {
	// Start and End are the bytes from the object to the next one. The first begins with
	// the document, and the last ends with it.
	Start, End int64
	Head       []byte // a JSON object of all members but the messages; nil if there is no conversation
	Messages   []Message
	Damage     []transcript.Damage
}

// outlineBytes is the longest string that an outline holds, and the longest name of a
// member.
const (
	outlineBytes = 256
	nameBytes    = 1 << 20
)

// Outline returns the members of the first object in size bytes. It holds scalar values up
// to 256 bytes; objects, arrays and longer strings are empty in it. The error is one of r.
func Outline(r io.ReaderAt, size int64) (map[string][]byte, error) {
	s := newScanner(r, size)
	outline := map[string][]byte{}
	if c, err := s.top(); err != nil || c != '{' {
		return outline, s.failed()
	}
	empty := map[byte]string{'{': "{}", '[': "[]", '"': `""`}
	for name, err := range s.members() {
		if err != nil {
			break
		}
		first, err := s.space()
		if err != nil {
			break
		}
		if value, ok := empty[first]; ok { // even if its end is missing
			outline[name] = []byte(value)
		}
		raw, err := s.value(outlineBytes)
		if err == nil && first != '{' && first != '[' {
			outline[name] = raw
		}
		if err != nil && !errors.Is(err, errTooLong) {
			break
		}
	}
	return outline, s.failed()
}

// Split yields the conversations of a document. The member with that name holds the
// messages. Other members longer than limit bytes are damage. The sequence ends after
// an error, which is one of r.
func Split(r io.ReaderAt, size int64, member string, limit int) iter.Seq2[Conversation, error] {
	return func(yield func(Conversation, error) bool) {
		s := newScanner(r, size)
		var at Conversation // until the next one begins
		give := func(end int64) bool {
			at.End = end
			return at.Head == nil && at.Damage == nil || yield(at, nil)
		}
		for {
			c, err := s.top()
			if err != nil {
				break
			}
			start := s.pos
			if c != '{' {
				if _, err := s.value(0); errors.Is(err, errSyntax) {
					s.skip() // a stray bracket
				}
				at.add(transcript.DamageNotObject, start, s.pos, "not a conversation")
				continue
			}
			s.mark = start
			next, err := s.conversation(member, limit)
			switch {
			case next.Messages == nil && err == nil:
				at.add(transcript.DamageMalformed, start, s.pos, "a conversation without messages")
				continue
			case next.Messages == nil: // torn before them
				s.mark = start
			default:
				if at.Head != nil {
					if !give(start) {
						return
					}
					at = Conversation{Start: start}
				}
				at.Head, at.Messages = next.Head, next.Messages
				at.Damage = append(at.Damage, next.Damage...)
			}
			if err != nil {
				at.rest(err, start, s.mark, size)
				break
			}
		}
		if err := s.failed(); err != nil {
			yield(Conversation{}, err)
			return
		}
		give(size)
	}
}

func (c *Conversation) add(kind transcript.DamageKind, start, end int64, reason string) {
	if end > start {
		c.Damage = append(c.Damage, transcript.Damage{Kind: kind, Offset: start, Size: end - start, Reason: reason})
	}
}

// rest makes the bytes from mark to size damage. At the end of the document the
// conversation, which begins at start, still lacks its end: its first byte is the damage.
func (c *Conversation) rest(err error, start, mark, size int64) {
	kind, reason := transcript.DamageNotJSON, "the rest of a broken document"
	if errors.Is(err, io.EOF) {
		kind, reason = transcript.DamageTorn, "a conversation without an end"
	}
	if mark == size {
		mark, size = start, start+1
	}
	c.add(kind, mark, size, reason)
}

// conversation reads an object. With an error the result holds the part before the
// fault.
func (s *scanner) conversation(member string, limit int) (c Conversation, err error) {
	head := jsontext.AppendObject(nil)
	defer func() { c.Head = head.End() }()
	for name, err := range s.members() {
		if err != nil {
			return c, err
		}
		first, err := s.space()
		if err != nil {
			return c, err
		}
		start := s.pos
		if name == member && (first == '[' || first == '{') {
			if err := s.messages(&c); err != nil {
				return c, err
			}
			continue
		}
		raw, err := s.value(limit)
		switch {
		case errors.Is(err, errTooLong):
			c.add(transcript.DamageTooLong, start, s.pos, name)
		case err != nil:
			return c, err
		case !jsontext.Valid(raw):
			c.add(transcript.DamageNotJSON, start, s.pos, name)
		default:
			head.Value(name, raw)
		}
	}
	return c, nil
}

// messages locates the elements of an array, or the members of an object.
func (s *scanner) messages(c *Conversation) error {
	c.Messages = append([]Message{}, c.Messages...)
	add := func(key string) error {
		if _, err := s.space(); err != nil {
			return err
		}
		start := s.pos
		_, err := s.value(0)
		if err == nil {
			c.Messages = append(c.Messages, Message{Key: key, Start: start, End: s.pos})
		}
		return err
	}
	if first, _ := s.space(); first == '{' {
		for key, err := range s.members() {
			if err == nil {
				err = add(key)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	s.skip()
	for {
		switch first, err := s.space(); {
		case err != nil:
			return err
		case first == ',':
			s.skip()
		case first == ']':
			s.skip()
			return nil
		default:
			if err := add(""); err != nil {
				return err
			}
		}
	}
}

var (
	errSyntax  = errors.New("not JSON")
	errTooLong = errors.New("too long")
)

// scanner reads JSON values from front to back.
type scanner struct {
	in   *bufio.Reader
	pos  int64 // of the next byte
	mark int64 // the end of the last member or element
	err  error // of the reader, io.EOF at the end
}

func newScanner(r io.ReaderAt, size int64) *scanner {
	return &scanner{in: bufio.NewReaderSize(io.NewSectionReader(r, 0, size), int(min(size, 64<<10)))}
}

// failed returns the error of the reader.
func (s *scanner) failed() error {
	if errors.Is(s.err, io.EOF) {
		return nil
	}
	return s.err
}

func (s *scanner) next() (byte, error) {
	if s.err != nil {
		return 0, s.err
	}
	c, err := s.in.ReadByte()
	if s.err = err; err == nil {
		s.pos++
	}
	return c, err
}

// skip skips a byte that space has returned.
func (s *scanner) skip() {
	_, _ = s.next() // it is there
}

func (s *scanner) back() {
	_ = s.in.UnreadByte() // a byte has just been read
	s.pos--
}

// space skips white space and returns the byte after it, which is read next.
func (s *scanner) space() (byte, error) {
	for {
		switch c, err := s.next(); {
		case err != nil:
			return 0, err
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			s.back()
			return c, nil
		}
	}
}

// top returns the first byte of the next value outside of all objects, which is read
// next. A byte order mark is white space there.
func (s *scanner) top() (byte, error) {
	for {
		switch c, err := s.space(); c {
		case '[', ']', ',', '\xef', '\xbb', '\xbf':
			s.skip()
		default:
			return c, err
		}
	}
}

// members yields the names of an object's members; the loop reads their values. It
// ends after an error.
func (s *scanner) members() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		s.skip()
		for {
			c, err := s.space()
			switch {
			case err != nil:
			case c == ',':
				s.skip()
				continue
			case c == '}':
				s.skip()
				return
			case c != '"':
				err = errSyntax
			}
			var name string
			if err == nil {
				name, err = s.name()
			}
			if !yield(name, err) || err != nil {
				return
			}
		}
	}
}

// name reads a string and the colon after it.
func (s *scanner) name() (string, error) {
	mark := s.mark
	raw, err := s.value(nameBytes)
	s.mark = mark
	if err != nil {
		return "", err
	}
	name, ok := jsontext.String(raw)
	if c, err := s.space(); err != nil {
		return "", err
	} else if !ok || c != ':' {
		return "", errSyntax
	}
	s.skip()
	return name, nil
}

// value reads a value up to its end and checks its brackets alone. It returns the value
// if it is not longer than limit bytes; a limit of 0 skips it.
func (s *scanner) value(limit int) (raw []byte, err error) {
	var depth int
	var quoted, escaped, long bool
	for {
		c, err := s.next()
		if err != nil {
			return raw, err
		}
		ended := false
		switch {
		case quoted:
			switch {
			case escaped:
				escaped = false
			case c == '\\':
				escaped = true
			case c == '"':
				quoted = false
				ended = depth == 0
			}
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth < 0 {
				s.back()
				return raw, errSyntax
			}
			ended = depth == 0
		case depth == 0 && (c == ',' || c == ':'):
			s.back()
			return raw, errSyntax
		case depth == 0:
			return s.scalar([]byte{c})
		}
		if len(raw) < limit {
			raw = append(raw, c)
		} else {
			long = limit > 0
		}
		if ended {
			s.mark = s.pos
			if long {
				err = errTooLong
			}
			return raw, err
		}
	}
}

// scalar reads the rest of a number, of true, false or null.
func (s *scanner) scalar(raw []byte) ([]byte, error) {
	for {
		c, err := s.next()
		switch {
		case errors.Is(err, io.EOF): // the number may have more digits
			return raw, err
		case err != nil:
			return raw, err
		}
		switch c {
		case ' ', '\t', '\r', '\n', ',', ']', '}', ':', '"', '{', '[':
			s.back()
			s.mark = s.pos
			return raw, nil
		}
		if len(raw) < 64 {
			raw = append(raw, c)
		}
	}
}
