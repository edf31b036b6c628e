package guardtest

import (
	"encoding/json"

	"github.com/convolog/convolog/transcript"
)

const (
	maxMarks     = 4
	cacheControl = "cache_control"
)

// mark counts a cache mark beside the messages.
func (e *envelope) mark(value json.RawMessage) {
	if !isNull(value) {
		e.marks++
	}
}

// judgeMarks counts all cache marks if some are not in the messages; those
// alone were counted before.
func (e *envelope) judgeMarks() *refusal {
	if e.marks == 0 {
		return nil
	}
	n := e.marks
	for _, m := range e.request.Messages {
		n += marksIn(m.Content)
	}
	if n <= maxMarks {
		return nil
	}
	return invalid("A maximum of %d blocks with cache_control may be provided. Found %d.", maxMarks, n)
}

// marksIn counts the marks on blocks and on those in results.
func marksIn(content []transcript.Block) (n int) {
	for _, b := range content {
		if members, ok := object(transcript.MarshalBlock(b)); ok && !isNull(members[cacheControl]) {
			n++
		}
		if r, ok := b.(transcript.ToolResultBlock); ok {
			n += marksIn(r.Content)
		}
	}
	return n
}
