package guard

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxBody bounds the JSON that is looked for in a text, in bytes.
	maxBody = 1 << 20

	// maxBodies bounds the attempts to read JSON, for one error.
	maxBodies = 24

	// maxNodes bounds the values that are read of one body.
	maxNodes = 256
)

// addText notes a text of an error. The JSON in it is taken out and read
// separately, so that only the parts made for messages are matched: a body may
// quote the request. A text at level n stands in n JSON strings.
func (ev *evidence) addText(s string, level int) {
	if level > maxDepth || strings.TrimSpace(s) == "" {
		return
	}
	rest := ev.takeBodies(s, level)
	if len(rest) > 2*maxText {
		rest = rest[:maxText] + "\n" + rest[len(rest)-maxText:]
	}
	rest = strings.ToValidUTF8(rest, "")
	rest = find("noise").ReplaceAllString(rest, "")
	rest = strings.Join(strings.Fields(rest), " ")
	if strings.Trim(rest, `{}[]"':, `) == "" {
		return
	}
	// A wrapper's text mostly holds what it wraps.
	ev.texts = slices.DeleteFunc(ev.texts, func(had string) bool { return strings.Contains(rest, had) })
	total := len(rest)
	for _, had := range ev.texts {
		if strings.Contains(had, rest) {
			return
		}
		total += len(had)
	}
	if total <= maxTexts {
		ev.texts = append(ev.texts, rest)
	}
}

// takeBodies reads the JSON objects in s and returns s without them.
func (ev *evidence) takeBodies(s string, level int) string {
	if len(s) > maxBody {
		return s
	}
	var rest strings.Builder
	for s != "" {
		i := strings.IndexAny(s, `{["`)
		if i < 0 || ev.bodies >= maxBodies {
			break
		}
		body := strings.TrimLeft(s[i+1:], " \t\r\n")
		object := s[i] == '{' && strings.HasPrefix(body, `"`)
		array := s[i] == '[' && strings.HasPrefix(body, "{")
		quoted := s[i] == '"' && (strings.HasPrefix(body, `{\`) || strings.HasPrefix(body, `{\n`))
		if object || array || quoted {
			ev.bodies++
			dec := json.NewDecoder(strings.NewReader(s[i:]))
			dec.UseNumber()
			var v any
			if dec.Decode(&v) == nil {
				rest.WriteString(s[:i] + " ")
				s = s[i+int(dec.InputOffset()):]
				if text, ok := v.(string); ok {
					ev.addText(text, level+1)
				} else {
					nodes := 0
					ev.addBody("error", v, level, &nodes)
				}
				continue
			}
		}
		rest.WriteString(s[:i+1])
		s = s[i+1:]
	}
	rest.WriteString(s)
	return rest.String()
}

// addBody notes what the field called name of a body says. Fields that are not
// known to hold a part of an error are passed over.
func (ev *evidence) addBody(name string, v any, level int, nodes *int) {
	*nodes++
	if *nodes > maxNodes {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			ev.addBody(name, e, level, nodes)
		}
	case map[string]any:
		switch name {
		case "error", "errors", "err", "detail", "details", "innererror", "inner_error", "base_resp",
			"data", "response", "metadata", "cause", "body", "header", "incomplete_details":
		default:
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			ev.addBody(strings.ToLower(key), v[key], level, nodes)
		}
	case string:
		switch name {
		case "message", "msg", "error", "errors", "err", "detail", "details", "error_description", "description",
			"status_msg", "error_msg", "errmsg", "err_msg", "errormessage", "error_message", "raw", "body", "title", "cause":
			ev.addText(v, level+1)
		case "code", "type", "status", "error_code", "errorcode", "err_code", "__type", "error_type", "reason",
			"stop_reason", "finish_reason":
			ev.addCode(v)
		}
	case json.Number:
		n, err := strconv.ParseFloat(v.String(), 64)
		if err != nil || n < 0 || n > maxSize {
			return
		}
		switch name {
		case "status", "code", "status_code", "statuscode", "error_code", "errorcode", "err_code":
			ev.addCode(v.String())
		case "n_prompt_tokens":
			settle(&ev.sizes.prompt, int(n))
		case "n_ctx":
			ev.sizes.settleLimit(int(n))
		}
	}
}

// statusOfTexts reads an HTTP status from the texts, if nothing else has one.
func (ev *evidence) statusOfTexts() {
	for _, t := range ev.texts {
		if ev.status != 0 {
			return
		}
		for i, m := range find("status").FindStringSubmatch(t) {
			if n, err := strconv.Atoi(m); i > 0 && err == nil {
				ev.addStatus(n)
			}
		}
	}
}
