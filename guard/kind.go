package guard

import "slices"

// Kind is the part of a request that was too large, which decides the remedy. The zero
// value is [NotOverflow].
type Kind string

const (
	// NotOverflow is any other error: it goes to the caller unchanged.
	NotOverflow Kind = ""

	// Tokens is a prompt that alone is longer than the model's context window. Only a
	// shorter history helps.
	Tokens Kind = "tokens"

	// TokensPlusOutput is a prompt that fits the window by itself, but not together
	// with the output that the request reserves. Reserving less suffices and keeps the
	// whole history.
	TokensPlusOutput Kind = "tokens_plus_output"

	// Bytes is a request whose body has too many bytes, or too many characters if the
	// provider counts those. Media and giant tool results are likely causes; a summary
	// of the text may not help.
	Bytes Kind = "bytes"

	// Messages is a request with more messages or items than the provider takes.
	// Only a shorter history helps.
	Messages Kind = "messages"

	// Part is a request with a part that the provider refuses, however short the rest
	// is; see [Overflow].Refused. It helps only to leave out or change that part. It is
	// not an overflow of the window. A refusal of anything but content (the length of
	// an ID, the number of tools) is [NotOverflow].
	Part Kind = "part"

	// RateLimit is a single request that exceeds the account's allowance for a minute.
	// Waiting never helps, but a smaller request does. The window did not overflow, and
	// its size stays unknown. A rate limit that waiting ends is [NotOverflow].
	RateLimit Kind = "rate_limit_single_request"

	// StopReason is an answer that a full window cut. Its text so far is an answer to
	// keep; the next request needs a shorter history.
	StopReason Kind = "stop_reason"

	// Silent is an overflow without an error, such as a prompt that was cut. [Classify]
	// never returns it, because only a comparison with an estimate or the window shows
	// it.
	Silent Kind = "silent"
)

// IsOverflow reports whether the request as a whole was too large for the model or its
// endpoint. It is true for every kind except [NotOverflow], [Part] and [RateLimit].
func (k Kind) IsOverflow() bool {
	return !slices.Contains([]Kind{NotOverflow, Part, RateLimit}, k)
}

// An Overflow is the result of [Classify] for an error.
type Overflow struct {
	// Kind is the part that was too large or refused. For any kind but NotOverflow, a
	// smaller request of the right sort helps. For [Part], it must leave out or change
	// that part.
	Kind Kind

	// Refused names the refused part of the kind [Part], and is otherwise empty.
	//
	//	reasoning           of another account, altered, or bound to another conversation
	//	images              all images and documents, because the model takes none
	//	image, document     media of that kind that the provider cannot read
	//	media               media of either kind that the provider cannot read
	//	count, side, size   too many media; one with too many pixels; with too many bytes
	//	text                one text that is too long
	//	parts               content that is not a string
	//	signatures          answers that lack their unsigned reasoning
	//	call-ids            IDs of calls
	Refused string

	// Prompt is the size of the request without the reserved output, in tokens. For
	// [Bytes], [Messages] and [Part] it is in the unit that the provider counts: bytes,
	// characters, messages, images or pixels. If the error names a single number that
	// may include the output, Prompt is that number. Zero means that the error does not
	// name the size.
	Prompt int

	// Limit is the largest allowed size, in the unit of Prompt. For tokens it is the
	// window or the maximum prompt, for a [RateLimit] the tokens per minute. A figure
	// such as "200K" is read as 200,000, the smaller reading. Zero means that the error
	// names no limit, or one below 256 tokens or bytes, which no model has.
	Limit int

	// Output is the number of tokens that the request reserved for the answer. Zero
	// means that it reserved none, or that the error does not name the number.
	Output int

	// AtLeast marks Prompt as a lower bound. The provider stopped counting where the
	// request no longer fitted, so the room for the output is not Limit less Prompt.
	AtLeast bool

	// Path is the place of the refused part in the request, as the error writes it, for
	// example "messages.3.content.1". It is empty for all kinds but [Part], and if the
	// error names no place.
	Path string

	// Rule is the name of the deciding rule, for logs and tests. An error that only
	// looks like an overflow also has one. It is "none" if no rule matches the error.
	// Names may change between versions.
	Rule string
}
