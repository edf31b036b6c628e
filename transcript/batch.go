package transcript

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
)

// Item is what can be appended to a session: a [Message], a [Response], a
// pointer to one, or one of the bodies [Compaction], [Clip], [Rewind], [Meta],
// [Calibration], [ToolStatus], [Used], [Commit] and [Custom].
type Item interface{ isItem() }

func (Message) isItem()     {}
func (Response) isItem()    {}
func (Compaction) isItem()  {}
func (Clip) isItem()        {}
func (Rewind) isItem()      {}
func (Meta) isItem()        {}
func (Calibration) isItem() {}
func (ToolStatus) isItem()  {}
func (Used) isItem()        {}
func (Commit) isItem()      {}
func (Custom) isItem()      {}

// NewBatch returns the entries that one append of items writes, with their
// lines made. now is their time, newID gives a new entry ID at each call.
//
// A message becomes lines as FORMAT.md says: of a user message first its tool
// results, then the rest; of an assistant message first a line of type
// assistant, then its calls and what follows them. An error means that an item
// cannot be written and says which one and why.
//
// The entries are what [ParseEntry] makes of their lines: text that was not
// valid UTF-8 and inputs that were not valid JSON are made so. They share
// nothing with items that could be changed.
func NewBatch(now time.Time, newID func() string, items ...Item) ([]Entry, error) {
	entries := make([]Entry, 0, len(items))
	now = now.UTC().Truncate(time.Microsecond)
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
		e.line = e.appendLine(make([]byte, 0, lineSize(e.Body)))
		if err := checkLine(e.line, DefaultMaxLine); err != nil {
			return err
		}
		if err := e.asRead(); err != nil {
			return err
		}
	}
	return nil
}

// lineSize guesses how many bytes the line of an entry needs.
func lineSize(b Body) int {
	n := 256
	f, _ := b.(Fragment)
	for _, c := range f.Content {
		switch c := c.(type) {
		case TextBlock:
			n += len(c.Text) + len(c.Text)/16
		case ThinkingBlock:
			n += len(c.Thinking) + len(c.Thinking)/16
		case ToolCallBlock:
			n += len(c.Input)
		case ToolResultBlock:
			n += lineSize(Fragment{Content: c.Content})
		}
	}
	return n
}

// WithIdem returns the entries of a batch with an idempotency key and the hash
// of the batch on the first of them. They are what [ParseEntry] makes of their
// lines, as those of [NewBatch] are. An error means that a reader would not find
// the key: it is not valid UTF-8, or makes the line too long. Then the entries
// cannot be used.
func WithIdem(entries []Entry, key, hash string) ([]Entry, error) {
	if !valid(key, hash) {
		return nil, fmt.Errorf("transcript: the idempotency key %q is not valid UTF-8", key)
	}
	if len(entries) == 0 {
		return entries, nil
	}
	e := &entries[0]
	e.Idem, e.IdemHash = key, hash
	e.line = e.appendLine(nil)
	if err := checkLine(e.line, DefaultMaxLine); err != nil {
		return nil, err
	}
	if err := e.asRead(); err != nil {
		return nil, err
	}
	return entries, nil
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
	case Calibration:
		if math.IsNaN(it.Factor) || math.IsInf(it.Factor, 0) {
			return fmt.Errorf("a calibration factor of %v", it.Factor)
		}
		add(it)
		return nil
	case Compaction, Clip, Rewind, Meta, ToolStatus, Used, Commit, Custom:
		add(it.(Body))
		return nil
	case nil:
		return errors.New("nil item")
	}
	return fmt.Errorf("a %T cannot be appended: give the value, not a pointer to it", item)
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
	content, err := checkBlocks(r.Message.Content, false)
	if err != nil {
		return err
	}
	r.Message.Content = content
	switch r.Message.Role {
	case RoleUser:
		return addUser(add, r.Message)
	case RoleAssistant:
		return addAssistant(add, r)
	}
	return fmt.Errorf("role %q: want %q or %q", r.Message.Role, RoleUser, RoleAssistant)
}

// checkBlocks returns blocks as a reader will see them: a RawBlock of a known
// type, which may belong on a line of its own, as that type.
func checkBlocks(blocks []Block, inResult bool) ([]Block, error) {
	for i, b := range blocks {
		switch b := b.(type) {
		case nil:
			return nil, fmt.Errorf("block %d is nil", i)
		case TextBlock, ImageBlock, DocumentBlock, ToolCallBlock, ThinkingBlock, RedactedThinkingBlock, ContextBlock:
		case ToolResultBlock:
			if _, err := checkBlocks(b.Content, true); err != nil {
				return nil, fmt.Errorf("block %d: %w", i, err)
			}
		case RawBlock:
			if !jsontext.Valid(b.JSON) {
				return nil, fmt.Errorf("block %d: the JSON of a RawBlock is not valid", i)
			}
			known, err := decodeBlock(b.JSON, inResult)
			if err != nil {
				return nil, fmt.Errorf("block %d: the JSON of a RawBlock is not an object with a type", i)
			}
			if _, raw := known.(RawBlock); !raw {
				blocks = slices.Clone(blocks)
				blocks[i] = known
			}
		default:
			return nil, fmt.Errorf("block %d is a %T: blocks are values, not pointers", i, b)
		}
	}
	return blocks, nil
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
	open  []Entry // the first lines of a batch of want lines
	want  int
	ended [2]Batch // what the last call returned
}

// Add takes the next entry of the transcript and returns the batches that it
// ends: none while a batch is unfinished, and two when the entry shows that
// the batch before it will not be continued. The slice is valid until the next
// call of Add or Break; the entries of its batches may be kept.
func (b *Batcher) Add(e Entry) []Batch {
	if b.want > 0 && e.Part == len(b.open)+1 && e.Batch == 0 {
		if b.open = append(b.open, e); len(b.open) < b.want {
			return nil
		}
		done := Batch{Entries: b.open, Complete: true}
		b.open, b.want = nil, 0
		return append(b.ended[:0], done)
	}
	ended := b.Break()
	if e.Batch > 1 {
		b.open, b.want = []Entry{e}, e.Batch
		return ended
	}
	return append(ended, Batch{Entries: []Entry{e}, Complete: e.Part <= 1})
}

// Break says that damage follows, or that nobody will write the rest of the
// last batch: it returns that batch as incomplete, if there is one. The slice
// is valid until the next call of Add or Break.
func (b *Batcher) Break() []Batch {
	ended := b.ended[:0]
	if b.want > 0 {
		ended = append(ended, Batch{Entries: b.open})
		b.open, b.want = nil, 0
	}
	return ended
}

// Open reports whether lines of an unfinished batch are held back.
func (b *Batcher) Open() bool { return b.want > 0 }
