package compact

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/lazy"
	"github.com/convolog/convolog/transcript"
)

// The default of [Options].Files goes by the names of tools and arguments.
var (
	writes  = lazy.New(`(?i)write|edit|create|patch|replace|insert|delete|remove|move|rename|save|append|update`)
	looks   = lazy.New(`(?i)^(view|read|show|get|list|cat)$`)
	patched = lazy.New(`(?m)^(?:\*\*\* (?:Add|Update|Delete) File: |\+\+\+ b/)([^\r\n\t]+)`)
	named   = lazy.New(`(?i)(^|_)(path|file|filename|file_?path|notebook_?path)s?$`)
	written = []string{"content", "contents", "file_text", "new_str", "new_string", "newText", "new_text", "old_str", "old_string", "edits"}
	patches = []string{"patch", "diff", "input"}
)

// filesOf returns the paths that a call reads or modifies, as far as its name
// and its input show that.
func filesOf(call transcript.ToolCallBlock) (read, modified []string) {
	var args map[string]any
	if json.Unmarshal(call.Input, &args) != nil {
		return nil, nil
	}
	isWritten := func(names []string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return args[name] != nil })
	}
	command, _ := args["command"].(string)
	changes := (writes.Get().MatchString(call.Name) || isWritten(written)) && !looks.Get().MatchString(command)
	var paths []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if s, ok := args[name].(string); ok && slices.Contains(patches, name) {
			for _, m := range patched.Get().FindAllStringSubmatch(s, -1) {
				modified = append(modified, m[1])
			}
		}
		list, _ := args[name].([]any)
		for _, v := range append(list, args[name]) {
			s, ok := v.(string)
			if ok && (named.Get().MatchString(name) && isOneLine(s) || !slices.Contains(written, name) && isPathArgument(s)) {
				paths = append(paths, s)
			}
		}
	}
	if changes {
		return nil, append(modified, paths...)
	}
	return paths, modified
}

func isOneLine(s string) bool {
	return s != "" && len(s) <= maxIdentifier && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' })
}
