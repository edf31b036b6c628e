package guard

import (
	"fmt"
	"strings"
)

// OverflowError is an overflow that could not be cured. All earlier changes to the
// history are committed; nothing was lost.
type OverflowError struct {
	Overflow Overflow
	Attempts int // number of calls
	Estimate int // estimated tokens of the last prompt
	Window   int // tokens; 0 if unknown
	// Largest is the ID of the largest entry in the last message, empty if unknown, and
	// LargestSize its estimated tokens. Consecutive user texts are one message, so
	// another text cannot make it smaller.
	Largest     string
	LargestSize int
	// Stages are the errors of failed stages, for example of a summarizer. The
	// OverflowError does not unwrap to them: a late stage does not mean that the
	// caller's time is over.
	Stages []error
	// Err is the error of the last call.
	Err error
}

// Error describes the excess with numbers, suggests remedies, and adds the errors of
// stages and the provider's text.
func (e *OverflowError) Error() string {
	var sb strings.Builder
	sb.WriteString("guard: the request is too large for the model, and nothing more could be made smaller (")
	if e.Overflow.Kind == Bytes && e.Overflow.Limit > 0 {
		fmt.Fprintf(&sb, "%d bytes or characters of %d, ", e.Overflow.Prompt, e.Overflow.Limit)
	}
	fmt.Fprintf(&sb, "~%d tokens by estimate", e.Estimate)
	if e.Window > 0 && e.Overflow.Kind != Bytes {
		fmt.Fprintf(&sb, " of a window of %d", e.Window)
	}
	sb.WriteString("); ")
	if e.Largest == "" {
		sb.WriteString("take the last message back or shorten it")
	} else {
		fmt.Fprintf(&sb, "the largest entry of the last message is %s with ~%d tokens: rewind to the entry in front of it and append it again, shorter", e.Largest, e.LargestSize)
	}
	sb.WriteString(", or shorten the system prompt or the tools, or use a model with a larger window")
	for _, err := range e.Stages {
		fmt.Fprintf(&sb, "; %v", err)
	}
	if e.Err != nil {
		sb.WriteString(": " + e.Err.Error())
	}
	return sb.String()
}

// Unwrap returns the error of the last call.
func (e *OverflowError) Unwrap() error { return e.Err }
