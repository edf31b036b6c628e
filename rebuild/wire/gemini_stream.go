package wire

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// Response reads the body of an answer that was not streamed: the candidate
// with index 0. A part of a kind that there is no block for becomes an opaque
// block with the part as it is. RequestID is responseId.
//
// A call gets the ID that the API gave it, or else one made of responseId, its
// place and what it says. What a part says besides (its thought signature, the
// ID of a call) is in the member ext of the block. An error body gives an
// [*APIError] with the status that it says.
func (g Gemini) Response(body []byte) (*transcript.Response, error) { return g.stream().whole(body) }

func (s *geminiStream) whole(body []byte) error {
	if _, err := s.add(body); err != nil {
		return err
	}
	if !jsontext.IsArray(get(body, "candidates")) && !jsontext.IsObject(get(body, "promptFeedback")) {
		return fmt.Errorf("wire: the answer has no candidates: %q", excerpt(body))
	}
	return nil
}

type geminiStream struct {
	accumulator
	named bool // the model is given, whatever version of it answers
}

// The kinds of pieces of an answer: text, thought, call, image, opaque. Pieces hold
// their signature and text; start is the call, or the part of an image or an opaque
// one.
const (
	geminiText    = "text"
	geminiThought = "thought"
	geminiSigned  = "thoughtSignature"
)

// NewStream returns a stream for an answer to a request of g. Pieces of one text, and
// of one thought, become one part; a signature ends it.
func (g Gemini) NewStream() Stream { return g.stream() }

func (g Gemini) stream() *streamer {
	return newStream(&geminiStream{accumulator: accumulator{api: apiGemini, model: g.Model, reason: "STOP"}, named: g.Model != ""})
}

func (s *geminiStream) add(event []byte) (Delta, error) {
	candidate, parts, err := firstCandidate(event)
	if err != nil {
		return Delta{}, err
	}
	if s.done && len(parts) > 0 {
		return Delta{}, fmt.Errorf("wire: stream: content after the end of the answer: %q", excerpt(event))
	}
	if err := s.addUsage(event, "usageMetadata"); err != nil {
		return Delta{}, err
	}
	if version := stringMember(event, "modelVersion"); version != "" && !s.named {
		s.model = version
	}
	s.id = cmp.Or(stringMember(event, "responseId"), s.id)
	var d Delta
	for _, part := range parts {
		s.addPart(part, &d)
	}
	if stringMember(event, "promptFeedback", "blockReason") != "" {
		s.reason, d.Done = "SAFETY", !s.done
	}
	if reason := stringMember(candidate, "finishReason"); reason != "" && reason != "FINISH_REASON_UNSPECIFIED" {
		s.reason, d.Done = reason, !s.done
	}
	s.done = s.done || d.Done
	return d, nil
}

// firstCandidate returns the candidate with index 0 and its parts, nil if there is none.
func firstCandidate(event []byte) (candidate []byte, parts []json.RawMessage, err error) {
	candidates := get(event, "candidates")
	if !jsontext.IsNull(candidates) && !jsontext.IsArray(candidates) {
		return nil, nil, fmt.Errorf("wire: the answer's candidates are not a list: %q", excerpt(candidates))
	}
	for c := range jsontext.Elements(candidates) {
		if !jsontext.IsObject(c) {
			return nil, nil, fmt.Errorf("wire: the answer has a candidate that is not an object: %q", excerpt(c))
		}
		if n, _ := jsontext.Int(get(c, "index")); n == 0 {
			candidate = c
			break
		}
	}
	content := get(candidate, "content")
	if !jsontext.IsNull(content) && !jsontext.IsObject(content) {
		return nil, nil, fmt.Errorf("wire: the answer's content is not an object: %q", excerpt(content))
	}
	parts = elements(get(content, "parts"))
	for _, part := range parts {
		if !jsontext.IsObject(part) {
			return nil, nil, fmt.Errorf("wire: the answer has a part that is not an object: %q", excerpt(part))
		}
	}
	return candidate, parts, checkAnswer(content)
}

// addPart takes one part.
func (s *geminiStream) addPart(part []byte, d *Delta) {
	signature := stringMember(part, geminiSigned)
	begin := func(kind string, start []byte) *piece {
		p := s.begin(int64(len(s.pieces)), kind, start)
		p.grow(geminiSigned, 0, signature)
		return p
	}
	call := get(part, "functionCall")
	raw, hasText := jsontext.Member(part, "text")
	switch {
	case jsontext.IsObject(call):
		if name := stringMember(call, "name"); name != "" {
			begin("call", call)
			d.ToolName, d.Input = name, string(get(call, "args"))
		}
	case hasText || signature != "" && len(without(part, geminiSigned, geminiThought)) == 0: // an SDK leaves an empty text out
		kind, shown := geminiText, &d.Text
		if isThought, _ := jsontext.Bool(get(part, geminiThought)); isThought {
			kind, shown = geminiThought, &d.Thinking
		}
		text, _ := jsontext.String(raw)
		*shown += text
		p := s.find(int64(len(s.pieces) - 1))
		if p == nil || p.kind != kind || p.text(geminiSigned) != "" {
			if text == "" && signature == "" {
				return
			}
			p = begin(kind, nil)
		} else {
			p.grow(geminiSigned, 0, signature)
		}
		p.grow(geminiText, 0, text)
	case len(part) > len("{}"):
		kind := "opaque"
		if _, data := geminiBlob(blobSource(part), "image"); data != "" {
			kind = "image"
		}
		begin(kind, part)
	}
}

// blobSource returns the image in a part, if there is one.
func blobSource(part []byte) transcript.Source {
	blob := get(part, "inlineData")
	return transcript.Source{Type: "base64", MediaType: stringMember(blob, "mimeType"), Data: stringMember(blob, "data")}
}

func (s *geminiStream) content() (blocks []transcript.Block) {
	ids := map[string]bool{}
	for i, p := range s.pieces {
		blocks = append(blocks, s.block(i, p, ids))
	}
	return blocks
}

// block returns part i as a block.
func (s *geminiStream) block(i int, p *piece, ids map[string]bool) transcript.Block {
	extra := withExt(geminiSigned, opt(p.text(geminiSigned)))
	text := p.text(geminiText)
	switch p.kind {
	case geminiText:
		if text == "" { // a signature alone; a fold leaves out empty texts
			return transcript.ThinkingBlock{Extra: extra}
		}
		return transcript.TextBlock{Text: text, Extra: extra}
	case geminiThought:
		return transcript.ThinkingBlock{Thinking: text, Extra: extra}
	case "call":
		id := stringMember(p.start, "id")
		if id != "" {
			extra = withExt(geminiSigned, opt(p.text(geminiSigned)), "functionCall", object("id", id))
		}
		if id == "" || ids[id] {
			id = s.callID(i, p.start)
		}
		ids[id] = true
		args := get(p.start, "args")
		if jsontext.IsNull(args) {
			args = []byte("{}")
		}
		return transcript.ToolCallBlock{ID: id, Name: stringMember(p.start, "name"), Input: slices.Clone(args), Extra: extra}
	case "image":
		return transcript.ImageBlock{Source: blobSource(p.start), Extra: extra}
	}
	return transcript.RawBlock{JSON: object("type", opaqueGemini, "part", p.start).bytes()}
}

// callID makes an ID for a call that came without one. It is the same however
// often the answer is read.
func (s *geminiStream) callID(i int, call []byte) string {
	sum := sha256.Sum256([]byte(s.id + "\x00" + strconv.Itoa(i) + "\x00" + string(call)))
	return "call_" + hex.EncodeToString(sum[:12])
}

// readUsage returns the counts. Tokens read from a cache are part of those of
// the prompt, and thoughts are not part of those of the answer.
func (*geminiStream) readUsage(counts json.RawMessage) (u transcript.Usage) {
	tools, thoughts := 0, 0
	u.Extra = readCounts(counts, map[string]*int{
		"promptTokenCount": &u.Input, "toolUsePromptTokenCount": &tools, "cachedContentTokenCount": &u.CacheRead,
		"candidatesTokenCount": &u.Output, "thoughtsTokenCount": &thoughts,
	})
	u.Input, u.Output = max(u.Input+tools-u.CacheRead, 0), u.Output+thoughts
	return u
}
