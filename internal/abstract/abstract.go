// Package abstract finds the line that summarizes an overview.
package abstract

import (
	"cmp"
	"strings"
)

// Of returns the abstract of an overview, by OpenViking's rule. The abstract is the text
// after the first label, as in "**Overview**: text", or else the first line that is not a
// heading. Without such lines it is empty.
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

// labelled returns the text of a line of the form "**Label**: text", or "" for other lines.
func labelled(line string) string {
	line, ok := strings.CutPrefix(line, "**")
	label, text, found := strings.Cut(line, "**:")
	if !ok || !found || label == "" || strings.Contains(label, "*") {
		return ""
	}
	return strings.TrimSpace(text)
}
