// Package rows holds what the writers of files of rows have in common.
package rows

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// A Session is a session that is to be written.
type Session struct {
	ID, Key, Agent, Title string
	Dir                   string // the folder that the session works in
	Created               time.Time
}

// A Message is an answer, a tool result or a text of the user, as its Kind says. An
// answer is whole: its content is the content of all of its lines.
type Message struct {
	transcript.MessageLine
	Entry string   // ID of its first entry
	More  []string // IDs of its other entries
	Time  time.Time
}

// Result returns the result in a message of that kind.
func (m Message) Result() transcript.ToolResultBlock {
	r, _ := m.Content[0].(transcript.ToolResultBlock)
	return r
}

// MadeUp reports whether a message is the result of a call without one.
func (m Message) MadeUp() bool { return m.Kind == transcript.TypeToolResult && m.Entry == "" }

// A Log collects the rows of a session, and the names of content that they cannot
// hold. The zero value is empty.
type Log struct {
	Rows []*jsontext.Object
	Lost map[string]int

	messages []Placed
	of       map[string]int // entry ID -> number of its message
	taken    map[string]bool
}

// A Placed is a message in a log: the ID and the index of its row.
type Placed struct {
	ID  string
	Row int
}

// Add adds a row.
func (l *Log) Add(o *jsontext.Object) { l.Rows = append(l.Rows, o) }

// Lose counts content that has no place.
func (l *Log) Lose(name string) {
	if l.Lost == nil {
		l.Lost = map[string]int{}
	}
	l.Lost[name]++
}

// Place makes the next row the row of a message.
func (l *Log) Place(m Message, id string) {
	if l.of == nil {
		l.of = map[string]int{}
	}
	for _, entry := range append([]string{m.Entry}, m.More...) {
		if _, twice := l.of[entry]; !twice && entry != "" {
			l.of[entry] = len(l.messages)
		}
	}
	l.messages = append(l.messages, Placed{id, len(l.Rows)})
}

// Kept returns the first message that a compaction keeps. If it keeps none, ok is
// false.
func (l *Log) Kept(c transcript.Compaction) (first Placed, ok bool) {
	n, ok := l.of[c.FirstKept]
	if !ok {
		if n, ok = l.of[c.CoversTo]; !ok {
			return first, false
		}
		n++
	}
	if n == len(l.messages) {
		return first, false
	}
	return l.messages[n], true
}

// Move moves a row before an earlier one.
func (l *Log) Move(from, to int) {
	row := l.Rows[from]
	l.Rows = slices.Insert(slices.Delete(l.Rows, from, from+1), to, row)
	for i, m := range l.messages {
		if to <= m.Row && m.Row < from {
			l.messages[i].Row++
		}
	}
}

// Unique returns an ID that no other row has: id itself, or one made of it.
func (l *Log) Unique(id string, other func(seed string) string) string {
	if l.taken == nil {
		l.taken = map[string]bool{}
	}
	seed := id
	for n := 2; id == "" || l.taken[id]; n++ {
		id = other(fmt.Sprintf("%s/%d/%d", seed, len(l.Rows), n))
	}
	l.taken[id] = true
	return id
}

// Content returns the blocks that a row can hold: those for which take returns JSON.
// Of all others the text remains, or they are lost.
func (l *Log) Content(blocks []transcript.Block, take func(transcript.Block) []byte) [][]byte {
	var content [][]byte
	for _, b := range blocks {
		if made := take(b); made != nil {
			content = append(content, made)
		} else if text, ok := Text(b); ok {
			content = append(content, take(transcript.TextBlock{Text: text}))
		} else {
			l.Lose(transcript.BlockType(b))
		}
	}
	return content
}

// Text returns the text of a block where only text can be.
func Text(b transcript.Block) (string, bool) {
	switch b := b.(type) {
	case transcript.TextBlock:
		return b.Text, true
	case transcript.ContextBlock:
		return strings.TrimSpace("[" + b.Kind + " " + b.URI + "]\n" + b.Abstract), true
	}
	return "", false
}

// OrNull returns the JSON of a string, null if it is empty.
func OrNull(s string) []byte {
	if s == "" {
		return Null
	}
	return jsontext.AppendString(nil, s)
}

// Array returns the JSON of an array.
func Array(elements [][]byte) []byte {
	a := []byte{'['}
	for i, e := range elements {
		if i > 0 {
			a = append(a, ',')
		}
		a = append(a, e...)
	}
	return append(a, ']')
}

// Stamp is a time to the millisecond, as JavaScript writes it. An unknown time is the
// Unix epoch, since these programs do not load a row without one.
func Stamp(t time.Time) string {
	return known(t).UTC().Format("2006-01-02T15:04:05.000Z")
}

// Milliseconds are the same time as a number.
func Milliseconds(t time.Time) int64 { return known(t).UnixMilli() }

func known(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}

// Opt is a string that is left out if it is empty.
type Opt string

// Object returns the JSON of an object, whose members are in pairs of a name and a
// value: a string, JSON, an array of JSON, another object, a number or a bool. It takes
// the buffer of an object inside.
func Object(members ...any) *jsontext.Object {
	o := jsontext.AppendObject(nil)
	for i := 0; i+1 < len(members); i += 2 {
		name, _ := members[i].(string)
		switch v := members[i+1].(type) {
		case string:
			o.String(name, v)
		case Opt:
			o.OptString(name, string(v))
		case []byte:
			o.Value(name, v)
		case [][]byte:
			o.Value(name, Array(v))
		case *jsontext.Object:
			o.Value(name, v.End())
		case int:
			o.Int(name, int64(v))
		case int64:
			o.Int(name, v)
		case bool:
			o.Bool(name, v)
		}
	}
	return &o
}

// Own is a member of rows that the programs ignore. In the first row it holds the ID and
// the agent of the written session.
const Own = "convolog"

// Null is JSON.
var Null = []byte("null")

// UUID returns id if it is a UUID, else one made of it.
func UUID(id string) string {
	if isUUID(id) {
		return strings.ToLower(id)
	}
	sum := sha256.Sum256([]byte(id))
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

func isUUID(id string) bool {
	if len(id) != 36 {
		return false
	}
	for i, c := range id {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !strings.ContainsRune("0123456789abcdefABCDEF", c) {
			return false
		}
	}
	return true
}

// Folder returns the mapped name, cut if it is too long for a folder.
func Folder(name string, mapped func(rune) rune) string {
	const most = 200 // of the 255 of a disk
	name = strings.Map(mapped, name)
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name
}

// Input returns the input of a call, an object if it is missing.
func Input(c transcript.ToolCallBlock) []byte {
	if len(c.Input) == 0 {
		return []byte("{}")
	}
	return c.Input
}
