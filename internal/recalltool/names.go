// Package recalltool holds the names of the tools with which a model reads entries that
// are no longer in its history, see search.RecallTools. Clips and summaries mention these
// tools.
package recalltool

import (
	"fmt"
	"strings"
)

// The names of the tools.
const (
	Search = "recall_search"
	Window = "recall_window"
	Read   = "recall_read"
)

// Left counts the omissions of a compaction: messages and mentions of files since the
// beginning of the conversation, and partly shown texts of the user. A file that was
// omitted, used again and omitted again has two mentions, because its name is not kept.
type Left struct{ Messages, Files, Texts int }

const counts = "[Left out: %d messages as they were, %d mentions of files, parts of %d texts of the user. "

// Notice returns the last line of a summary for a model that has the tools.
func (l Left) Notice() string {
	return fmt.Sprintf(counts, l.Messages, l.Files, l.Texts) + Search + " finds words in all of it, " +
		Window + " shows the messages around an entry, " + Read + " reads a whole entry, such as one that a gap names.]"
}

// Cut removes the notice from a summary and returns its counts.
func Cut(summary string) (string, Left) {
	var l Left
	trimmed := strings.TrimSpace(summary)
	at := strings.LastIndexByte(trimmed, '\n') + 1
	if n, _ := fmt.Sscanf(trimmed[at:], strings.TrimSpace(counts), &l.Messages, &l.Files, &l.Texts); n == 3 && l.Notice() == trimmed[at:] {
		return strings.TrimSpace(trimmed[:at]), l
	}
	return summary, Left{}
}
