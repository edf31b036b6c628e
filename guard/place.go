package guard

import (
	"strconv"
	"strings"
)

// partAt returns the innermost object in a list on a path, or nil if it is a whole
// message. Names of types in the path match no member and are skipped. AWS counts from
// 1, as in "messages.1.member".
func partAt(doc any, path string) any {
	fold := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	var part map[string]any
	steps := strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune(".[], '\"", c) })
	for n, step := range steps {
		switch at := doc.(type) {
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil {
				continue
			}
			if n+1 < len(steps) && steps[n+1] == "member" {
				i--
			}
			if i < 0 || i >= len(at) {
				return nil
			}
			doc = at[i]
			part, _ = doc.(map[string]any)
		case map[string]any:
			for name, member := range at {
				if fold(name) == fold(step) {
					doc = member
				}
			}
		}
	}
	if part["role"] != nil {
		return nil
	}
	return part
}

// data lists the strings in a JSON value that are too long to occur in another block.
func data(v any) (all []string) {
	const least = 20
	switch v := v.(type) {
	case string:
		if _, bytes, ok := strings.Cut(v, ";base64,"); ok {
			v = bytes
		}
		if len(v) >= least {
			all = append(all, v)
		}
	case []any:
		for _, e := range v {
			all = append(all, data(e)...)
		}
	case map[string]any:
		for _, e := range v {
			all = append(all, data(e)...)
		}
	}
	return all
}
