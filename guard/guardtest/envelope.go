package guardtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/transcript"
)

// An envelope is a decoded request with what [transcript.Request] has no place
// for.
type envelope struct {
	request  transcript.Request
	stream   bool
	hasTools bool
	thinking thinking
	marks    int // on the system prompt and on tools
}

// requestMembers are the members a request may have, true for those that it
// may have when it only asks for a count.
var requestMembers = map[string]bool{
	"cache_control": true, "container": false, "context_management": true, "inference_geo": false,
	"max_tokens": false, "mcp_servers": true, "messages": true, "metadata": false, "model": true,
	"output_config": true, "output_format": true, "service_tier": false, "speed": true,
	"stop_sequences": false, "stream": false, "system": true, "temperature": false, "thinking": true,
	"tool_choice": true, "tools": true, "top_k": false, "top_p": false,
}

// decode reads the JSON of a request.
func decode(body []byte, counting bool) (e envelope, no *refusal) {
	if !json.Valid(body) || !utf8.Valid(body) {
		return e, invalid("The request body is not valid JSON")
	}
	if at, text := halfSurrogate(body); at >= 0 {
		return e, invalid("The request body is not valid JSON: %s: line 1 column %d (char %d)", text, at+1, at)
	}
	members, ok := object(body)
	if !ok {
		return e, invalid("Input should be a valid dictionary")
	}
	e.request.Messages = []transcript.Message{}
	for _, step := range []func() *refusal{
		func() *refusal { return field(members, "model", true, "string", &e.request.Model) },
		func() *refusal { return e.maxTokens(members, counting) },
		func() *refusal { return field(members, "stream", false, "boolean", &e.stream) },
		func() *refusal { return e.system(members["system"]) },
		func() *refusal { return e.tools(members) },
		func() *refusal { return e.messages(members) },
		func() *refusal { return e.setThinking(members["thinking"]) },
	} {
		if no := step(); no != nil {
			return e, no
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if whenCounting, known := requestMembers[name]; !known || counting && !whenCounting {
			return e, invalid("%s: Extra inputs are not permitted", name)
		}
	}
	e.mark(members[cacheControl])
	return e, nil
}

// field reads a member of a plain type.
func field[T any](members map[string]json.RawMessage, name string, required bool, kind string, dst *T) *refusal {
	value, ok := members[name]
	switch {
	case !ok && required:
		return invalid("%s: Field required", name)
	case !ok:
		return nil
	case isNull(value) || json.Unmarshal(value, dst) != nil:
		return invalid("%s: Input should be a valid %s", name, kind)
	}
	return nil
}

func (e *envelope) maxTokens(members map[string]json.RawMessage, counting bool) *refusal {
	if counting {
		return nil
	}
	if no := field(members, "max_tokens", true, "integer", &e.request.MaxOutput); no != nil {
		return no
	}
	if e.request.MaxOutput < 1 {
		return invalid("max_tokens: must be greater than or equal to 1")
	}
	return nil
}

// system reads a text or a list of texts.
func (e *envelope) system(value json.RawMessage) *refusal {
	if value == nil || json.Unmarshal(value, &e.request.System) == nil && !isNull(value) {
		return nil
	}
	var list []json.RawMessage
	if isNull(value) || json.Unmarshal(value, &list) != nil {
		return invalid("system: Input should be a valid list")
	}
	var texts []string
	for i, v := range list {
		b, err := transcript.UnmarshalBlock(v)
		t, ok := b.(transcript.TextBlock)
		switch {
		case err != nil || !ok:
			return invalid("system.%d: Input should be a text block", i)
		case strings.TrimSpace(t.Text) == "":
			return invalid("system: text content blocks must be non-empty")
		}
		e.mark(t.Extra[cacheControl])
		texts = append(texts, t.Text)
	}
	e.request.System = strings.Join(texts, "\n")
	return nil
}

// tools reads the definitions. Tools that the provider runs have a type of
// their own and no schema; they are no part of the [transcript.Request].
func (e *envelope) tools(members map[string]json.RawMessage) *refusal {
	var list []json.RawMessage
	if no := field(members, "tools", false, "list", &list); no != nil {
		return no
	}
	e.hasTools = len(list) > 0
	for i, v := range list {
		tool, ok := object(v)
		if !ok {
			return invalid("tools.%d: Input should be a valid dictionary", i)
		}
		e.mark(tool[cacheControl])
		var kind string
		if t := tool["type"]; !isNull(t) && json.Unmarshal(t, &kind) != nil {
			return invalid("tools.%d.type: Input should be a valid string", i)
		}
		if kind != "" && kind != "custom" {
			continue
		}
		var t transcript.Tool
		for _, no := range []*refusal{
			field(tool, "name", true, "string", &t.Name),
			field(tool, "description", false, "string", &t.Description),
			field(tool, "input_schema", true, "dictionary", &t.InputSchema),
		} {
			if no != nil {
				no.text = fmt.Sprintf("tools.%d.custom.%s", i, no.text)
				return no
			}
		}
		e.request.Tools = append(e.request.Tools, t)
	}
	return nil
}

func (e *envelope) messages(members map[string]json.RawMessage) *refusal {
	var list []json.RawMessage
	if no := field(members, "messages", true, "list", &list); no != nil {
		return no
	}
	for i, v := range list {
		message, ok := object(v)
		if !ok {
			return invalid("messages.%d: Input should be a valid dictionary", i)
		}
		for _, name := range []string{"role", "content"} {
			if _, ok := message[name]; !ok {
				return invalid("messages.%d.%s: Field required", i, name)
			}
			delete(message, name)
		}
		for _, name := range slices.Sorted(maps.Keys(message)) {
			return invalid("messages.%d.%s: Extra inputs are not permitted", i, name)
		}
		var m transcript.Message
		if json.Unmarshal(v, &m) != nil {
			return invalid("messages.%d.content: Input should be a valid list", i)
		}
		e.request.Messages = append(e.request.Messages, m)
	}
	return nil
}

// object returns the members of a JSON object.
func object(value json.RawMessage) (map[string]json.RawMessage, bool) {
	var members map[string]json.RawMessage
	err := json.Unmarshal(value, &members)
	return members, err == nil && members != nil
}

func isNull(value json.RawMessage) bool {
	return len(value) == 0 || string(value) == "null"
}
