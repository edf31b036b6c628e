package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// What [transcript.Response] and [transcript.Origin] call the APIs of OpenAI.
const (
	apiOpenAIChat      = "openai-chat"
	apiOpenAIResponses = "openai-responses"
)

// MovedMedia is the repair of an image or a document that was moved out of a
// tool result, behind the results, as the target takes texts in results only.
const MovedMedia rebuild.Rule = "moved-media"

// An openAI is what rendering for both APIs of OpenAI has in common.
type openAI struct {
	req    transcript.Request
	api    string
	ids    idMap
	report rebuild.Report
}

func (r *openAI) note(rule rebuild.Rule, entry, detail string) {
	r.report = append(r.report, rebuild.Repair{Rule: rule, Entry: entry, Detail: detail})
}

// native reports whether the model that the request goes to made a block.
func (r *openAI) native(o transcript.Origin) bool {
	return o == vouched || o.API == r.api && sameModel(o.Model, r.req.Model)
}

// callID returns the ID for the next call of the answer.
func (r *openAI) callID(entry, id string) string {
	given := r.ids.call(id)
	if given != id {
		r.note(rebuild.RewrittenID, entry, id+" became "+given)
	}
	return given
}

// dropMembers reports the members of a block that no part can have.
func (r *openAI) dropMembers(entry, kind string, extra transcript.Extra) {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if name != "ext" {
			r.note(rebuild.DroppedMember, entry, name+" of a "+kind+" block")
		}
	}
}

// ext returns the members that an answer of this API left with a block, nil if
// they are not for the model that the request goes to.
func (r *openAI) ext(o transcript.Origin, extra transcript.Extra) json.RawMessage {
	if ext := extra["ext"]; r.native(o) && jsontext.IsObject(ext) && jsontext.Valid(ext) {
		return ext
	}
	return nil
}

// An openAIPart is an element of the content of a message.
type openAIPart struct {
	kind openAIPartKind
	text string // of openAIText
	// Of the others one of these:
	url    string // data URLs too
	fileID string
	name   string // of a file whose bytes are in url
}

type openAIPartKind int

const (
	openAIText openAIPartKind = iota
	openAIImage
	openAIFile
)

// parts returns what a user message or a result has in the place of b. takes
// says whether the API takes an image or a document from that place; if it is
// empty it does.
func (r *openAI) parts(entry string, b transcript.Block, takes func(openAIPart) string) []openAIPart {
	switch b := b.(type) {
	case transcript.TextBlock:
		r.dropMembers(entry, "text", b.Extra)
		return []openAIPart{{text: b.Text}}
	case transcript.ImageBlock:
		r.dropMembers(entry, "image", b.Extra)
		return []openAIPart{r.media(entry, openAIImage, b.Source, takes)}
	case transcript.DocumentBlock:
		r.dropMembers(entry, "document", b.Extra)
		return r.document(entry, b, takes)
	case transcript.ContextBlock:
		r.note(rebuild.ReplacedBlock, entry, "a context block")
		text, _ := contextText(b).(transcript.TextBlock)
		return []openAIPart{{text: text.Text}}
	case transcript.RawBlock:
		if isSearchResult(b.JSON) {
			r.note(rebuild.ReplacedBlock, entry, "a search result")
			return searchParts(b.JSON)
		}
	}
	kind := "block"
	if b != nil {
		kind = b.BlockType()
	}
	return []openAIPart{r.replaced(entry, kind, "")}
}

func (r *openAI) replaced(entry, kind, why string) openAIPart {
	text, detail := placeholder(kind, why)
	r.note(rebuild.ReplacedBlock, entry, detail)
	return openAIPart{text: text}
}

// media returns an image or a file, or the text that stands for it.
func (r *openAI) media(entry string, kind openAIPartKind, source transcript.Source, takes func(openAIPart) string) openAIPart {
	name := "image"
	if kind == openAIFile {
		name = "document"
	}
	clean, problem := cleanSource(source, name)
	p := openAIPart{kind: kind}
	switch {
	case problem != "":
		return r.replaced(entry, name, problem)
	case clean.Type == "base64":
		p.url = "data:" + clean.MediaType + ";base64," + clean.Data
	case clean.Type == "url":
		p.url = clean.URL
	case clean.Type == "file" && strings.HasPrefix(clean.FileID, "file-"):
		p.fileID = clean.FileID
	default:
		return r.replaced(entry, name, "a file of another provider")
	}
	if problem := takes(p); problem != "" {
		return r.replaced(entry, name, problem)
	}
	return p
}

// document returns the parts of a document: what it is about, and its bytes or
// texts.
func (r *openAI) document(entry string, b transcript.DocumentBlock, takes func(openAIPart) string) (parts []openAIPart) {
	text := func(texts ...string) {
		for _, s := range texts {
			if !isBlank(s) {
				parts = append(parts, openAIPart{text: s})
			}
		}
	}
	clean, problem := cleanSource(b.Source, "document")
	switch {
	case problem == "" && clean.Type == "text":
		text(b.Title, b.Context, clean.Data)
		if len(parts) == 0 {
			parts = append(parts, r.replaced(entry, "document", "empty"))
		}
		return parts
	case problem == "" && clean.Type == "content":
		text(b.Title, b.Context)
		return append(parts, r.contentParts(entry, clean.Extra["content"], takes)...)
	}
	text(b.Context)
	p := r.media(entry, openAIFile, b.Source, takes)
	if p.kind == openAIFile && clean.Type == "base64" {
		const suffix = ".pdf" // the API goes by it
		if p.name = b.Title; isBlank(p.name) {
			p.name = "document"
		}
		if !strings.HasSuffix(strings.ToLower(p.name), suffix) {
			p.name += suffix
		}
	} else if p.kind == openAIFile {
		text(b.Title)
	}
	return append(parts, p)
}

// contentParts returns the parts of a document that is made of blocks.
func (r *openAI) contentParts(entry string, content json.RawMessage, takes func(openAIPart) string) (parts []openAIPart) {
	if s, ok := jsontext.String(jsontext.Trim(content)); ok {
		return []openAIPart{{text: s}}
	}
	for e := range jsontext.Elements(content) {
		if b, err := transcript.UnmarshalBlock(e); err == nil {
			parts = append(parts, r.parts(entry, b, takes)...)
		}
	}
	return parts
}

func searchParts(obj []byte) []openAIPart {
	parts := []openAIPart{{text: stringMember(obj, "title")}, {text: stringMember(obj, "source")}}
	content, _ := jsontext.Member(obj, "content")
	for e := range jsontext.Elements(content) {
		parts = append(parts, openAIPart{text: stringMember(e, "text")})
	}
	return slices.DeleteFunc(parts, func(p openAIPart) bool { return isBlank(p.text) })
}

// appendList appends a JSON array.
func appendList[T any](dst []byte, list []T, element func(dst []byte, v T) []byte) []byte {
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = element(dst, v)
	}
	return append(dst, ']')
}

// callArguments returns the input of a call as these APIs write it: JSON in a
// string. What is no JSON object is not repaired here.
func callArguments(input json.RawMessage) string {
	if jsontext.IsNull(input) {
		return "{}"
	}
	if s, ok := jsontext.String(input); ok {
		return s
	}
	return string(input)
}

// appendFunction appends the members that define a tool.
func appendFunction(o *jsontext.Object, t transcript.Tool) {
	o.String("name", t.Name)
	o.OptString("description", t.Description)
	schema := t.InputSchema
	if jsontext.IsNull(schema) {
		schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	o.Value("parameters", schema)
}

// checkOpenAI returns what cannot be written of a request.
func checkOpenAI(req transcript.Request, params map[string]json.RawMessage, written ...string) error {
	for i, m := range req.Messages {
		if m.Role != transcript.RoleUser && m.Role != transcript.RoleAssistant {
			return fmt.Errorf("wire: message %d has role %q, want %q or %q", i, m.Role, transcript.RoleUser, transcript.RoleAssistant)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		if slices.Contains(written, name) {
			return fmt.Errorf("wire: params: %q is written from the request", name)
		}
		if value := params[name]; !jsontext.Valid(value) {
			return fmt.Errorf("wire: params: %q is not valid JSON: %q", name, excerpt(value))
		}
	}
	return nil
}

// openAIUsage reads counts whose members have these names. Cached tokens are a
// part of the prompt; all members that are not counted here are in Extra.
func openAIUsage(usage json.RawMessage, prompt, completion, details string) (u transcript.Usage, err error) {
	if jsontext.IsNull(usage) {
		return u, nil
	}
	if !jsontext.IsObject(usage) {
		return u, fmt.Errorf("wire: the answer's usage is not an object: %q", excerpt(usage))
	}
	for name, value := range jsontext.Members(usage) {
		switch n, ok := jsontext.Int(value); {
		case ok && name == prompt:
			u.Input = int(n)
			continue
		case ok && name == completion:
			u.Output = int(n)
			continue
		case name == details:
			cached, _ := jsontext.Member(value, "cached_tokens")
			if n, ok := jsontext.Int(cached); ok && n > 0 {
				u.CacheRead = int(n)
			}
		}
		if u.Extra == nil {
			u.Extra = transcript.Extra{}
		}
		u.Extra[name] = slices.Clone(value)
	}
	u.CacheRead = min(u.CacheRead, max(u.Input, 0))
	u.Input -= u.CacheRead
	return u, nil
}

// withExt returns extra with the members for the API alone.
func withExt(ext []byte) transcript.Extra {
	if string(ext) == "{}" {
		return nil
	}
	return transcript.Extra{"ext": ext}
}

// isOpenAIError reports whether obj is an error in the place of an answer.
func isOpenAIError(obj []byte) bool {
	failed, _ := jsontext.Member(obj, "error")
	return stringMember(obj, "type") == "error" || jsontext.IsObject(failed) || jsontext.IsString(failed)
}
