package guard

import (
	"fmt"
	"strings"
)

// OverflowError is an overflow that could not be cured. All changes made to the
// history so far are committed; nothing was lost.
type OverflowError struct {
	Overflow Overflow
	Attempts int // calls that were made
	Estimate int // tokens of the prompt that was sent last, by estimate
	Window   int // tokens; 0 if it is not known
	// Largest is the ID of the largest entry in the last message, and
	// LargestSize its tokens by estimate. Consecutive texts of the user are one
	// message, so a later text cannot make it smaller. Empty if it is not
	// known.
	Largest     string
	LargestSize int
	// Stages are the errors of stages that failed, a summarizer's for example.
	// They are not seen through this error: one of them being late does not
	// mean that the caller's time is over.
	Stages []error
	// Err is what the last call returned.
	Err error
}

// Error names the part that does not fit, with numbers, the failed step and the
// provider's text.
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

// Unwrap returns the provider's error, as the call returned it.
func (e *OverflowError) Unwrap() error { return e.Err }
