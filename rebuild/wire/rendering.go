package wire

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A rendering is what rendering one request has in common for every provider.
type rendering struct {
	req    transcript.Request
	api    string // that the request goes to
	ids    idMap
	report rebuild.Report
}

func newRendering(req transcript.Request, api string, form idForm) rendering {
	if rebuild.IsBlank(req.System) {
		req.System = ""
	}
	return rendering{req: req, api: api, ids: idMap{form, map[string]bool{}, map[string]int{}, map[string][]string{}}}
}

func (r *rendering) note(rule rebuild.Rule, entry, detail string) {
	r.report = append(r.report, rebuild.Repair{Rule: rule, Entry: entry, Detail: detail})
}

// native reports whether the model that the request goes to made a block.
func (r *rendering) native(o transcript.Origin) bool {
	return o == vouched || o.API == r.api && sameModel(o.Model, r.req.Model)
}

// ext returns the members that an answer of this API left with a block, nil if
// they are not for the model that the request goes to.
func (r *rendering) ext(o transcript.Origin, extra transcript.Extra) json.RawMessage {
	if !r.native(o) {
		return nil
	}
	return extObject(extra)
}

// extObject returns the member ext if it is an object, else nil.
func extObject(extra transcript.Extra) json.RawMessage {
	if ext := extra["ext"]; jsontext.IsObject(ext) && jsontext.Valid(ext) {
		return ext
	}
	return nil
}

// withExt returns extra with the members for the API alone.
func withExt(members ...any) transcript.Extra {
	ext := object(members...).bytes()
	if string(ext) == "{}" {
		return nil
	}
	return transcript.Extra{"ext": ext}
}

// withMember returns extra with one more member.
func withMember(extra transcript.Extra, name string, value json.RawMessage) transcript.Extra {
	if extra == nil {
		extra = transcript.Extra{}
	}
	extra[name] = slices.Clone(value)
	return extra
}

// callID returns the ID for the next call of the answer.
func (r *rendering) callID(entry, id string) string {
	given := r.ids.call(id)
	if given != id {
		r.note(rebuild.RewrittenID, entry, id+" became "+given)
	}
	return given
}

// dropExtra reports the members of a block that the target has no place for.
// What is in ext is no other's business and not worth a report.
func (r *rendering) dropExtra(entry, kind string, extra transcript.Extra) {
	for _, name := range slices.Sorted(maps.Keys(extra)) {
		if name != "ext" {
			r.note(rebuild.DroppedMember, entry, name+" of a "+kind+" block")
		}
	}
}

// A mediaForm renders images and documents.
type mediaForm interface {
	// source returns what an image becomes, or what is wrong with it.
	source(s transcript.Source, kind string) (clean transcript.Source, problem string)
	document(entry string, b transcript.DocumentBlock) []transcript.Block
}

// parts returns what a user message or a result has in the place of b.
func (r *rendering) parts(m mediaForm, entry string, b transcript.Block) []transcript.Block {
	switch b := b.(type) {
	case transcript.TextBlock:
		r.dropExtra(entry, "text", b.Extra)
		if rebuild.IsBlank(b.Text) && (r.api == apiGemini || r.api == apiBedrock) {
			r.note(rebuild.BlankText, entry, "")
			return nil
		}
		return plainText(b.Text)
	case transcript.ImageBlock:
		r.dropExtra(entry, "image", b.Extra)
		clean, problem := m.source(b.Source, "image")
		if problem != "" {
			return plainText(r.leftOut(entry, "image", problem))
		}
		return []transcript.Block{transcript.ImageBlock{Source: clean}}
	case transcript.DocumentBlock:
		r.dropExtra(entry, "document", b.Extra)
		return m.document(entry, b)
	case transcript.RawBlock:
		audio := get(b.JSON, "input_audio")
		if r.api == apiOpenAIChat && b.BlockType() == "input_audio" && jsontext.Valid(b.JSON) && stringMember(audio, "data") != "" && stringMember(audio, "format") != "" {
			return []transcript.Block{b}
		}
	}
	return plainText(r.plain(entry, b))
}

// drop leaves out a block that an answer cannot have.
func (r *rendering) drop(entry string, b transcript.Block) {
	rule, kind := rebuild.DroppedBlock, blockType(b)
	if kind == "redacted_thinking" || kind == "thinking" {
		rule = rebuild.DroppedThinking
	}
	r.note(rule, entry, kind+" in an answer")
}

// toolMembers returns the members that define a tool, its schema under a name. One
// without a schema has that of none, if that is not empty.
func toolMembers(t transcript.Tool, name, none string) []any {
	schema := t.InputSchema
	if jsontext.IsNull(schema) {
		schema = json.RawMessage(none)
	}
	return []any{"name", t.Name, "description", opt(t.Description), name, schema}
}

// inputObject returns the input of a call. What is no object is not repaired
// here.
func inputObject(b transcript.ToolCallBlock) json.RawMessage {
	if len(b.Input) == 0 {
		return json.RawMessage("{}")
	}
	return b.Input
}
