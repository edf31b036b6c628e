package transcript

import (
	"errors"
	"fmt"
	"time"
)

// Item is what can be appended to a session: a [Message], a [Response] or a
// pointer to one, or a [Body] such as [Compaction] or [Custom].
type Item any

// NewBatch returns the entries that one append of items writes, with their
// lines made. now is their time, newID gives a new entry ID at each call.
//
// A message becomes lines as FORMAT.md says: of a user message first its tool
// results, then the rest; of an assistant message first a line of type
// assistant, then its calls and what follows them. An error means that an item
// cannot be written and says why.
func NewBatch(now time.Time, newID func() string, items ...Item) ([]Entry, error) {
	var entries []Entry
	add := func(b Body) string {
		e := Entry{ID: newID(), Time: now, Body: b}
		entries = append(entries, e)
		return e.ID
	}
	for i, item := range items {
		if err := addItem(add, item); err != nil {
			return nil, fmt.Errorf("transcript: item %d of %d: %w", i+1, len(items), err)
		}
	}
	if err := number(entries); err != nil {
		return nil, err
	}
	return entries, nil
}

// number marks the lines of a batch and makes them.
func number(entries []Entry) error {
	for i := range entries {
		e := &entries[i]
		if len(entries) > 1 {
			if i == 0 {
				e.Batch = len(entries)
			} else {
				e.Part = i + 1
			}
		}
		e.line = e.appendLine(nil)
		if err := checkLine(e.line, DefaultMaxLine); err != nil {
			return err
		}
	}
	return nil
}

// WithIdem returns the entries of a batch with an idempotency key and the hash
// of the batch on the first of them.
func WithIdem(entries []Entry, key, hash string) []Entry {
	if len(entries) > 0 {
		e := &entries[0]
		e.Idem, e.IdemHash = key, hash
		e.line = e.appendLine(nil)
	}
	return entries
}

func addItem(add func(Body) string, item Item) error {
	switch it := item.(type) {
	case Message:
		return addMessage(add, Response{Message: it})
	case *Message:
		if it == nil {
			return errors.New("nil *Message")
		}
		return addMessage(add, Response{Message: *it})
	case Response:
		return addResponse(add, it)
	case *Response:
		if it == nil {
			return errors.New("nil *Response")
		}
		return addResponse(add, *it)
	case Header, Current:
		return fmt.Errorf("a %s entry is written by the store alone", it.(Body).Type())
	case Fragment:
		return errors.New("append a Message or a Response, not a Fragment")
	case Unknown:
		return errors.New("append a Custom entry, not an Unknown one")
	case Body:
		add(it)
		return nil
	case nil:
		return errors.New("nil item")
	}
	return fmt.Errorf("a %T cannot be appended: use a Message, a Response or an entry body", item)
}

func addResponse(add func(Body) string, r Response) error {
	if r.Message.Role == "" {
		r.Message.Role = RoleAssistant
	}
	if r.Message.Role != RoleAssistant {
		return fmt.Errorf("a response has role %q, want %q", r.Message.Role, RoleAssistant)
	}
	return addMessage(add, r)
}

func addMessage(add func(Body) string, r Response) error {
	m := r.Message
	for i, b := range m.Content {
		if b == nil {
			return fmt.Errorf("block %d is nil", i)
		}
	}
	switch m.Role {
	case RoleUser:
		return addUser(add, m)
	case RoleAssistant:
		return addAssistant(add, r)
	}
	return fmt.Errorf("role %q: want %q or %q", m.Role, RoleUser, RoleAssistant)
}

func addUser(add func(Body) string, m Message) error {
	if len(m.Content) == 0 {
		return errors.New("a user message without content")
	}
	var rest []Block
	for _, b := range m.Content {
		switch b := b.(type) {
		case ToolResultBlock:
			add(Fragment{Kind: TypeToolResult, Role: RoleUser, Content: []Block{b}})
		case ToolCallBlock:
			return errors.New("a tool call in a user message")
		default:
			rest = append(rest, b)
		}
	}
	if len(rest) > 0 {
		add(Fragment{Kind: TypeUser, Role: RoleUser, Content: rest, plain: m.plain})
	}
	return nil
}

func addAssistant(add func(Body) string, r Response) error {
	f := Fragment{
		Kind: TypeAssistant, Role: RoleAssistant, plain: r.Message.plain,
		API: r.API, Model: r.Model, StopReason: r.StopReason, Usage: r.Usage, RequestID: r.RequestID,
	}
	mid, opened := "", false
	flush := func() {
		id := add(f)
		if !opened {
			mid, opened = id, true
		}
		f = Fragment{Kind: TypeAssistant, Role: RoleAssistant, Of: mid}
	}
	for _, b := range r.Message.Content {
		switch b := b.(type) {
		case ToolResultBlock:
			return errors.New("a tool result in an assistant message")
		case ToolCallBlock:
			if !opened || len(f.Content) > 0 {
				flush()
			}
			add(Fragment{Kind: TypeToolUse, Role: RoleAssistant, Content: []Block{b}, Of: mid})
		default:
			f.Content = append(f.Content, b)
		}
	}
	if !opened || len(f.Content) > 0 {
		flush()
	}
	return nil
}

// Batch is the entries of one append call.
type Batch struct {
	Entries []Entry
	// Complete is false when lines are missing: the append was cut and never
	// acknowledged.
	Complete bool
}

// Batcher puts entries together into the batches they were written in. The
// zero value is ready to use; it is for one goroutine.
type Batcher struct {
	open []Entry // the first lines of a batch of want lines
	want int
}

// Add takes the next entry of the transcript and returns the batches that it
// ends: none while a batch is unfinished, and two when the entry shows that
// the batch before it will not be continued.
func (b *Batcher) Add(e Entry) []Batch {
	if b.want > 0 && e.Part == len(b.open)+1 && e.Batch == 0 {
		if b.open = append(b.open, e); len(b.open) < b.want {
			return nil
		}
		done := Batch{Entries: b.open, Complete: true}
		b.open, b.want = nil, 0
		return []Batch{done}
	}
	done := b.Break()
	if e.Batch > 1 {
		b.open, b.want = []Entry{e}, e.Batch
		return done
	}
	return append(done, Batch{Entries: []Entry{e}, Complete: e.Part <= 1})
}

// Break says that damage follows, or that nobody will write the rest of the
// last batch: it returns that batch as incomplete, if there is one.
func (b *Batcher) Break() []Batch {
	if b.want == 0 {
		return nil
	}
	done := Batch{Entries: b.open}
	b.open, b.want = nil, 0
	return []Batch{done}
}

// Open reports whether lines of an unfinished batch are held back.
func (b *Batcher) Open() bool { return b.want > 0 }
