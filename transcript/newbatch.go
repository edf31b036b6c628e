package transcript

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

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
	return newBatch(now, newID, false, items)
}

// NewSealedBatch is NewBatch with a checksum at the end of each line, see
// [Entry.Sealed].
func NewSealedBatch(now time.Time, newID func() string, items ...Item) ([]Entry, error) {
	return newBatch(now, newID, true, items)
}

func newBatch(now time.Time, newID func() string, sealed bool, items []Item) ([]Entry, error) {
	w := maker{now: now.UTC().Truncate(time.Microsecond), newID: newID, entries: make([]Entry, 0, len(items))}
	for i, item := range items {
		if err := w.addItem(item); err != nil {
			return nil, fmt.Errorf("transcript: item %d of %d: %w", i+1, len(items), err)
		}
	}
	if err := number(w.entries, sealed); err != nil {
		return nil, err
	}
	return w.entries, nil
}

// A maker makes the entries of one batch.
type maker struct {
	now     time.Time
	newID   func() string
	entries []Entry
}

func (w *maker) add(b Body) (id string) {
	e := Entry{ID: w.newID(), Time: w.now, Body: b}
	w.entries = append(w.entries, e)
	return e.ID
}

// number marks the lines of a batch and makes them.
func number(entries []Entry, sealed bool) error {
	for i := range entries {
		e := &entries[i]
		if len(entries) > 1 {
			if i == 0 {
				e.Batch = len(entries)
			} else {
				e.Part = i + 1
			}
		}
		if err := e.makeLine(sealed); err != nil {
			return err
		}
	}
	return nil
}

// makeLine makes the line of an entry, and the entry what a reader makes of it.
func (e *Entry) makeLine(sealed bool) error {
	e.line = e.appendLine(make([]byte, 0, lineSize(e.Body)))
	if sealed {
		e.line = seal(e.line)
	}
	if err := checkLine(e.line, DefaultMaxLine); err != nil {
		return err
	}
	return e.asRead()
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
// of the batch on the first of them, whose line is made anew and is sealed if it
// was. They are what [ParseEntry] makes of their
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
	if err := e.makeLine(isSealed(e.line)); err != nil {
		return nil, err
	}
	return entries, nil
}

func (w *maker) addItem(item Item) error {
	switch it := item.(type) {
	case Message:
		return w.addMessage(Response{Message: it})
	case *Message:
		if it == nil {
			return errors.New("nil *Message")
		}
		return w.addMessage(Response{Message: *it})
	case Response:
		return w.addResponse(it)
	case *Response:
		if it == nil {
			return errors.New("nil *Response")
		}
		return w.addResponse(*it)
	case Calibration:
		if math.IsNaN(it.Factor) || math.IsInf(it.Factor, 0) {
			return fmt.Errorf("a calibration factor of %v", it.Factor)
		}
		w.add(it)
		return nil
	case Compaction, Clip, Rewind, Meta, ToolStatus, Used, Commit, Custom:
		w.add(it.(Body))
		return nil
	case nil:
		return errors.New("nil item")
	}
	return fmt.Errorf("a %T cannot be appended: give the value, not a pointer to it", item)
}

func (w *maker) addResponse(r Response) error {
	if r.Message.Role == "" {
		r.Message.Role = RoleAssistant
	}
	if r.Message.Role != RoleAssistant {
		return fmt.Errorf("a response has role %q, want %q", r.Message.Role, RoleAssistant)
	}
	return w.addMessage(r)
}

func (w *maker) addMessage(r Response) error {
	content, err := checkBlocks(r.Message.Content, false)
	if err != nil {
		return err
	}
	r.Message.Content = content
	switch r.Message.Role {
	case RoleUser:
		return w.addUser(r.Message)
	case RoleAssistant:
		return w.addAssistant(r)
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

func (w *maker) addUser(m Message) error {
	if len(m.Content) == 0 {
		return errors.New("a user message without content")
	}
	var rest []Block
	for _, b := range m.Content {
		switch b := b.(type) {
		case ToolResultBlock:
			w.add(Fragment{Kind: TypeToolResult, Role: RoleUser, Content: []Block{b}})
		case ToolCallBlock:
			return errors.New("a tool call in a user message")
		default:
			rest = append(rest, b)
		}
	}
	if len(rest) > 0 {
		w.add(Fragment{Kind: TypeUser, Role: RoleUser, Content: rest, plain: m.plain})
	}
	return nil
}

func (w *maker) addAssistant(r Response) error {
	f := Fragment{
		Kind: TypeAssistant, Role: RoleAssistant, plain: r.Message.plain,
		API: r.API, Model: r.Model, StopReason: r.StopReason, Usage: r.Usage, RequestID: r.RequestID,
	}
	mid, opened := "", false
	flush := func() {
		id := w.add(f)
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
			w.add(Fragment{Kind: TypeToolUse, Role: RoleAssistant, Content: []Block{b}, Of: mid})
		default:
			f.Content = append(f.Content, b)
		}
	}
	if !opened || len(f.Content) > 0 {
		flush()
	}
	return nil
}

// asRead makes e, whose line is made, what [ParseEntry] makes of that line: a
// caller's value is not what a reader sees, and the caller may change it later.
// Most entries need not be parsed for that. The error says that no reader would
// take the line.
func (e *Entry) asRead() error {
	if e.settled() {
		return nil
	}
	read, err := ParseEntry(e.line)
	if err != nil {
		return fmt.Errorf("transcript: an entry of type %s would not be readable: %w", e.Type(), err)
	}
	*e = read
	return nil
}

// settled reports whether e is what ParseEntry makes of its line and shares
// nothing that can be changed with what it was made of. It settles what of the
// body costs less than parsing, and may say no of an entry that is settled.
func (e *Entry) settled() bool {
	f, ok := e.Body.(Fragment)
	if !ok || !valid(e.ID, e.Idem, e.IdemHash) {
		return false
	}
	if year := e.Time.Year(); year < 0 || year > 9999 {
		return false
	}
	return f.settled(e.line)
}

// settled does so for a body whose Content nobody else has.
func (f *Fragment) settled(line []byte) bool {
	if f.Ext != nil || f.Usage.Extra != nil || f.Content != nil && len(f.Content) == 0 ||
		f.plain && !isPlain(f.Content) || !valid(f.Of, f.API, f.Model, string(f.StopReason), f.RequestID) {
		return false
	}
	if f.Kind != TypeAssistant && (f.API != "" || f.Model != "" || f.StopReason != "" || f.RequestID != "" || !f.Usage.IsZero()) {
		return false
	}
	switch f.Kind {
	case TypeUser:
		return f.Role == RoleUser && settledBlocks(f.Content)
	case TypeAssistant:
		return f.Role == RoleAssistant && settledBlocks(f.Content)
	case TypeToolUse:
		return f.Role == RoleAssistant && len(f.Content) == 1 && !f.plain && settleCall(&f.Content[0], line)
	case TypeToolResult:
		return f.Role == RoleUser && len(f.Content) == 1 && !f.plain && settleResult(&f.Content[0])
	}
	return false
}

// settledBlocks reports whether blocks are texts that a line holds as they are.
func settledBlocks(blocks []Block) bool {
	for _, b := range blocks {
		switch b := b.(type) {
		case TextBlock:
			if b.Extra != nil || !valid(b.Text) {
				return false
			}
		case ThinkingBlock:
			if b.Extra != nil || !valid(b.Thinking, b.Signature) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// shortInput is how long an input may be that is surely not nested too deeply
// for a line: encoding/json allows 10,000 levels, of which the line is one.
const shortInput = 9_999

// settleCall gives a call the input that its line has.
func settleCall(block *Block, line []byte) bool {
	call, ok := (*block).(ToolCallBlock)
	if !ok || call.Extra != nil || !valid(call.ID, call.Name) || len(call.Input) > shortInput {
		return false
	}
	if call.Input != nil {
		input, _ := jsontext.Member(line, "input")
		call.Input = slices.Clone(input)
		*block = call
	}
	return true
}

// settleResult gives a result a Content that nobody else has.
func settleResult(block *Block) bool {
	result, ok := (*block).(ToolResultBlock)
	if !ok || result.Extra != nil || !valid(result.CallID) || result.plain && !isPlain(result.Content) || !settledBlocks(result.Content) {
		return false
	}
	if result.Content != nil {
		result.Content = append([]Block(nil), result.Content...) // nil if it was empty
		*block = result
	}
	return true
}

// valid reports whether a line holds texts as they are.
func valid(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}
