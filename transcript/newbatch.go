package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/checksum"
	"github.com/convolog/convolog/internal/jsontext"
)

// Item is a value that can be appended to a session: a [Message], a [Response],
// a pointer to either, or one of the bodies [Compaction], [Clip], [Hide],
// [Rewind], [System], [Tools], [Meta], [Calibration], [ToolStatus], [Used], [Commit], [Extracted],
// [Dispatch], [Decision], [Interrupt], [Queued], [Draft], [Pin], [Value] and [Custom]. [At],
// [WithApp] and [Dequeued] put more on their lines.
type Item interface{ isItem() }

// annotated is an item plus extra members of its lines.
type annotated struct {
	Item
	at     time.Time // of all its lines; zero: of the append
	app    json.RawMessage
	queued string
}

// annotate adds to an item that may have annotations.
func annotate(item Item, add func(*annotated)) Item {
	a, ok := item.(annotated)
	if !ok {
		a.Item = item
	}
	add(&a)
	return a
}

// At returns an item whose lines have a time of their own, to the microsecond: of a
// message that another program recorded, for example. A zero time changes nothing. It is
// no part of the hash of an idempotency key.
func At(at time.Time, item Item) Item { return annotate(item, func(a *annotated) { a.at = at }) }

// WithApp returns an item whose first line holds data of the application, any
// JSON: see [Entry]. It is part of the hash of an idempotency key.
func WithApp(item Item, data json.RawMessage) Item {
	return annotate(item, func(a *annotated) { a.app = data })
}

// Dequeued returns a message of the user that takes over the [Queued] text with
// that entry ID.
func Dequeued(m Message, id string) Item {
	return annotate(m, func(a *annotated) { a.queued = id })
}

func (Message) isItem()     {}
func (Response) isItem()    {}
func (Compaction) isItem()  {}
func (Clip) isItem()        {}
func (Hide) isItem()        {}
func (Rewind) isItem()      {}
func (System) isItem()      {}
func (Tools) isItem()       {}
func (Meta) isItem()        {}
func (Calibration) isItem() {}
func (ToolStatus) isItem()  {}
func (Used) isItem()        {}
func (Commit) isItem()      {}
func (Extracted) isItem()   {}
func (Dispatch) isItem()    {}
func (Decision) isItem()    {}
func (Interrupt) isItem()   {}
func (Queued) isItem()      {}
func (Draft) isItem()       {}
func (Pin) isItem()         {}
func (Value) isItem()       {}
func (Custom) isItem()      {}

// NewBatch encodes items as the entries of one append. now becomes the time of
// every entry, unless [At] gave its item another; newID is called once per entry and
// returns its ID.
//
// docs/FORMAT.md defines how a message is split into lines: a user message into its
// tool results and then the rest, an assistant message into a line of type
// assistant and then its calls and the blocks between them. The error names the
// item that cannot be written and the reason; no entries are returned with it.
//
// The entries equal the result of [ParseEntry] for their lines: invalid UTF-8
// and invalid JSON inputs have been repaired. A label of a [Meta] that is not UTF-8
// is refused. The entries share no memory with items that a caller could change.
func NewBatch(now time.Time, newID func() string, items ...Item) ([]Entry, error) {
	return newBatch(now, newID, false, items)
}

// NewBatchWithChecksums is NewBatch with a checksum at the end of each line, see
// [Entry.WithChecksum].
func NewBatchWithChecksums(now time.Time, newID func() string, items ...Item) ([]Entry, error) {
	return newBatch(now, newID, true, items)
}

// newBatch has a closure because a struct of its variables would let newID escape.
func newBatch(now time.Time, newID func() string, checksums bool, items []Item) ([]Entry, error) {
	entries := make([]Entry, 0, len(items))
	now = now.UTC().Truncate(time.Microsecond)
	add := func(b Body) string {
		e := Entry{ID: newID(), Time: now, Body: b}
		entries = append(entries, e)
		return e.ID
	}
	for i, item := range items {
		first := len(entries)
		more, ok := item.(annotated)
		if ok {
			item = more.Item
		}
		err := addItem(add, item)
		if err == nil && ok {
			err = more.annotate(entries[first:])
		}
		if err != nil {
			return nil, fmt.Errorf("transcript: item %d of %d: %w", i+1, len(items), err)
		}
	}
	for i := range entries {
		e := &entries[i]
		if len(entries) > 1 {
			if i == 0 {
				e.Batch = len(entries)
			} else {
				e.Part = i + 1
			}
		}
		if err := e.makeLine(checksums); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

func (a annotated) annotate(entries []Entry) error {
	if !a.at.IsZero() {
		for i := range entries {
			entries[i].Time = a.at.UTC().Truncate(time.Microsecond)
		}
	}
	e := &entries[0]
	if len(a.app) > 0 && !jsontext.Valid(a.app) {
		return errors.New("the data of WithApp is not valid JSON")
	}
	e.App = a.app
	if f, ok := e.Body.(MessageLine); ok && f.Kind == TypeUser {
		f.Queued = a.queued
		e.Body = f
	}
	return nil
}

// makeLine encodes the line of e and then sets e to the result of [ParseEntry] for
// it, because the value of the caller may differ from it and may change later. Most
// entries need no parsing. An error means that readers would reject the line.
func (e *Entry) makeLine(checksums bool) error {
	e.line = e.appendLine(make([]byte, 0, lineSize(e.Body)))
	if checksums {
		e.line = checksum.Append(e.line)
	}
	if err := checkLine(e.line, DefaultMaxLine); err != nil {
		return err
	}
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

// lineSize estimates the length of a line in bytes, a checksum included, so
// that encoding it allocates once.
func lineSize(b Body) int {
	n := 256
	f, _ := b.(MessageLine)
	for _, c := range f.Content {
		switch c := c.(type) {
		case TextBlock:
			n += len(c.Text) + len(c.Text)/16
		case ThinkingBlock:
			n += len(c.Thinking) + len(c.Thinking)/16
		case ToolCallBlock:
			n += len(c.Input)
		case ToolResultBlock:
			n += lineSize(MessageLine{Content: c.Content})
		}
	}
	return n
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
	case Queued:
		if len(it.Content) == 0 {
			return errors.New("a queued text without content")
		}
		if slices.ContainsFunc(it.Content, isOfTool) {
			return errors.New("a tool call or result in a queued text")
		}
		content, err := checkBlocks(it.Content, false)
		add(Queued{Content: content, plain: it.plain || isPlain(content)})
		return err
	case Meta:
		add(it)
		return it.check()
	case ToolStatus:
		if !slices.Contains(toolStatuses, it.Status) {
			return fmt.Errorf("the tool status %q: want one of %q", it.Status, toolStatuses)
		}
		add(it)
		return nil
	case Used:
		add(it)
		return it.check()
	case Compaction, Clip, Hide, Rewind, System, Tools, Commit, Extracted, Dispatch, Decision, Interrupt, Draft, Pin, Value, Custom:
		add(it.(Body))
		return nil
	case nil:
		return errors.New("nil item")
	}
	return fmt.Errorf("a %T cannot be appended: give the value, not a pointer to it", item)
}

// The closed sets of written values. A reader tolerates others.
var (
	toolStatuses = []string{"pending", "running", "completed", "error"}
	contextKinds = []string{"resource", "memory", "skill"}
)

// check refuses a title by an unknown author, and a label that the line would change.
func (m Meta) check() error {
	if m.TitleBy != "" && (m.TitleBy != ByModel || m.Title == nil) {
		return fmt.Errorf("a title by %q: want none, or %q and a title", m.TitleBy, ByModel)
	}
	for _, label := range m.Labels {
		if !utf8.ValidString(label) {
			return fmt.Errorf("the label %q is not valid UTF-8", label)
		}
	}
	return nil
}

// check refuses usage that names nothing.
func (u Used) check() error {
	switch {
	case len(u.Contexts) == 0 && u.Skill == nil:
		return errors.New("a use of nothing: want URIs of contexts or a skill")
	case slices.Contains(u.Contexts, ""), u.Skill != nil && u.Skill.URI == "":
		return errors.New("a use without a URI")
	}
	return nil
}

func isOfTool(b Block) bool {
	switch b.(type) {
	case ToolCallBlock, ToolResultBlock:
		return true
	}
	return false
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

// checkBlocks returns blocks as a reader decodes them: a RawBlock of a known
// type becomes that type, which may belong on a line of its own.
func checkBlocks(blocks []Block, inResult bool) ([]Block, error) {
	for i, b := range blocks {
		switch b := b.(type) {
		case nil:
			return nil, fmt.Errorf("block %d is nil", i)
		case TextBlock, ImageBlock, DocumentBlock, ToolCallBlock, ThinkingBlock, RedactedThinkingBlock:
		case ContextBlock:
			if !slices.Contains(contextKinds, b.Kind) {
				return nil, fmt.Errorf("block %d: unknown context type %q: want one of %q", i, b.Kind, contextKinds)
			}
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
			add(MessageLine{Kind: TypeToolResult, Role: RoleUser, Content: []Block{b}})
		case ToolCallBlock:
			return errors.New("a tool call in a user message")
		default:
			rest = append(rest, b)
		}
	}
	if len(rest) > 0 {
		add(MessageLine{Kind: TypeUser, Role: RoleUser, Content: rest, plain: m.plain})
	}
	return nil
}

func addAssistant(add func(Body) string, r Response) error {
	f := MessageLine{
		Kind: TypeAssistant, Role: RoleAssistant, plain: r.Message.plain,
		API: r.API, Model: r.Model, StopReason: r.StopReason, Usage: r.Usage, RequestID: r.RequestID, Made: r.Made,
	}
	mid, opened := "", false
	flush := func() {
		id := add(f)
		if !opened {
			mid, opened = id, true
		}
		f = MessageLine{Kind: TypeAssistant, Role: RoleAssistant, Of: mid}
	}
	for _, b := range r.Message.Content {
		switch b := b.(type) {
		case ToolResultBlock:
			return errors.New("a tool result in an assistant message")
		case ToolCallBlock:
			if !opened || len(f.Content) > 0 {
				flush()
			}
			add(MessageLine{Kind: TypeToolUse, Role: RoleAssistant, Content: []Block{b}, Of: mid})
		default:
			f.Content = append(f.Content, b)
		}
	}
	if !opened || len(f.Content) > 0 {
		flush()
	}
	return nil
}

// replacement is in lines whose text was invalid UTF-8, and in few others.
var replacement = []byte("\uFFFD")

// settled reports whether e equals the result of ParseEntry for its line and
// shares no memory that a caller can change. It fixes those differences that
// cost less to fix than to parse, and may report false for an entry that needs
// no parsing.
func (e *Entry) settled() bool {
	f, ok := e.Body.(MessageLine)
	year := e.Time.Year()
	if !ok || e.App != nil || year < 0 || year > 9999 || bytes.Contains(e.line, replacement) ||
		f.Ext != nil || f.Usage.Extra != nil || f.Content != nil && len(f.Content) == 0 || f.plain && !isPlain(f.Content) {
		return false
	}
	if f.Kind != TypeAssistant && (f.API != "" || f.Model != "" || f.StopReason != "" || f.RequestID != "" || f.Made != (Made{}) || !f.Usage.IsZero()) {
		return false
	}
	switch f.Kind {
	case TypeUser:
		return f.Role == RoleUser && settledBlocks(f.Content)
	case TypeAssistant:
		return f.Role == RoleAssistant && settledBlocks(f.Content)
	case TypeToolUse:
		return f.Role == RoleAssistant && len(f.Content) == 1 && !f.plain && settleCall(&f.Content[0], e.line)
	case TypeToolResult:
		return f.Role == RoleUser && len(f.Content) == 1 && !f.plain && settleResult(&f.Content[0])
	}
	return false
}

// settledBlocks reports whether every block is a text that a line stores
// unchanged.
func settledBlocks(blocks []Block) bool {
	for _, b := range blocks {
		switch b := b.(type) {
		case TextBlock:
			if b.Extra != nil {
				return false
			}
		case ThinkingBlock:
			if b.Extra != nil {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// shortInput is a length in bytes below which an input cannot be nested too
// deeply for a line: encoding/json allows 10,000 levels, and the line itself is
// one.
const shortInput = 9_999

// settleCall replaces the input of a call by a copy of the bytes in its line.
func settleCall(block *Block, line []byte) bool {
	call, ok := (*block).(ToolCallBlock)
	if !ok || call.Extra != nil || len(call.Input) > shortInput {
		return false
	}
	if call.Input != nil {
		input, _ := jsontext.Member(line, "input")
		call.Input = slices.Clone(input)
		*block = call
	}
	return true
}

// settleResult replaces the content of a result by a copy of its own.
func settleResult(block *Block) bool {
	result, ok := (*block).(ToolResultBlock)
	if !ok || result.Extra != nil || result.plain && !isPlain(result.Content) || !settledBlocks(result.Content) {
		return false
	}
	if result.Content != nil {
		result.Content = append([]Block(nil), result.Content...) // nil if it was empty
		*block = result
	}
	return true
}
