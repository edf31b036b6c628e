package wiretest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
)

// A blockKind holds the rules for a type of block.
type blockKind struct {
	role  transcript.Role // of the messages that may hold them; empty: of all
	may   string          // optional members without fields in transcript
	needs []need          // of a raw block
	raw   bool            // package transcript has no type for them
}

// A need is a required member of a raw block, and its type.
type need struct {
	name string
	is   func(json.RawMessage) bool
}

const (
	ofUser      = transcript.RoleUser
	ofAssistant = transcript.RoleAssistant
)

// blockKinds are the types of blocks that a request may have.
var blockKinds = map[string]blockKind{
	"text":              {may: "cache_control citations"},
	"image":             {role: ofUser, may: "cache_control"},
	"document":          {role: ofUser, may: "cache_control citations context title"},
	"tool_use":          {role: ofAssistant, may: "cache_control caller toolset_name"},
	"tool_result":       {role: ofUser, may: "cache_control toolset_name"},
	"thinking":          {role: ofAssistant},
	"redacted_thinking": {role: ofAssistant},

	"search_result": {
		raw: true, role: ofUser, may: "cache_control citations",
		needs: []need{{"source", isText}, {"title", isText}, {"content", func(v json.RawMessage) bool { return isList(v, "text") }}},
	},
	// Only in results, and only of a tool that the request defines
	// (platform.claude.com/docs: tool-search-tool).
	"tool_reference":   {raw: true, role: ofUser, may: "cache_control", needs: []need{{"tool_name", isText}}},
	"container_upload": {raw: true, may: "cache_control", needs: []need{{"file_id", isText}}},
	"fallback":         {raw: true, role: ofAssistant, may: "trigger from", needs: []need{{"to", isGiven}}},
	"compaction": {
		raw: true, role: ofAssistant, may: "cache_control signature encrypted_content tool_changes",
		needs: []need{{"content", func(v json.RawMessage) bool { return v != nil }}},
	},

	// Of tools that the provider runs itself.
	"server_tool_use": {raw: true, role: ofAssistant, may: "cache_control caller"},
	"mcp_tool_use":    {raw: true, role: ofAssistant, may: "cache_control caller", needs: []need{{"server_name", isText}}},
	"mcp_tool_result": {raw: true, role: ofAssistant, may: "cache_control caller is_error", needs: serverResult.needs},

	"web_search_tool_result": serverResult, "web_fetch_tool_result": serverResult, "code_execution_tool_result": serverResult,
	"bash_code_execution_tool_result": serverResult, "text_editor_code_execution_tool_result": serverResult,
	"tool_search_tool_result": serverResult, "advisor_tool_result": serverResult,
}

var serverResult = blockKind{raw: true, role: ofAssistant, may: "cache_control caller", needs: []need{{"tool_use_id", isText}, {"content", isGiven}}}

// The blocks of tools that the provider runs itself. A transcript holds them
// as raw blocks.
func serverCall(kind string) bool { return kind == "server_tool_use" || kind == "mcp_tool_use" }

// block checks one block for itself. p.inner is set inside a tool result.
func (r *referee) block(p place, role transcript.Role, b transcript.Block) {
	raw, isRaw := b.(transcript.RawBlock)
	var rest map[string]json.RawMessage // the members that are not checked yet
	ok := b != nil
	if isRaw {
		rest, ok = members(raw.JSON)
	}
	if !r.wantAt(ok, p, "block-type", "", "Input should be a valid dictionary") {
		return
	}
	kind := transcript.BlockType(b)
	k, known := blockKinds[kind]
	const unknown = "Input tag '%s' found using 'type' does not match any of the expected tags: %s"
	inResult := kind == "tool_reference"
	switch {
	case p.inner >= 0 && (k.role == ofAssistant || isRaw != (kind == "search_result" || inResult) || !known || kind == "tool_result"), p.inner < 0 && inResult:
		r.wantAt(false, p, "block-type", "", unknown, kind, "'document', 'image', 'search_result', 'text', 'tool_reference'")
		return
	case !known: // an answer may contain new types of blocks
		r.wantAt(role == ofAssistant && kind != "" && kind != "context", p, "block-type", "", unknown, kind,
			"'document', 'image', 'redacted_thinking', 'search_result', 'server_tool_use', 'text', 'thinking', 'tool_result', 'tool_use'")
		return
	case isRaw != k.raw: // it lacks the members of its type
		r.wantAt(false, p, "block-type", kind, "Field required")
		return
	}
	if k.role != "" && role != k.role && (role == ofUser || role == ofAssistant) {
		r.flag("block-role", p.message, p.block, "messages.%d: `%s` blocks can only be in `%s` messages", p.message, kind, k.role)
	}
	switch b := b.(type) {
	case transcript.TextBlock:
		r.text(p, b)
		rest = b.Extra
	case transcript.ImageBlock:
		r.source(p, kind, b.Source)
		rest = b.Extra
	case transcript.DocumentBlock:
		r.source(p, kind, b.Source)
		rest = b.Extra
	case transcript.ToolCallBlock:
		r.id(p, "tool_use.id", b.ID)
		r.call(p, kind, b.ID, b.Name, b.Input)
		rest = b.Extra
	case transcript.ToolResultBlock:
		r.id(p, "tool_result.tool_use_id", b.CallID)
		for k, c := range b.Content {
			r.block(place{p.message, p.block, k}, role, c)
			_, text := c.(transcript.TextBlock)
			r.wantAt(text || !b.IsError, p, "error-content", "tool_result", "all content must be type `text` if `is_error` is true")
		}
		rest = b.Extra
	case transcript.ThinkingBlock:
		// Its text may be empty: newer models hide it but still sign it.
		r.wantAt(b.Signature != "" || imitators.Get().MatchString(r.req.Model), p, "thinking", "thinking.signature", "Field required")
		rest = b.Extra
	case transcript.RedactedThinkingBlock:
		r.wantAt(b.Data != "", p, "thinking", "redacted_thinking.data", "Field required")
		rest = b.Extra
	case transcript.RawBlock:
		name := jsonText(rest["tool_name"])
		r.want(!inResult || r.defined[name], "tools", p.message, p.block, "Tool reference '%s' has no corresponding tool definition", name)
		delete(rest, "type")
		for _, n := range k.needs {
			r.wantAt(n.is(rest[n.name]), p, "block-type", kind+"."+n.name, "Field required")
			delete(rest, n.name)
		}
		if serverCall(kind) {
			r.serverCall(p, kind, rest)
		}
	}
	if len(rest) == 0 { // usual, and sorting costs time
		return
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		r.member(p, kind, name, rest[name], k.may)
	}
}

func (r *referee) text(p place, b transcript.TextBlock) {
	if visible(b.Text) {
		return
	}
	_, marked := b.Extra[cacheControl]
	r.wantAt(!marked, p, "marks", "text", "cache_control cannot be set for empty text blocks")
	if r.want(b.Text != "", "text", p.message, p.block, "messages: text content blocks must be non-empty") {
		r.flag("text", p.message, p.block, "messages: text content blocks must contain non-whitespace text")
	}
}

func (r *referee) id(p place, path, id string) {
	_ = r.wantAt(isWord(id), p, "id-pattern", path, wordPattern) &&
		r.wantAt(len(id) <= maxName, p, "id-length", path, "String should have at most %d characters", maxName)
}

// call checks a call, also a provider's own.
func (r *referee) call(p place, kind, id, name string, input json.RawMessage) {
	r.wantAt(!r.ids[id], p, "id-unique", "", "`tool_use` ids must be unique")
	r.ids[id] = true
	r.wantAt(isName(name), p, "name", kind+".name", namePattern)
	ok := isJSON(input) && bytes.HasPrefix(bytes.TrimSpace(input), []byte("{"))
	r.wantAt(ok, p, "input", kind+".input", "Input should be a valid dictionary")
}

// serverCall checks a call that the provider runs, and removes the checked
// members from it.
func (r *referee) serverCall(p place, kind string, m map[string]json.RawMessage) {
	prefix := "srvtoolu_"
	if kind == "mcp_tool_use" {
		prefix = "mcptoolu_"
	}
	id := jsonText(m["id"])
	rest, ok := strings.CutPrefix(id, prefix)
	r.wantAt(ok && isWord(rest), p, "server-tool", kind+".id", "String should match pattern '^%s[a-zA-Z0-9_]+$'", prefix)
	r.call(p, kind, id, jsonText(m["name"]), m["input"])
	for _, name := range []string{"id", "name", "input"} {
		delete(m, name)
	}
}

// member checks an optional member by its name.
func (r *referee) member(p place, kind, name string, value json.RawMessage, may string) {
	path := kind + "." + name
	if !r.wantAt(slices.Contains(strings.Fields(may), name), p, "member", path, "Extra inputs are not permitted") || !isGiven(value) {
		return
	}
	object, ok := members(value)
	want := "Input should be a valid dictionary"
	switch name {
	case cacheControl:
		if r.marks++; ok {
			path, want, ok = path+".type", "Input should be 'ephemeral'", jsonText(object["type"]) == "ephemeral"
		}
	case "citations":
		if kind == "text" {
			var list []json.RawMessage
			want, ok = "Input should be a valid list", json.Unmarshal(value, &list) == nil
		}
	case "toolset_name":
		want, ok = "Input should be a valid string", isText(value)
	case "title", "context": // only other values than strings are in Extra
		want, ok = "Input should be a valid string", false
	case "caller":
	default:
		return
	}
	r.wantAt(ok, p, "member", path, "%s", want)
}

// mediaTypes are the media types of bytes by kinds of block and source, as a
// refusal lists them.
var mediaTypes = map[string]string{
	"image.base64":    "'image/jpeg', 'image/png', 'image/gif' or 'image/webp'",
	"document.base64": "'application/pdf'",
	"document.text":   "'text/plain'",
}

func (r *referee) source(p place, kind string, s transcript.Source) {
	path := kind + ".source"
	at := path + "." + s.Type
	types := mediaTypes[kind+"."+s.Type]
	rest := map[string]bool{"media_type": s.MediaType != "", "data": s.Data != "", "url": s.URL != "", "file_id": s.FileID != ""}
	for name := range s.Extra {
		rest[name] = true
	}
	used := []string{"media_type", "data"}
	switch {
	case types != "":
		r.wantAt(strings.Contains(types, "'"+s.MediaType+"'") && strings.Contains(s.MediaType, "/"), p, "source", at+".media_type", "Input should be %s", types)
		if r.wantAt(s.Data != "", p, "source", at+".data", "%s cannot be empty", kind) && s.Type == "base64" {
			_ = r.wantAt(isPadded(s.Data), p, "source", at, "invalid base64 data") && r.wantAt(begins(s.MediaType, s.Data), p, "source", at+".data", "Could not process %s", kind)
		}
	case r.inPath && (s.Type == "url" || s.Type == "file"): // see anthropics/anthropic-sdk-typescript#1038
		r.wantAt(false, p, "source", "image.source.base64.data", "URL sources are not supported")
		return
	case s.Type == "url":
		used = []string{"url"}
		r.wantAt(isHTTPS(s.URL) && len(s.URL) > len("https://"), p, "source", at+".url", "Only HTTPS URLs are supported.")
	case s.Type == "file":
		used = []string{"file_id"}
		r.wantAt(s.FileID != "", p, "source", at+".file_id", "Field required")
	case s.Type == "content" && kind == "document":
		used = []string{"content"}
		r.wantAt(visible(jsonText(s.Extra["content"])) || isList(s.Extra["content"], "text", "image"), p, "source", at+".content", "Input should be a valid string or list")
	default:
		r.wantAt(false, p, "source", path, "Input tag '%s' found using 'type' does not match any of the expected tags: 'base64', 'file', 'url'", s.Type)
		return
	}
	for _, name := range unknown(rest, used...) {
		r.wantAt(!rest[name], p, "member", at+"."+name, "Extra inputs are not permitted")
	}
}

func isText(value json.RawMessage) bool { return jsonText(value) != "" }

// isList reports whether value is a list of blocks of these types without blank texts.
func isList(value json.RawMessage, types ...string) bool {
	var list []json.RawMessage
	return json.Unmarshal(value, &list) == nil && len(list) > 0 && !slices.ContainsFunc(list, func(v json.RawMessage) bool {
		m, _ := members(v)
		kind := jsonText(m["type"])
		return !slices.Contains(types, kind) || kind == "text" && !visible(jsonText(m["text"]))
	})
}

func isPadded(s string) bool { return len(s)%4 == 0 && isBytes(s) }
