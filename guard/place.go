package guard

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// A place is the part of a request that an error points to.
type place struct {
	media []medium
	own   bool // data for its maker alone
}

// placeOf finds the blocks at a path such as "messages.3.content.1". It finds none if
// they are of several kinds, or a text or a call is among them.
func (r *run) placeOf(path string) (found place) {
	if path == "" || r.g.Format == nil {
		return place{}
	}
	body, _, err := r.g.Format.Request(r.request)
	var doc any
	if err != nil || json.Unmarshal(body, &doc) != nil {
		return place{}
	}
	held := data(partAt(doc, path))
	holds := func(b transcript.Block) bool {
		var block any
		_ = json.Unmarshal(transcript.MarshalBlock(b), &block) // an object
		return slices.ContainsFunc(data(block), func(s string) bool { return slices.Contains(held, s) })
	}
	if len(held) == 0 {
		return place{}
	}
	for _, m := range findMedia(r.request.Messages) {
		if slices.ContainsFunc(m.blocks, holds) {
			found.media = append(found.media, m)
		}
	}
	for _, m := range r.request.Messages {
		for _, b := range m.Content {
			if res, ok := b.(transcript.ToolResultBlock); ok {
				b = res.WithContent(slices.DeleteFunc(slices.Clone(res.Content), transcript.IsMedia)...)
			}
			_, opaque := b.(transcript.RawBlock)
			switch {
			case transcript.IsMedia(b) || !holds(b):
			case opaque || transcript.IsReasoning(b):
				found.own = true
			default:
				return place{}
			}
		}
	}
	return found
}

// partAt returns the innermost object of a list on a path, if it is a part of a message.
// Names of types in the path have no member.
func partAt(doc any, path string) any {
	fold := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }
	var part map[string]any
	for _, step := range strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune(".[]", c) }) {
		switch at := doc.(type) {
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(at) {
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

// data lists the strings in a JSON value that are long enough to be in no other block.
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
