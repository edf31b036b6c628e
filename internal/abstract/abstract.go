// Package abstract finds the line that sums up an overview.
package abstract

import (
	"cmp"
	"strings"
)

// Of returns the abstract of an overview, by OpenViking's rule: the text after the
// first label, as in "**Overview**: text", or else the first line other than a
// heading. It is empty without either.
func Of(overview string) (first string) {
	for line := range strings.Lines(overview) {
		line = strings.TrimSpace(line)
		if text := labelled(line); text != "" {
			return text
		}
		if !strings.HasPrefix(line, "#") {
			first = cmp.Or(first, line)
		}
	}
	return first
}

// labelled returns the text of a line of the form "**Label**: text", else "".
func labelled(line string) string {
	line, ok := strings.CutPrefix(line, "**")
	label, text, found := strings.Cut(line, "**:")
	if !ok || !found || label == "" || strings.Contains(label, "*") {
		return ""
	}
	return strings.TrimSpace(text)
}
