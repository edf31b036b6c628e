package wire

import "github.com/convolog/convolog/transcript"

// Delta is what one event of a stream adds to an answer. Most events fill one field
// or none. Of several calls in one event it has the last.
type Delta struct {
	Text     string // goes on the text of the answer
	Thinking string // goes on the reasoning
	ToolName string // a call of this tool begins
	Input    string // goes on the input of the call, not valid JSON by itself
	Done     bool   // the answer is complete; an event with the usage may follow
}

// Stream puts the events of a streamed answer together. The method NewStream of a
// format gives one. It is for one goroutine.
type Stream interface {
	// Add takes one event: the data of a server-sent event, [DONE] included, or for
	// Bedrock what bedrock.Event makes of it. Events of unknown types are ignored. The
	// event may be reused afterwards.
	//
	// An error event gives an [*APIError]. Any other error means that the event is
	// not one of a stream, or not one that can follow those before it; it is left
	// out, and what was added before stays.
	Add(event []byte) (Delta, error)
	// Response returns the answer as far as it came. After the last event it is what the
	// method Response of the format would have given. Before that its StopReason is
	// [transcript.StopAborted], after an error event [transcript.StopError]: the text is
	// kept as far as it came, and reasoning without what would let it go back; a call that
	// was not finished has the text of its input so far as a JSON string. The response is
	// the caller's and does not change with later events.
	Response() *transcript.Response
}

// DefaultMaxOutput is the output limit in tokens of a request that names none,
// for the APIs that need one.
const DefaultMaxOutput = 8192

// CacheTTL says for how long a provider is to keep what it has read of a request.
type CacheTTL string

// The times that Anthropic and Bedrock have. A mark costs a quarter more than the
// tokens in front of it for five minutes, and twice as much for an hour; what is
// read from the cache costs a tenth.
const (
	Cache5m CacheTTL = "5m"
	Cache1h CacheTTL = "1h"
)
