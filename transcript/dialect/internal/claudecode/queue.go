package claudecode

import (
	"strings"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// queuedPrompt returns the attachment of a row with a text that the user typed
// while the program worked, else nil. Commands and notices of the program are
// queued as well.
func queuedPrompt(r fields.Record) fields.Record {
	a := r.Object("attachment")
	mode, origin := a.Str("commandMode"), a.Object("origin").Str("kind")
	if a.Str("type") != "queued_command" || a["prompt"] == nil || a.Flag("isMeta") ||
		mode != "" && mode != "prompt" || origin != "" && origin != "human" {
		return nil
	}
	return a
}

// queue finds texts of the user with two rows: one as a queued prompt and
// one as a message. Equal words are one text only within a turn: the user may
// type them again.
type queue struct {
	queued  map[string]int  // texts of the turn without a message yet
	typed   map[string]int  // texts since the last answer without a queued prompt yet
	sources map[string]bool // uuids of messages that a queued prompt names
}

func newQueue() queue {
	return queue{queued: map[string]int{}, typed: map[string]int{}, sources: map[string]bool{}}
}

// repeats reports whether an earlier row holds the text of a message.
func (q *queue) repeats(r fields.Record, f transcript.MessageLine) bool {
	if f.Role != transcript.RoleUser {
		clear(q.typed)
		if f.StopReason == transcript.StopEndTurn {
			clear(q.queued)
		}
		return false
	}
	text := strings.TrimSpace(f.Message().Text())
	if hasResult(f) || text == "" {
		return false
	}
	if prompt := queuedPrompt(r); prompt != nil {
		q.sources[prompt.Str("source_uuid")] = true
		return pair(q.typed, q.queued, text)
	}
	return pair(q.queued, q.typed, text) || q.sources[r.Str("uuid")]
}

// pair takes a text from those that wait, or adds it to the others.
func pair(waiting, others map[string]int, text string) bool {
	if waiting[text] > 0 {
		waiting[text]--
		return true
	}
	others[text]++
	return false
}
