package guard

import (
	"fmt"
	"strings"
)

// OverflowError is an overflow that could not be cured. What was done to the
// history so far is committed; nothing was lost.
type OverflowError struct {
	Overflow Overflow
	Attempts int // calls that were made
	Estimate int // tokens of the prompt that was sent last, by estimate
	Window   int // tokens; 0 if it is not known
	// Stages are the errors of stages that failed.
	Stages []error
	// Err is what the last call returned.
	Err error
}

// Error says what does not fit, with numbers, what was tried and what the
// provider says.
func (e *OverflowError) Error() string {
	var sb strings.Builder
	fmt.Fprintf(&sb, "guard: the request is too large for the model after %d attempts: ~%d tokens by estimate", e.Attempts, e.Estimate)
	if e.Window > 0 {
		fmt.Fprintf(&sb, " of a window of %d", e.Window)
	}
	sb.WriteString("; shorten the last message, the system prompt or the tools, or use a model with a larger window")
	for _, err := range e.Stages {
		fmt.Fprintf(&sb, " (%v)", err)
	}
	return sb.String() + ": " + e.Err.Error()
}

// Unwrap returns the provider's error, as the call returned it, and those of
// the stages.
func (e *OverflowError) Unwrap() []error { return append([]error{e.Err}, e.Stages...) }
