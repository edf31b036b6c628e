package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// PathIn returns the path of a string in a body that contains held, or "". If dots is set,
// indexes are written with dots, and otherwise with brackets.
func PathIn(body []byte, held string, dots bool) string {
	var doc any
	_ = json.Unmarshal(body, &doc) // a renderer wrote valid JSON
	var find func(v any, path string) string
	find = func(v any, path string) string {
		switch v := v.(type) {
		case string:
			if strings.Contains(v, held) {
				return path
			}
		case []any:
			for i, e := range v {
				step := fmt.Sprintf("[%d]", i)
				if dots {
					step = fmt.Sprint(".", i)
				}
				if found := find(e, path+step); found != "" {
					return found
				}
			}
		case map[string]any:
			for name, e := range v {
				if found := find(e, strings.TrimPrefix(path+"."+name, ".")); found != "" {
					return found
				}
			}
		}
		return ""
	}
	if held == "" {
		return ""
	}
	return find(doc, "")
}
