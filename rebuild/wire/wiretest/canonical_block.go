package wiretest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/transcript"
)

// block checks one block for itself. p.inner says that it is in a tool result.
func (r *referee) block(p place, role transcript.Role, b transcript.Block) {
	if b == nil {
		r.flagAt(p, "block-type", "", "Input should be a valid dictionary")
		return
	}
	if p.inner >= 0 {
		switch b := b.(type) {
		case transcript.TextBlock, transcript.ImageBlock, transcript.DocumentBlock:
		case transcript.RawBlock:
			if b.BlockType() != "search_result" {
				r.unknown(p, b.BlockType(), "'document', 'image', 'search_result', 'text'")
				return
			}
		default:
			r.unknown(p, b.BlockType(), "'document', 'image', 'search_result', 'text'")
			return
		}
	}
	switch b := b.(type) {
	case transcript.TextBlock:
		r.text(p, b)
	case transcript.ImageBlock:
		r.only(p, role, transcript.RoleUser, "image")
		r.source(p, "image", b.Source)
		r.extra(p, "image", b.Extra, "cache_control")
	case transcript.DocumentBlock:
		r.only(p, role, transcript.RoleUser, "document")
		r.source(p, "document", b.Source)
		r.extra(p, "document", b.Extra, "cache_control", "citations", "context", "title")
	case transcript.ToolCallBlock:
		r.only(p, role, transcript.RoleAssistant, "tool_use")
		r.id(p, "tool_use.id", b.ID)
		r.unique(p, b.ID)
		r.name(p, "tool_use.name", b.Name)
		r.input(p, "tool_use.input", b.Input)
		r.extra(p, "tool_use", b.Extra, "cache_control", "caller", "toolset_name")
	case transcript.ToolResultBlock:
		r.only(p, role, transcript.RoleUser, "tool_result")
		r.id(p, "tool_result.tool_use_id", b.CallID)
		for k, c := range b.Content {
			r.block(place{p.message, p.block, k}, role, c)
			if _, text := c.(transcript.TextBlock); b.IsError && !text {
				r.flagAt(p, "error-content", "tool_result", "all content must be type `text` if `is_error` is true")
			}
		}
		r.extra(p, "tool_result", b.Extra, "cache_control", "toolset_name")
	case transcript.ThinkingBlock:
		r.only(p, role, transcript.RoleAssistant, "thinking")
		// Its text may be empty: newer models hide it and sign it all the same.
		if b.Signature == "" {
			r.flagAt(p, "thinking", "thinking.signature", "Field required")
		}
		r.extra(p, "thinking", b.Extra)
	case transcript.RedactedThinkingBlock:
		r.only(p, role, transcript.RoleAssistant, "redacted_thinking")
		if b.Data == "" {
			r.flagAt(p, "thinking", "redacted_thinking.data", "Field required")
		}
		r.extra(p, "redacted_thinking", b.Extra)
	case transcript.RawBlock:
		r.raw(p, role, b)
	default:
		r.unknown(p, b.BlockType(), "'document', 'image', 'redacted_thinking', 'search_result', 'server_tool_use', 'text', 'thinking', 'tool_result', 'tool_use'")
	}
}

func (r *referee) unknown(p place, kind, expected string) {
	r.flagAt(p, "block-type", "", "Input tag '%s' found using 'type' does not match any of the expected tags: %s", kind, expected)
}

func (r *referee) only(p place, role, want transcript.Role, kind string) {
	if role != want && (role == transcript.RoleUser || role == transcript.RoleAssistant) {
		r.flag("block-role", p.message, p.block, "messages.%d: `%s` blocks can only be in `%s` messages", p.message, kind, want)
	}
}

func (r *referee) text(p place, b transcript.TextBlock) {
	if !visible(b.Text) {
		if _, marked := b.Extra["cache_control"]; marked {
			r.flagAt(p, "marks", "text", "cache_control cannot be set for empty text blocks")
		}
		if b.Text == "" {
			r.flag("text", p.message, p.block, "messages: text content blocks must be non-empty")
		} else {
			r.flag("text", p.message, p.block, "messages: text content blocks must contain non-whitespace text")
		}
	}
	r.extra(p, "text", b.Extra, "cache_control", "citations")
}

func (r *referee) id(p place, path, id string) {
	switch {
	case !isWord(id):
		r.flagAt(p, "id-pattern", path, "String should match pattern '^[a-zA-Z0-9_-]+$'")
	case len(id) > maxID:
		r.flagAt(p, "id-length", path, "String should have at most %d characters", maxID)
	}
}

func (r *referee) unique(p place, id string) {
	if r.ids == nil {
		r.ids = make(map[string]struct{}, len(r.req.Messages)/4)
	}
	n := len(r.ids)
	if r.ids[id] = struct{}{}; len(r.ids) == n {
		r.flagAt(p, "id-unique", "", "`tool_use` ids must be unique")
	}
}

func (r *referee) name(p place, path, name string) {
	if !isWord(name) || len(name) > 64 {
		r.flagAt(p, "name", path, "String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
	}
}

func (r *referee) input(p place, path string, input json.RawMessage) {
	if start := bytes.TrimSpace(input); len(start) == 0 || start[0] != '{' || !json.Valid(input) || !utf8.Valid(input) {
		r.flagAt(p, "input", path, "Input should be a valid dictionary")
	}
}

// extra checks the members of a block that have no field of their own.
func (r *referee) extra(p place, kind string, extra transcript.Extra, allowed ...string) {
	if len(extra) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		r.member(p, kind, name, extra[name], allowed)
	}
}

// member checks an optional member by its name.
func (r *referee) member(p place, kind, name string, value json.RawMessage, allowed []string) {
	path := kind + "." + name
	if !slices.Contains(allowed, name) {
		r.flagAt(p, "member", path, "Extra inputs are not permitted")
		return
	}
	if isNull(value) {
		return
	}
	object, isObject := members(value)
	switch name {
	case "cache_control":
		r.marks++
		switch {
		case !isObject:
			r.flagAt(p, "member", path, "Input should be a valid dictionary")
		case jsonText(object["type"]) != "ephemeral":
			r.flagAt(p, "member", path+".type", "Input should be 'ephemeral'")
		}
	case "citations":
		var list []json.RawMessage
		switch {
		case kind == "text" && json.Unmarshal(value, &list) != nil:
			r.flagAt(p, "member", path, "Input should be a valid list")
		case kind != "text" && !isObject:
			r.flagAt(p, "member", path, "Input should be a valid dictionary")
		}
	case "caller":
		if !isObject {
			r.flagAt(p, "member", path, "Input should be a valid dictionary")
		}
	case "toolset_name":
		if jsonText(value) == "" {
			r.flagAt(p, "member", path, "Input should be a valid string")
		}
	case "title", "context": // a string would be in the block's own field
		r.flagAt(p, "member", path, "Input should be a valid string")
	}
}

var (
	imageTypes    = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}
	documentTypes = []string{"application/pdf"}
)

// source checks where an image or a document is.
func (r *referee) source(p place, kind string, s transcript.Source) {
	path := kind + ".source"
	at := path + "." + s.Type
	document := kind == "document"
	rest := map[string]bool{"media_type": s.MediaType != "", "data": s.Data != "", "url": s.URL != "", "file_id": s.FileID != ""}
	for name := range s.Extra {
		rest[name] = true
	}
	use := func(names ...string) {
		for _, n := range names {
			delete(rest, n)
		}
	}
	switch {
	case s.Type == "base64":
		use("media_type", "data")
		if !document && !slices.Contains(imageTypes, s.MediaType) {
			r.flagAt(p, "source", at+".media_type", "Input should be 'image/jpeg', 'image/png', 'image/gif' or 'image/webp'")
		}
		if document && !slices.Contains(documentTypes, s.MediaType) {
			r.flagAt(p, "source", at+".media_type", "Input should be 'application/pdf'")
		}
		if s.Data == "" {
			r.flagAt(p, "source", at+".data", "%s cannot be empty", kind)
		} else if !isPadded(s.Data) {
			r.flagAt(p, "source", at, "invalid base64 data")
		}
	case s.Type == "url":
		use("url")
		if len(s.URL) <= len("https://") || !strings.EqualFold(s.URL[:len("https://")], "https://") {
			r.flagAt(p, "source", at+".url", "Only HTTPS URLs are supported.")
		}
	case s.Type == "file":
		use("file_id")
		if s.FileID == "" {
			r.flagAt(p, "source", at+".file_id", "Field required")
		}
	case s.Type == "text" && document:
		use("media_type", "data")
		if s.MediaType != "text/plain" {
			r.flagAt(p, "source", at+".media_type", "Input should be 'text/plain'")
		}
		if s.Data == "" {
			r.flagAt(p, "source", at+".data", "document cannot be empty")
		}
	case s.Type == "content" && document:
		use("content")
		if !isContent(s.Extra["content"]) {
			r.flagAt(p, "source", at+".content", "Input should be a valid string or list")
		}
	default:
		r.flagAt(p, "source", path, "Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'file', 'url'", s.Type)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		if rest[name] {
			r.flagAt(p, "member", at+"."+name, "Extra inputs are not permitted")
		}
	}
}

// isContent reports whether value is a text or a list of texts and images.
func isContent(value json.RawMessage) bool {
	var s string
	if json.Unmarshal(value, &s) == nil && !isNull(value) {
		return visible(s)
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) == 0 {
		return false
	}
	for _, e := range list {
		m, _ := members(e)
		if kind := jsonText(m["type"]); kind != "image" && (kind != "text" || !visible(jsonText(m["text"]))) {
			return false
		}
	}
	return true
}

// isPadded reports whether s is padded base64.
func isPadded(s string) bool { return len(s)%4 == 0 && isBytes(s) }
