// Package fields reads the members of other programs' records, and makes the entries
// that the readers have in common.
package fields

import (
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// A Record holds the members of a JSON object that are not null.
type Record map[string][]byte

// Of returns the members of an object. Other JSON has none.
func Of(v []byte) Record {
	r := Record{}
	if jsontext.IsObject(v) {
		maps.Insert(r, jsontext.Members(v))
		maps.DeleteFunc(r, func(_ string, v []byte) bool { return jsontext.IsNull(v) })
	}
	return r
}

// Parse returns the members of a line. The error is a
// *transcript.DamageError.
func Parse(line []byte) (Record, error) {
	if !jsontext.Valid(line) || !jsontext.IsObject(line) {
		// The native decoder decides about damage.
		if _, err := transcript.ParseEntry(line); err != nil {
			return nil, err
		}
	}
	return Of(line), nil
}

// Text returns a string member. One that is missing is empty; one that is not a
// string is its JSON.
func (r Record) Text(name string) string { return Text(r[name]) }

// Text returns a string, or the JSON of another value.
func Text(v []byte) string {
	if s, ok := jsontext.String(v); ok {
		return s
	}
	return string(v)
}

// Str returns a string member, empty for any other.
func (r Record) Str(name string) string {
	s, _ := jsontext.String(r[name])
	return s
}

// Number returns a member that is a whole number, else 0.
func (r Record) Number(name string) int {
	n, _ := jsontext.Int(r[name])
	return int(n)
}

// Flag reports whether a member is true.
func (r Record) Flag(name string) bool {
	b, _ := jsontext.Bool(r[name])
	return b
}

// Object returns the members of a member.
func (r Record) Object(name string) Record { return Of(r[name]) }

// Elements returns the elements of an array.
func (r Record) Elements(name string) [][]byte {
	if !jsontext.IsArray(r[name]) {
		return nil
	}
	return slices.Collect(jsontext.Elements(r[name]))
}

// Objects yields the members of the elements of an array.
func (r Record) Objects(name string) iter.Seq[Record] {
	return func(yield func(Record) bool) {
		for _, v := range r.Elements(name) {
			if !yield(Of(v)) {
				return
			}
		}
	}
}

// Usage reads the tokens of an answer by the names that they have in r: the prompt
// outside of caches, the output, and the parts read from a cache and written to one.
func (r Record) Usage(input, output, read, written string) transcript.Usage {
	return transcript.Usage{Input: r.Number(input), Output: r.Number(output), CacheRead: r.Number(read), CacheWrite: r.Number(written)}
}

// Malformed is the error for an object with unusable members.
func Malformed(reason string) error {
	return &transcript.DamageError{Kind: transcript.DamageMalformed, Reason: reason}
}

// AtOffset is the ID of an entry whose record lacks one.
func AtOffset(offset int64) string { return "@" + strconv.FormatInt(offset, 10) }

// Aside is a record that no model is shown. The documentation of package dialect lists
// the names.
func Aside(name string) transcript.Body { return transcript.Custom{Name: name} }

// SetAside returns the entries of a record as one outside of the history. Descriptions
// of the session stay unchanged.
func SetAside(made []transcript.Entry, name string) []transcript.Entry {
	switch made[0].Body.(type) {
	case transcript.MessageLine, transcript.Compaction:
		e := made[0]
		e.Body = Aside(name)
		return []transcript.Entry{e}
	default:
		return made
	}
}

// Entries returns an entry for each body. The first has the ID, the others a number
// after it.
func Entries(id string, at time.Time, bodies ...transcript.Body) []transcript.Entry {
	made := make([]transcript.Entry, len(bodies))
	for i, b := range bodies {
		made[i] = transcript.Entry{ID: id, Time: at, Body: b}
		if i > 0 {
			made[i].ID = id + "#" + strconv.Itoa(i+1)
		}
	}
	return made
}

// User returns a message of the user.
func User(content ...transcript.Block) transcript.MessageLine {
	return transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}.WithContent(content...)
}

// Answer returns a message of a model.
func Answer(content ...transcript.Block) transcript.MessageLine {
	return transcript.MessageLine{Kind: transcript.TypeAssistant, Role: transcript.RoleAssistant}.WithContent(content...)
}

// Call returns the line of one call.
func Call(c transcript.ToolCallBlock) transcript.MessageLine {
	return transcript.MessageLine{Kind: transcript.TypeToolUse, Role: transcript.RoleAssistant, Content: []transcript.Block{c}}
}

// Result returns the line of a result.
func Result(callID string, isError bool, content ...transcript.Block) transcript.MessageLine {
	r := transcript.ToolResultBlock{CallID: callID, IsError: isError}.WithContent(content...)
	return transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser, Content: []transcript.Block{r}}
}

// Lines collects the lines of an answer.
type Lines struct {
	Blocks  []transcript.Block // of the line at hand
	Results []transcript.Body  // of the calls in it
	Bodies  []transcript.Body
}

// Flush ends the line at hand.
func (l *Lines) Flush() {
	if len(l.Blocks) > 0 {
		l.Bodies = append(l.Bodies, Answer(l.Blocks...))
	}
	l.Bodies = append(l.Bodies, l.Results...)
	l.Blocks, l.Results = nil, nil
}

// All ends the last line and returns the answer, which is empty without any.
func (l *Lines) All() []transcript.Body {
	if l.Flush(); len(l.Bodies) == 0 {
		return []transcript.Body{Answer()}
	}
	return l.Bodies
}

// Compacted returns the compaction of a record of pi or ZyHive.
func (r Record) Compacted() transcript.Compaction {
	return transcript.Compaction{
		Summary: r.Text("summary"), FirstKept: r.Text("firstKeptEntryId"),
		TokensBefore: r.Number("tokensBefore"), TokensAfter: r.Number("tokensAfter"),
	}
}

// Texts returns a block for each text, without the empty ones.
func Texts(texts ...string) []transcript.Block {
	var blocks []transcript.Block
	for _, t := range texts {
		if t != "" {
			blocks = append(blocks, transcript.TextBlock{Text: t})
		}
	}
	return blocks
}

// Input returns the input of a call: an object, or one that holds other JSON or text as
// the member name. Empty input is an empty object.
func Input(v []byte, name string) []byte {
	if s, ok := jsontext.String(v); ok {
		if text := []byte(s); jsontext.Valid(text) && jsontext.IsObject(text) {
			return text
		}
	}
	switch {
	case jsontext.IsObject(v):
		return slices.Clone(v)
	case Text(v) == "" || jsontext.IsNull(v):
		return []byte(`{}`)
	}
	o := jsontext.AppendObject(nil)
	o.Value(name, v)
	return o.End()
}

// Media returns the block of a file at a URL, which may hold its bytes: an image, a
// document, or for other media a note. Without a media type an image is assumed.
func Media(url, mediaType, title string) transcript.Block {
	source := transcript.Source{Type: "url", MediaType: mediaType, URL: url}
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		kind, data, ok := strings.Cut(rest, ";base64,")
		if !ok {
			return Note("file", title)
		}
		kind, _, _ = strings.Cut(kind, ";")
		source = transcript.Source{Type: "base64", MediaType: kind, Data: data}
		if mediaType != "" {
			source.MediaType = mediaType
		}
	} else if !strings.HasPrefix(url, "https:") && !strings.HasPrefix(url, "http:") {
		if title == "" {
			title = url
		}
		return Note("file", title)
	}
	switch {
	case source.MediaType == "" || strings.HasPrefix(source.MediaType, "image/"):
		return transcript.ImageBlock{Source: source}
	case source.MediaType == "application/pdf":
		return transcript.DocumentBlock{Source: source, Title: title}
	}
	return Note("file", title)
}

// Note is a text for content whose bytes are not in the record.
func Note(kind, name string) transcript.Block {
	if name == "" {
		return transcript.TextBlock{Text: "[" + kind + "]"}
	}
	return transcript.TextBlock{Text: "[" + kind + ": " + name + "]"}
}

// A Head describes a conversation in a document.
type Head struct {
	ID, Title string
	Created   time.Time
}

// File returns the members of the JSON object in a file.
func File(fsys fs.FS, name string) (Record, error) {
	data, err := fs.ReadFile(fsys, name)
	if err != nil {
		return nil, err
	}
	if data = jsontext.Trim(data); !jsontext.Valid(data) || !jsontext.IsObject(data) {
		return nil, Malformed("not a JSON object")
	}
	return Of(data), nil
}
