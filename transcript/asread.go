package transcript

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/convolog/convolog/internal/jsontext"
)

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
