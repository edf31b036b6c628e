package wiretest

import (
	"maps"
	"slices"
	"strings"
)

// ValidateNext compares the body of an answered request with the body of the next
// one to the same model, for any of the five APIs: the second should repeat the
// first, block for block in canonical JSON, and only add to it. Cache marks do
// not count. Providers refuse reasoning after a changed prefix, and their caches
// begin again there. The rules:
//
//	json             both bodies are objects
//	system           the system prompts are the same
//	tools            the tools are the same
//	prefix           the blocks of the first are the first blocks of the second;
//	                 Message and Block say where the second differs
func ValidateNext(prev, next []byte) []Violation {
	var j judge
	before, after := tree(prev), tree(next)
	if !j.want(before != nil && after != nil, "json", -1, -1, "a body is not a JSON object") {
		return j.found
	}
	rules := map[string]string{"system": "system", "instructions": "system", "systemInstruction": "system", "tools": "tools", "toolConfig": "tools"}
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		j.want(canonical(before[name]) == canonical(after[name]), rules[name], -1, -1, "%s is not the same", name)
	}
	was, is := spoken(before), spoken(after)
	for i, s := range was {
		if !j.want(i < len(is), "prefix", s.message, s.block, "the request before went on with %s", s.text) ||
			!j.want(s.text == is[i].text || i == len(was)-1 && grows(s.text, is[i].text), "prefix", is[i].message, is[i].block, "%s\nstands where the request before had\n%s", is[i].text, s.text) {
			break
		}
	}
	return j.found
}

// grows reports whether a text only continues after a blank line: Chat Completions joins
// the texts of a message.
func grows(was, is string) bool {
	const end = `","type":"text"}`
	text, ok := strings.CutSuffix(was, end)
	return ok && strings.HasPrefix(is, text+`\n\n`) && strings.HasSuffix(is, end)
}

// A unit is a part of a conversation that must not change: a block of a message,
// or another member of it.
type unit struct {
	message, block int
	text           string
}

// spoken splits the messages, contents or items of a request into units.
func spoken(body map[string]any) (units []unit) {
	for _, name := range []string{"messages", "contents", "input"} {
		for i, m := range list(body[name]) {
			message := object(m)
			grows := message["content"] != nil || message["parts"] != nil
			for _, name := range slices.Sorted(maps.Keys(message)) {
				if name == "role" || name == "type" && grows {
					continue // the message may grow
				}
				for j, v := range blocks(message[name]) {
					if said := canonical(v); said != "" {
						units = append(units, unit{i, j, text(message["role"]) + " " + name + " " + said})
					}
				}
			}
		}
	}
	return units
}

// blocks returns a list, or a list of a single value: a text becomes a block.
func blocks(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	case string:
		return []any{map[string]any{"type": "text", "text": v}}
	}
	return []any{v}
}

// canonical returns a value as JSON with sorted members and without cache marks:
// "" for a mark alone.
func canonical(v any) string {
	if v = unmarked(v); v == nil {
		return ""
	}
	return string(encode(v))
}

// unmarked returns a value without its cache marks, nil for a mark alone. It leaves
// inputs of calls unchanged, because the model wrote them.
func unmarked(v any) any {
	switch v := v.(type) {
	case string:
		return blocks(v)
	case []any:
		out := make([]any, 0, len(v))
		for _, e := range v {
			if e = unmarked(e); e != nil {
				out = append(out, e)
			}
		}
		return out
	case map[string]any:
		if v["cachePoint"] != nil {
			return nil
		}
		m := maps.Clone(v)
		delete(m, "cache_control")
		if m["type"] == "input_text" { // absent where a text is a plain string
			m["type"] = "text"
		}
		for _, name := range []string{"content", "tools", "toolResult"} {
			if m[name] != nil {
				m[name] = unmarked(m[name])
			}
		}
		return m
	}
	return v
}
