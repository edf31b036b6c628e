package guard

import "slices"

// Kind is the part that was too large, which decides the remedy. The zero value
// is [NotOverflow].
type Kind string

const (
	// NotOverflow is any other error: it goes to the caller untouched.
	NotOverflow Kind = ""

	// Tokens is a prompt that is longer than the model's context window on its
	// own. Only a shorter history helps.
	Tokens Kind = "tokens"

	// TokensPlusOutput is a prompt that fits the window by itself, but not
	// together with the output that the request reserves. Reserving less is
	// enough, and keeps the whole history.
	TokensPlusOutput Kind = "tokens_plus_output"

	// Bytes is a request whose body is too large, or one whose provider counts
	// characters. Media and giant tool results are what to look at; a summary
	// of the text may not help.
	Bytes Kind = "bytes"

	// Messages is a request with more messages or items than the provider takes.
	// Only a shorter history helps.
	Messages Kind = "messages"

	// Part is a request of which the provider refuses a part, however short the
	// rest is; see [Overflow].Refused. Only leaving out or changing that part
	// helps. It is not an overflow of the window. A refusal of anything but
	// content (the length of an ID, the number of tools) is [NotOverflow].
	Part Kind = "part"

	// RateLimit is a single request that is larger than what the account may
	// send in a minute. Waiting never helps and a smaller request does, though
	// it is not an overflow of the window and does not show its size. A rate
	// limit that goes away by waiting is [NotOverflow].
	RateLimit Kind = "rate_limit_single_request"

	// StopReason is an answer that was cut because the window was full. Its
	// text so far is an answer to keep; the next request needs a shorter
	// history.
	StopReason Kind = "stop_reason"

	// Silent is a prompt that was cut without an error. [Classify] never
	// returns it: it takes a comparison of the usage with an estimate.
	Silent Kind = "silent"
)

// IsOverflow reports whether the request as a whole was too large for the
// model or its endpoint: any kind except [NotOverflow], [Part] and [RateLimit].
func (k Kind) IsOverflow() bool {
	return !slices.Contains([]Kind{NotOverflow, Part, RateLimit}, k)
}

// Overflow is what [Classify] found in an error.
type Overflow struct {
	// Kind is the part that was too large. Unless it is NotOverflow, a smaller
	// request of the right sort helps.
	Kind Kind

	// Refused names the refused part. It is empty for other kinds than [Part].
	//
	//	reasoning           of another account, altered, or bound to another conversation
	//	images              all images and documents, as the model takes none
	//	image, document     media that the provider cannot read, of that kind
	//	media               the same, of either kind
	//	count, side, size   too many media; one with too many pixels; with too many bytes
	//	text                one text that is too long
	//	parts               content that is no string
	//	signatures          answers without their unsigned reasoning
	//	call-ids            IDs of calls
	Refused string

	// Prompt is the size of the request without the output it reserves, in
	// tokens. For [Bytes], [Messages] and [Part] it is in the unit that the
	// provider counts: bytes, characters, messages, images or pixels. If the
	// error names only one sum of prompt and output, it is that sum. Zero means
	// that the error does not say.
	Prompt int

	// Limit is what the provider allows, in the unit of Prompt: for tokens the
	// window or the maximum prompt, for a [RateLimit] the tokens per minute.
	// Of a figure such as "200K" it is the smaller reading, 200,000. Zero means
	// that the error does not say, or that it says less than 256 tokens or bytes:
	// no model has such a window.
	Limit int

	// Output is the number of tokens that the request reserved for the answer.
	// Zero means none, or that the error does not say.
	Output int

	// AtLeast marks Prompt as a lower bound: the provider stopped counting
	// where the request no longer fitted, so Limit less Prompt is not the room
	// for the output.
	AtLeast bool

	// Path is the place of the refused part in the request, as the error writes
	// it: "messages.3.content.1" for example. Empty means that the error does
	// not say; only a [Part] has one.
	Path string

	// Rule is the name of the rule that decided, for logs and tests: also of
	// the one that refused an error that looks like an overflow. It is "none"
	// if no rule knows the error. Names may change between versions.
	Rule string
}
