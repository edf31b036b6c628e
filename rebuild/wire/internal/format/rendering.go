// Package format holds the code that the formats of all APIs share: it renders
// requests and puts answers together.
package format

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/internal/quote"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// The names of the APIs in [transcript.Response] and [transcript.Origin].
const (
	APIAnthropic       = "anthropic"
	APIBedrock         = "bedrock"
	APIGemini          = "gemini"
	APIOpenAIChat      = "openai-chat"
	APIOpenAIResponses = "openai-responses"
)

// The types of blocks for content that fits no other: a part of Gemini,
// {"type":"gemini_part","part":{...}}, and a content block of Converse,
// {"type":"bedrock_block","block":{...}}.
const (
	OpaqueGemini  = "gemini_part"
	OpaqueBedrock = "bedrock_block"
)

// A Rendering is the part of rendering a request that all providers share.
type Rendering struct {
	Req transcript.Request
	API string // that gets the request
	IDs idMap
	// With Prefill the model continues an answer at the end.
	Prefill bool
	report  rebuild.Report
}

// NewRendering returns the rendering of a request to an API.
func NewRendering(req transcript.Request, api string, form IDForm) Rendering {
	if neutral.IsBlank(req.System) {
		req.System = ""
	}
	return Rendering{Req: req, API: api, IDs: idMap{form, map[string]bool{}, map[string]int{}, map[string][]string{}}}
}

// Note adds to the report.
func (r *Rendering) Note(rule rebuild.Rule, entry, detail string) {
	r.report = append(r.report, rebuild.Repair{Rule: rule, Entry: entry, Detail: detail})
}

// Native reports whether the model that the request goes to made a block.
func (r *Rendering) Native(o transcript.Origin) bool {
	return o == Vouched || o.API == r.API && SameModel(o.Model, r.Req.Model)
}

// Kin reports whether a block is native, or another model of the provider made it in the
// same API. Such models take each other's blocks of tools that the provider ran.
func (r *Rendering) Kin(o transcript.Origin) bool {
	both := func(name string) bool { return strings.Contains(o.Model, name) && strings.Contains(r.Req.Model, name) }
	return r.Native(o) || o.API == r.API && (both("claude") || both("gpt") || both("gemini"))
}

// Ext returns the members that an answer of this API left with a block, or nil
// if the request goes to another model.
func (r *Rendering) Ext(o transcript.Origin, extra transcript.Extra) json.RawMessage {
	if !r.Native(o) {
		return nil
	}
	return ExtObject(extra)
}

// ExtObject returns the member ext if it is an object, else nil.
func ExtObject(extra transcript.Extra) json.RawMessage {
	if ext := extra["ext"]; jsontext.IsObject(ext) && jsontext.Valid(ext) {
		return ext
	}
	return nil
}

// WithExt returns extra with members for only one API.
func WithExt(members ...any) transcript.Extra {
	ext := js.Object(members...).Bytes()
	if string(ext) == "{}" {
		return nil
	}
	return transcript.Extra{"ext": ext}
}

// WithMember returns extra with one more member.
func WithMember(extra transcript.Extra, name string, value json.RawMessage) transcript.Extra {
	if extra == nil {
		extra = transcript.Extra{}
	}
	extra[name] = slices.Clone(value)
	return extra
}

// CallID returns the ID for the next call of the answer.
func (r *Rendering) CallID(entry, id string) string {
	given := r.IDs.call(id)
	if given != id {
		r.Note("rewritten-id", entry, id+" became "+given)
	}
	return given
}

// DropExtra reports the members of a block that the target does not take. The
// member ext is meant for one API alone, so leaving it out needs no report.
func (r *Rendering) DropExtra(entry, kind string, extra transcript.Extra) {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if name != "ext" {
			r.Note("dropped-member", entry, name+" of a "+kind+" block")
		}
	}
}

// Vouched is the origin of a block of a message without Origins.
var Vouched = transcript.Origin{API: APIAnthropic, Model: "\x00vouched"}

// OriginOf returns the origin of block j of a message.
func OriginOf(m transcript.Message, j int) transcript.Origin {
	switch {
	case m.Origins == nil:
		return Vouched
	case j < len(m.Origins):
		return m.Origins[j]
	}
	return transcript.Origin{}
}

// SameModel reports whether a and b name one model: the same name, or an alias
// and the dated name in its answers.
func SameModel(a, b string) bool {
	if a == b {
		return true
	}
	baseA, dateA := CutDate(a)
	baseB, dateB := CutDate(b)
	return baseA == baseB && (dateA == "" || dateB == "")
}

// CutDate splits "name-20260131", "name@20260131" and "name-2026-01-31";
// "name-latest" is an alias without a date.
func CutDate(model string) (name, date string) {
	if name, ok := strings.CutSuffix(model, "-latest"); ok {
		return name, ""
	}
	for _, form := range []string{"-2006-01-02", "-20060102", "@20060102"} {
		at := len(model) - len(form)
		if at <= 0 {
			continue
		}
		if _, err := time.Parse(form, model[at:]); err == nil {
			return model[:at], model[at+1:]
		}
	}
	return model, ""
}

// IsType reports whether b is of type B.
func IsType[B transcript.Block](b transcript.Block) bool {
	_, ok := b.(B)
	return ok
}

// A mediaForm renders images and documents.
type mediaForm interface {
	// Source returns the rendered image, or a problem.
	Source(s transcript.Source, kind string) (clean transcript.Source, problem string)
	Document(entry string, b transcript.DocumentBlock) []transcript.Block
}

// TakesNone is the problem with media for a model without media.
const TakesNone = "the model takes none"

// TakesNo reports whether the model takes no media of b's kind.
func (r *Rendering) TakesNo(b transcript.Block) bool {
	return !r.Req.Takes.Has(transcript.Form(transcript.BlockType(b) + "s"))
}

// Parts returns the rendering of b in a user message or a result.
func (r *Rendering) Parts(m mediaForm, entry string, b transcript.Block) []transcript.Block {
	if transcript.IsMedia(b) && r.TakesNo(b) {
		return PlainText(r.LeftOut(entry, transcript.BlockType(b), TakesNone))
	}
	switch b := b.(type) {
	case transcript.TextBlock:
		r.DropExtra(entry, "text", b.Extra)
		if neutral.IsBlank(b.Text) && (r.API == APIGemini || r.API == APIBedrock) {
			r.Note("blank-text", entry, "")
			return nil
		}
		return PlainText(b.Text)
	case transcript.ImageBlock:
		r.DropExtra(entry, "image", b.Extra)
		clean, problem := m.Source(b.Source, "image")
		if problem != "" {
			return PlainText(r.LeftOut(entry, "image", problem))
		}
		return []transcript.Block{transcript.ImageBlock{Source: clean}}
	case transcript.DocumentBlock:
		r.DropExtra(entry, "document", b.Extra)
		return m.Document(entry, b)
	case transcript.RawBlock:
		audio := js.Get(b.JSON, "input_audio")
		if data, kind := js.String(audio, "data"), js.String(audio, "format"); transcript.BlockType(b) == "input_audio" && jsontext.Valid(b.JSON) && data != "" && kind != "" {
			return m.Document(entry, transcript.DocumentBlock{Source: transcript.Source{Type: "base64", MediaType: "audio/" + kind, Data: data}})
		}
	}
	return PlainText(r.Plain(entry, b))
}

// Instead returns the text that replaces a block of a provider's tool that an answer
// cannot have. For any other block ok is false: it is left out.
func (r *Rendering) Instead(entry string, b transcript.Block) (text transcript.TextBlock, ok bool) {
	kind := BlockType(b)
	if raw, isRaw := b.(transcript.RawBlock); isRaw && kind != "search_result" {
		text.Text = spokenText(raw)
	}
	rule := rebuild.Rule("dropped-block")
	switch {
	case text.Text != "":
		rule = "replaced-block"
	case kind == "redacted_thinking", kind == "thinking":
		rule = "dropped-thinking"
	}
	r.Note(rule, entry, kind+" in an answer")
	return text, text.Text != ""
}

// ToolMembers returns the members that define a tool, its schema under a name. A
// tool without a schema gets the default, if that is not empty. Of the rare
// members it returns only the ones in takes.
func ToolMembers(t transcript.Tool, name, none string, takes ...string) []any {
	schema := t.InputSchema
	if jsontext.IsNull(schema) {
		schema = json.RawMessage(none)
	}
	members := []any{"name", t.Name, "description", js.Opt(t.Description), name, schema}
	callers, _ := json.Marshal(t.AllowedCallers) // never fails
	all := map[string]json.RawMessage{
		"strict": js.When(t.Strict, "true"), "defer_loading": js.When(t.DeferLoading, "true"), "input_examples": t.InputExamples,
		"allowed_callers": js.When(len(t.AllowedCallers) > 0, string(callers)), "cache_control": t.CacheControl,
	}
	for _, name := range takes {
		members = append(members, name, all[name])
	}
	return members
}

// InputObject returns the input of a call. It does not repair input that is not an
// object.
func InputObject(b transcript.ToolCallBlock) json.RawMessage {
	if len(b.Input) == 0 {
		return json.RawMessage("{}")
	}
	return b.Input
}

// HasCalls reports whether an answer calls tools.
func HasCalls(content []transcript.Block) bool {
	return slices.ContainsFunc(content, IsType[transcript.ToolCallBlock])
}

// PlainText returns a text as the only block.
func PlainText(text string) []transcript.Block {
	return []transcript.Block{transcript.TextBlock{Text: text}}
}

// Plain returns the text that replaces a context reference, a search result or
// a block that the target does not take.
func (r *Rendering) Plain(entry string, b transcript.Block) string {
	switch b := b.(type) {
	case transcript.ContextBlock:
		r.Note("replaced-block", entry, "a context block")
		return neutral.ContextText(b).Text
	case transcript.RawBlock:
		if text := spokenText(b); text != "" {
			r.Note("replaced-block", entry, transcript.BlockType(b))
			return text
		}
	}
	return r.LeftOut(entry, BlockType(b), "")
}

// LeftOut returns the text that replaces a block that the target does not take.
func (r *Rendering) LeftOut(entry, kind, why string) string {
	text, detail := "["+printable(kind)+" left out", kind
	if why != "" {
		text, detail = text+": "+why, detail+": "+why
	}
	r.Note("replaced-block", entry, detail)
	return text + "]"
}

// printable keeps the type of a block short and on one line.
func printable(kind string) string {
	if kind == "" || len(kind) > 64 || strings.ContainsFunc(kind, func(c rune) bool { return c < ' ' }) {
		return "block"
	}
	return kind
}

// BlockType is [transcript.BlockType] for a block that may be nil.
func BlockType(b transcript.Block) string {
	if b == nil {
		return "block"
	}
	return transcript.BlockType(b)
}

// AboutDocument returns the title and the context of a document as a text.
func AboutDocument(b transcript.DocumentBlock) string {
	about := []string{b.Title, b.Context}
	if !neutral.IsBlank(b.Title) {
		about[0] = quote.Rest("[document " + b.Title + "]")
	}
	if !neutral.IsBlank(b.Context) {
		about[1] = quote.Lines(b.Context)
	}
	return strings.Join(slices.DeleteFunc(about, neutral.IsBlank), "\n")
}

// IsSearchResult reports whether obj is a search result that a user or a tool
// gives: a source, a title and texts.
func IsSearchResult(obj []byte) bool {
	if !jsontext.Valid(obj) || js.String(obj, "type") != "search_result" ||
		js.String(obj, "source") == "" || js.String(obj, "title") == "" {
		return false
	}
	content := js.Elements(js.Get(obj, "content"))
	return len(content) > 0 && !slices.ContainsFunc(content, func(e json.RawMessage) bool {
		return js.String(e, "type") != "text" || neutral.IsBlank(js.String(e, "text"))
	})
}

// spoken are the opaque blocks, or their members if Gemini's or Bedrock's, that become a
// text for other models: blocks of tools that a provider ran, and of searches.
var spoken = strings.Fields(`server_tool_use mcp_tool_use web_search_tool_result web_fetch_tool_result code_execution_tool_result
	bash_code_execution_tool_result text_editor_code_execution_tool_result tool_search_tool_result advisor_tool_result mcp_tool_result
	web_search_call file_search_call code_interpreter_call mcp_call executableCode codeExecutionResult toolUse toolResult
	search_result tool_reference`)

// unspoken are members that mean nothing to another model.
var unspoken = strings.Fields(`type id tool_use_id toolUseId container_id file_id encrypted_content encrypted_index encrypted_stdout
	signature status cache_control caller ext`)

// IsSpoken reports whether a block is in spoken.
func IsSpoken(b transcript.RawBlock) bool { return slices.Contains(spoken, transcript.BlockType(b)) }

// spokenText returns such a block as its type and a line for each of its values, or "".
func spokenText(b transcript.RawBlock) string {
	kind, whole := transcript.BlockType(b), []byte(b.JSON)
	for _, opaque := range []string{"part", "block"} {
		for name, value := range jsontext.Members(js.Get(whole, opaque)) {
			if slices.Contains(spoken, name) {
				kind, whole = name, value
			}
		}
	}
	if !slices.Contains(spoken, kind) || !jsontext.Valid(b.JSON) {
		return ""
	}
	lines := []string{"[" + kind + "]"}
	var add func(name string, value []byte)
	add = func(name string, value []byte) {
		value = jsontext.Trim(value)
		text, isText := jsontext.String(value)
		switch {
		case slices.Contains(unspoken, name), jsontext.IsNull(value), isText && (neutral.IsBlank(text) || len(text) > 256 && IsBase64(text)):
		case jsontext.IsObject(value):
			for name, v := range jsontext.Members(value) {
				add(name, v)
			}
		case jsontext.IsArray(value):
			for v := range jsontext.Elements(value) {
				add(name, v)
			}
		case isText:
			lines = append(lines, quote.Rest(name+": "+text))
		default:
			lines = append(lines, name+": "+string(value))
		}
	}
	if add("", whole); len(lines) == 1 {
		return ""
	}
	return strings.Join(lines, "\n")
}
