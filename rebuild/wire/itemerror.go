package wire

import "fmt"

// ItemError reports a place in the JSON of a conversation that is not understood: see
// anthropic.Messages and its siblings.
type ItemError struct {
	Pointer string // JSON pointer (RFC 6901), "/messages/3/content/0" for example
	Reason  string
}

// Error returns one line with the pointer and the reason.
func (e *ItemError) Error() string { return fmt.Sprintf("wire: at %q: %s", e.Pointer, e.Reason) }
