package filedriver

import (
	"unicode/utf8"

	"github.com/convolog/convolog/session/driver"
)

// What an entry of the index holds at most, in bytes. All of it is in the
// transcript; one session with a huge title must not make every merge and
// every start slow. A key is kept whole: without it nobody finds the session.
const (
	maxShown  = 1 << 10 // of a title or an owner
	maxLabels = 2 << 10 // of all labels together
	maxEntry  = 256     // of the ID of an entry; ours have 36
)

// bound cuts what the index holds of a row down to size. Who resumes a session
// whose row was cut reads all of it, and so gets the whole.
func bound(row *driver.Row) {
	row.Title, row.Owner = cut(row.Title, maxShown), cut(row.Owner, maxShown)
	size := 0
	for i, label := range row.Labels {
		if size += len(label) + len(`"",`); size > maxLabels {
			row.Labels = row.Labels[:i:i]
			break
		}
	}
	row.LastID = cut(row.LastID, maxEntry)
}

// cut shortens a text to at most n bytes; one that was cut ends with '…'.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
