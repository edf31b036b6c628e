package dialect

import (
	"errors"
	"io"
	"iter"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/chatgpt"
	"github.com/convolog/convolog/transcript/dialect/internal/document"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A headed program reads documents, whose head is a record of another kind.
type headed interface {
	program
	Head(r fields.Record) fields.Head
}

// A documentReader reads a document with files beside it.
type documentReader struct {
	io.ReaderAt
	chatgpt.Assets
}

// An arranger is a program that orders the messages of a document.
type arranger interface {
	// Order returns the offsets of messages in the order of the conversation.
	Order() []int64
}

// messagesOf names the member of a document that holds the messages.
var messagesOf = map[Dialect]string{ChatGPT: "mapping", ClaudeAI: "chat_messages", GeminiCLI: "messages", OpenCode: "messages"}

// member returns the name of the member that holds the messages of a document in
// dialect d. It is empty for a file of records.
func (d Dialect) member(r io.ReaderAt, size int64) (string, error) {
	name := messagesOf[d]
	if d != GeminiCLI {
		return name, nil
	}
	outline, err := document.Outline(r, min(size, detectBytes))
	if !jsontext.IsArray(outline[name]) {
		name = ""
	}
	return name, err
}

// scanDocument yields the records of all conversations of a document.
func (d Dialect) scanDocument(r io.ReaderAt, size int64, member string, o transcript.ScanOptions) iter.Seq2[transcript.Record, error] {
	limit := o.MaxLine
	if limit == 0 {
		limit = transcript.DefaultMaxLine
	}
	return func(yield func(transcript.Record, error) bool) {
		for c, err := range document.Split(r, size, member, limit) {
			if err != nil {
				yield(transcript.Record{}, err)
				return
			}
			f, ok := programs[d]().(planner)
			if !ok {
				continue // the readers of documents are planners
			}
			p := pages{Conversation: c, reader: r, limit: limit, planner: f}
			for rec, err := range p.records() {
				if !yield(rec, err) {
					return
				}
			}
		}
	}
}

// pages are the records of one conversation of a document.
type pages struct {
	document.Conversation
	planner

	reader  io.ReaderAt
	limit   int // bytes of a message
	settled bool
}

// Settle implements planner.
func (p *pages) Settle() {
	p.planner.Settle()
	p.settled = true
}

func (p *pages) records() iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		reader, ok := p.planner.(*chatgpt.Reader)
		if doc, beside := p.reader.(documentReader); ok && beside {
			reader.Assets = doc.Assets
		}
		if program, ok := p.planner.(headed); ok && p.Head != nil {
			for _, e := range headEntries(program.Head(fields.Of(p.Head)), p.Head) {
				if !yield(transcript.Record{Offset: p.Start, End: p.Start, Entry: e}, nil) {
					return
				}
			}
		}
		for rec, err := range scanSource(p.scan, p) {
			// A later export may hold the same message with other details.
			if id := rec.Entry.ID; rec.Entry.Part == 0 && !strings.HasPrefix(id, "@") {
				rec.Entry.Idem = id
			}
			if !yield(rec, err) {
				return
			}
		}
		for i := range p.Damage {
			d := &p.Damage[i]
			if !yield(transcript.Record{Offset: d.Offset, End: d.Offset + d.Size, Damage: d}, nil) {
				return
			}
		}
	}
}

// headEntries returns the header of a conversation, and its title as a record of its
// own, since a title changes.
func headEntries(h fields.Head, line []byte) []transcript.Entry {
	header := transcript.Entry{ID: h.ID, Time: h.Created, Body: transcript.Header{Created: h.Created}}.WithLine(line)
	if h.ID == "" {
		header.ID = fields.AtOffset(0)
	}
	if h.Title == "" {
		return []transcript.Entry{header}
	}
	o := jsontext.AppendObject(nil)
	o.String("title", h.Title)
	title := transcript.Entry{ID: header.ID + "#title", Time: h.Created, Body: transcript.Meta{Title: &h.Title}}
	return []transcript.Entry{header, title.WithLine(o.End())}
}

// scan yields the messages, once the program has settled in its order.
func (p *pages) scan() iter.Seq2[found, error] {
	messages := p.Messages
	if a, ok := p.planner.(arranger); ok && p.settled {
		at := map[int64]document.Message{}
		for _, m := range p.Messages {
			at[m.Start] = m
		}
		messages = messages[:0:0]
		for _, offset := range a.Order() {
			messages = append(messages, at[offset])
			delete(at, offset)
		}
		for _, m := range p.Messages { // damage
			if _, left := at[m.Start]; left {
				messages = append(messages, m)
			}
		}
	}
	return func(yield func(found, error) bool) {
		for _, m := range messages {
			at, err := p.message(m)
			if !yield(at, err) || err != nil {
				return
			}
		}
	}
}

// message reads one message. The error is one of the reader.
func (p *pages) message(m document.Message) (found, error) {
	at := found{Record: transcript.Record{Offset: m.Start, End: m.End}}
	damaged := func(err error) (found, error) {
		d := transcript.Damage{Kind: transcript.DamageMalformed, Offset: m.Start, Size: m.End - m.Start, Reason: err.Error()}
		if e, ok := errors.AsType[*transcript.DamageError](err); ok {
			d.Kind, d.Reason = e.Kind, e.Reason
		}
		at.Damage = &d
		return at, nil
	}
	if m.End-m.Start > int64(p.limit) {
		return damaged(&transcript.DamageError{Kind: transcript.DamageTooLong})
	}
	raw := make([]byte, m.End-m.Start)
	if _, err := p.reader.ReadAt(raw, m.Start); err != nil && !errors.Is(err, io.EOF) {
		return at, err
	}
	if _, err := fields.Parse(raw); err != nil {
		return damaged(err)
	}
	raw = jsontext.AppendValue(nil, raw) // on one line
	members := fields.Of(raw)
	if members["id"] == nil && m.Key != "" {
		members["id"] = jsontext.AppendString(nil, m.Key)
	}
	if members["children"] != nil { // the parents name the same links, and these change
		raw = jsontext.MapMembers(raw, func(name string, v []byte) []byte {
			if name == "children" {
				return nil
			}
			return v
		})
	}
	made, err := p.Decode(members, m.Start-p.Start)
	if err != nil {
		return damaged(err)
	}
	made[0] = made[0].WithLine(raw)
	at.members, at.made, at.Entry = members, made, made[0]
	return at, nil
}
