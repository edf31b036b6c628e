package gemini

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Response reads the body of an answer that was not streamed: the candidate
// with index 0. A part that fits no block becomes an opaque block that holds it
// unchanged. RequestID is responseId.
//
// A call keeps the API's ID, or gets one made of responseId, its place and its
// content. The rest of a part (its thought signature, the ID of a call) is in the
// member ext of the block. An error body gives an [*wire.APIError] with its
// status.
func (g Format) Response(body []byte) (*transcript.Response, error) { return g.stream().Whole(body) }

func (s *stream) Whole(body []byte) error {
	if _, err := s.Add(body); err != nil {
		return err
	}
	if !jsontext.IsArray(js.Get(body, "candidates")) && !jsontext.IsObject(js.Get(body, "promptFeedback")) {
		return fmt.Errorf("wire: the answer lacks candidates: %q", js.Excerpt(body))
	}
	return nil
}

type stream struct {
	format.Accumulator
	named bool // Format.Model is set, so versions are ignored
}

// The kinds of pieces of an answer: text, thought, call, image, opaque. Pieces hold
// their signature and text; Start is the call, or the part of an image or opaque
// piece.
const (
	textName      = "text"
	thoughtName   = "thought"
	signatureName = "thoughtSignature"
)

// NewStream returns a stream for an answer to a request of g. The pieces of a text or
// a thought become one part; a signature ends it.
func (g Format) NewStream() wire.Stream { return g.stream() }

func (g Format) stream() *format.Stream {
	return format.NewStream(&stream{Accumulator: format.Accumulator{API: format.APIGemini, Model: g.Model, Reason: "STOP"}, named: g.Model != ""})
}

func (s *stream) Add(event []byte) (wire.Delta, error) {
	candidate, parts, err := firstCandidate(event)
	if err != nil {
		return wire.Delta{}, err
	}
	if s.Done && len(parts) > 0 {
		return wire.Delta{}, fmt.Errorf("wire: stream: content after the end of the answer: %q", js.Excerpt(event))
	}
	if err := s.AddUsage(event, "usageMetadata"); err != nil {
		return wire.Delta{}, err
	}
	if version := js.String(event, "modelVersion"); version != "" && !s.named {
		s.Model = version
	}
	s.ID = cmp.Or(js.String(event, "responseId"), s.ID)
	var d wire.Delta
	for _, part := range parts {
		s.addPart(part, &d)
	}
	if js.String(event, "promptFeedback", "blockReason") != "" {
		s.Reason, d.Done = "SAFETY", !s.Done
	}
	if reason := js.String(candidate, "finishReason"); reason != "" && reason != "FINISH_REASON_UNSPECIFIED" {
		s.Reason, d.Done = reason, !s.Done
	}
	s.Done = s.Done || d.Done
	return d, nil
}

// firstCandidate returns the candidate with index 0 and its parts, or nil.
func firstCandidate(event []byte) (candidate []byte, parts []json.RawMessage, err error) {
	candidates := js.Get(event, "candidates")
	if !jsontext.IsNull(candidates) && !jsontext.IsArray(candidates) {
		return nil, nil, fmt.Errorf("wire: the answer's candidates are not a list: %q", js.Excerpt(candidates))
	}
	for c := range jsontext.Elements(candidates) {
		if !jsontext.IsObject(c) {
			return nil, nil, fmt.Errorf("wire: a candidate of the answer is not an object: %q", js.Excerpt(c))
		}
		if n, _ := jsontext.Int(js.Get(c, "index")); n == 0 {
			candidate = c
			break
		}
	}
	content := js.Get(candidate, "content")
	if !jsontext.IsNull(content) && !jsontext.IsObject(content) {
		return nil, nil, fmt.Errorf("wire: the answer's content is not an object: %q", js.Excerpt(content))
	}
	parts = js.Elements(js.Get(content, "parts"))
	for _, part := range parts {
		if !jsontext.IsObject(part) {
			return nil, nil, fmt.Errorf("wire: a part of the answer is not an object: %q", js.Excerpt(part))
		}
	}
	return candidate, parts, format.CheckAnswer(content)
}

// addPart takes one part.
func (s *stream) addPart(part []byte, d *wire.Delta) {
	signature := js.String(part, signatureName)
	begin := func(kind string, start []byte) *format.Piece {
		p := s.Begin(int64(len(s.Pieces)), kind, start)
		p.Grow(signatureName, 0, signature)
		return p
	}
	call := js.Get(part, "functionCall")
	raw, hasText := jsontext.Member(part, "text")
	switch {
	case jsontext.IsObject(call):
		if name := js.String(call, "name"); name != "" {
			begin("call", call)
			d.ToolName, d.Input = name, string(js.Get(call, "args"))
		}
	case hasText || signature != "" && len(js.Without(part, signatureName, thoughtName)) == 0: // SDKs omit empty texts
		kind, shown := textName, &d.Text
		if isThought, _ := jsontext.Bool(js.Get(part, thoughtName)); isThought {
			kind, shown = thoughtName, &d.Thinking
		}
		text, _ := jsontext.String(raw)
		*shown += text
		p := s.Find(int64(len(s.Pieces) - 1))
		if p == nil || p.Kind != kind || p.Text(signatureName) != "" {
			if text == "" && signature == "" {
				return
			}
			p = begin(kind, nil)
		} else {
			p.Grow(signatureName, 0, signature)
		}
		p.Grow(textName, 0, text)
	case len(part) > len("{}"):
		kind := "opaque"
		if _, data := blobOf(blobSource(part), "image"); data != "" {
			kind = "image"
		}
		begin(kind, part)
	}
}

// blobSource returns the image in a part, if there is one.
func blobSource(part []byte) transcript.Source {
	blob := js.Get(part, "inlineData")
	return transcript.Source{Type: "base64", MediaType: js.String(blob, "mimeType"), Data: js.String(blob, "data")}
}

func (s *stream) Content() (blocks []transcript.Block) {
	ids := map[string]bool{}
	for i, p := range s.Pieces {
		blocks = append(blocks, s.block(i, p, ids))
	}
	return blocks
}

// block returns part i as a block.
func (s *stream) block(i int, p *format.Piece, ids map[string]bool) transcript.Block {
	extra := format.WithExt(signatureName, js.Opt(p.Text(signatureName)))
	text := p.Text(textName)
	switch p.Kind {
	case textName:
		if text == "" { // only a signature; a fold leaves out empty texts
			return transcript.ThinkingBlock{Extra: extra}
		}
		return transcript.TextBlock{Text: text, Extra: extra}
	case thoughtName:
		return transcript.ThinkingBlock{Thinking: text, Extra: extra}
	case "call":
		id := js.String(p.Start, "id")
		if id != "" {
			extra = format.WithExt(signatureName, js.Opt(p.Text(signatureName)), "functionCall", js.Object("id", id))
		}
		if id == "" || ids[id] {
			id = s.callID(i, p.Start)
		}
		ids[id] = true
		args := js.Get(p.Start, "args")
		if jsontext.IsNull(args) {
			args = []byte("{}")
		}
		return transcript.ToolCallBlock{ID: id, Name: js.String(p.Start, "name"), Input: slices.Clone(args), Extra: extra}
	case "image":
		return transcript.ImageBlock{Source: blobSource(p.Start), Extra: extra}
	}
	return transcript.RawBlock{JSON: js.Object("type", format.OpaqueGemini, "part", p.Start).Bytes()}
}

// callID makes an ID for a call that came without one. Reading the answer again
// gives the same ID.
func (s *stream) callID(i int, call []byte) string {
	sum := sha256.Sum256([]byte(s.ID + "\x00" + strconv.Itoa(i) + "\x00" + string(call)))
	return "call_" + hex.EncodeToString(sum[:12])
}

// ReadUsage returns the counts. Cached tokens are part of the prompt, and
// thoughts are not part of the answer.
func (*stream) ReadUsage(counts json.RawMessage) (u transcript.Usage) {
	tools, thoughts := 0, 0
	u.Extra = format.ReadCounts(counts, map[string]*int{
		"promptTokenCount": &u.Input, "toolUsePromptTokenCount": &tools, "cachedContentTokenCount": &u.CacheRead,
		"candidatesTokenCount": &u.Output, "thoughtsTokenCount": &thoughts,
	})
	u.Input, u.Output = max(u.Input+tools-u.CacheRead, 0), u.Output+thoughts
	return u
}
