package transcript

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
)

// Made records the content of the request of an answer. guard.Do sets it; an
// application that renders requests itself takes After from its
// rebuild.History, and the rest from rebuild.PromptHash and rebuild.Reasoned.
// The zero value records nothing. Providers refuse reasoning after a changed
// prefix, and steering texts and late results must not precede an answer that
// was made without them; later requests use Made to prevent both.
type Made struct {
	// After is the entry ID of the last line of the history that the request
	// was rendered from.
	After string `json:"after,omitempty"`
	// Thought is the entry ID of the first answer whose reasoning the request
	// held; or empty.
	Thought string `json:"thought,omitempty"`
	// PromptHash is the hash of the system prompt and the tools, and the mark that
	// rebuild.For returns.
	PromptHash string `json:"promptHash,omitempty"`
	// Endpoint is the service or the account, as the application names it.
	Endpoint string `json:"endpoint,omitempty"`
}

// Answer is an answer in a history that recorded its request.
type Answer struct {
	Entry string // ID of its first line
	Made  Made
	// Intact is set if the blocks of its request, reasoning aside, still precede
	// it unchanged. Only then can its reasoning return to a provider that checks
	// this.
	Intact bool
}

// StopReason is the reason why a model stopped. Values of a provider that are
// not listed here are kept as they are.
type StopReason string

// The stop reasons. Aborted and Error are ours: the answer was cut by a
// cancellation or a failure, its text is kept and its unfinished calls are
// not.
const (
	StopEndTurn       StopReason = "end_turn"
	StopMaxTokens     StopReason = "max_tokens"
	StopSequence      StopReason = "stop_sequence"
	StopToolUse       StopReason = "tool_use"
	StopPauseTurn     StopReason = "pause_turn"
	StopRefusal       StopReason = "refusal"
	StopContextWindow StopReason = "model_context_window_exceeded"
	StopAborted       StopReason = "aborted"
	StopError         StopReason = "error"
)

// Usage counts tokens as the provider reported them.
type Usage struct {
	Input      int // prompt tokens that were neither read from nor written to a cache
	Output     int
	CacheRead  int
	CacheWrite int
	Extra      Extra // other members of the provider's object, or non-numbers
}

// Prompt is the size of the whole prompt in tokens.
func (u Usage) Prompt() int { return u.Input + u.CacheRead + u.CacheWrite }

// Cleared is how many tokens of the prompt the provider has left out by its own
// context editing, from the member "context_management" of Extra. They are not in
// Prompt.
func (u Usage) Cleared() (n int) {
	edits, ok := u.Extra["context_management"]
	if !ok {
		return 0
	}
	var said struct {
		Applied []struct {
			Tokens int `json:"cleared_input_tokens"`
		} `json:"applied_edits"`
	}
	if json.Unmarshal(edits, &said) != nil {
		return 0
	}
	for _, e := range said.Applied {
		n += min(max(e.Tokens, 0), math.MaxInt32)
	}
	return n
}

// IsZero reports whether nothing was counted.
func (u Usage) IsZero() bool {
	return u.Input == 0 && u.Output == 0 && u.CacheRead == 0 && u.CacheWrite == 0 && len(u.Extra) == 0
}

// MarshalJSON implements [encoding/json.Marshaler] with the member names of
// the Messages API.
func (u Usage) MarshalJSON() ([]byte, error) { return u.appendJSON(nil), nil }

func (u Usage) appendJSON(dst []byte) []byte {
	o := jsontext.AppendObject(dst)
	for i, name := range usageNames {
		n := *u.field(i)
		if _, odd := u.Extra[name]; !odd && (n != 0 || i < 2) {
			o.Int(name, int64(n))
		}
	}
	u.Extra.write(&o)
	return o.End()
}

// usageNames are the names of the members that have a field; the first two
// are always written.
var usageNames = [...]string{
	"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
}

func (u *Usage) field(i int) *int {
	return [...]*int{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite}[i]
}

// UnmarshalJSON implements [encoding/json.Unmarshaler]. It never fails on an
// object: a member that is not a number is kept in Extra.
func (u *Usage) UnmarshalJSON(data []byte) error {
	if jsontext.IsNull(data) {
		return nil
	}
	if !jsontext.IsObject(data) {
		return errShape
	}
	*u = Usage{}
	for name, v := range jsontext.Members(data) {
		if i := slices.Index(usageNames[:], name); i >= 0 {
			n, ok := jsontext.Int(v)
			*u.field(i) = int(n)
			delete(u.Extra, name)
			if ok {
				continue
			}
		}
		u.Extra = u.Extra.with(name, v)
	}
	return nil
}
