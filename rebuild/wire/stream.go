package wire

import "github.com/convolog/convolog/transcript"

// A Delta is what one event of a stream adds to an answer. Most events fill one field or
// none. If an event has several calls, the Delta holds the last one.
type Delta struct {
	Text     string // continues the text of the answer
	Thinking string // continues the reasoning
	ToolName string // a call of this tool begins
	Input    string // continues the input of the call, not valid JSON by itself
	Done     bool   // the answer is complete; an event with the usage may follow
}

// Stream puts the events of a streamed answer together. The method NewStream of a
// format returns one, for one goroutine.
type Stream interface {
	// Add takes one event: the data of a server-sent event, [DONE] included, or for
	// Bedrock the result of bedrock.Event. Events of unknown types are ignored. The
	// event may be reused afterwards.
	//
	// An error event gives an [*APIError]. Any other error means that the event
	// does not belong to a stream, or cannot follow the earlier ones; it is left
	// out, and earlier additions stay.
	Add(event []byte) (Delta, error)
	// Response returns the answer so far. After the last event it equals the result of the
	// format's method Response. Until then its StopReason is [transcript.StopAborted]; after
	// an error event it is [transcript.StopError]. An incomplete answer keeps the received
	// text, and its reasoning without the signature. An unfinished call holds the text of its
	// input so far as a JSON string. The caller owns the response: later events do not
	// change it.
	Response() *transcript.Response
}

// DefaultMaxOutput is the output limit in tokens of a request without one, for
// the APIs that need it.
const DefaultMaxOutput = 8192

// CacheTTL is the time for which a provider caches a request.
type CacheTTL string

// The times of Anthropic and Bedrock. A mark costs a quarter more than the tokens
// before it for five minutes, and twice as much for an hour; tokens read from the
// cache cost a tenth.
const (
	Cache5m CacheTTL = "5m"
	Cache1h CacheTTL = "1h"
)
