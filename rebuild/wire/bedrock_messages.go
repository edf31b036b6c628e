package wire

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/transcript"
)

// A bedrockRenderer turns the messages of one request into those of Converse: into
// those of the Messages API, first, and these into JSON of another form.
type bedrockRenderer struct {
	renderer
	format Bedrock
	called []string        // names of tools in the messages, in the order of the calls
	names  map[string]bool // of documents
}

// messages returns the member of that name.
func (r *bedrockRenderer) messages() written {
	r.media = countMedia(r.req.Messages)
	messages := r.renderer.messages(r.user, func(i int, m transcript.Message) []transcript.Block {
		pairs, _ := r.pairs(m, ranByProvider)
		return r.answerContent(i, m, pairs, r.answerBlock)
	})
	for i, m := range messages {
		messages[i].Content = r.together(m)
	}
	if r.format.Cache != "" && !r.format.PureResults {
		point := transcript.RawBlock{JSON: object("block", cachePoint(r.format.Cache)).bytes()}
		for _, i := range markedMessages(messages) {
			messages[i].Content = append(messages[i].Content, point)
		}
	}
	return list(messages, func(m transcript.Message) written {
		return object("role", string(m.Role), "content", list(m.Content, bedrockJSON))
	})
}

// together returns the content of a message: results first, then the rest, or all
// of it in the last result for models that want that.
func (r *bedrockRenderer) together(m transcript.Message) []transcript.Block {
	content := resultsFirst(m.Content, nil)
	rest := slices.IndexFunc(content, func(b transcript.Block) bool { return !isType[transcript.ToolResultBlock](b) })
	if !r.format.PureResults || rest < 1 {
		return content
	}
	r.note(rebuild.ReplacedBlock, originOf(m, 0).Entry, "what is beside results is in the last of them")
	last, _ := content[rest-1].(transcript.ToolResultBlock)
	last.Content = append(last.Content, content[rest:]...)
	content[rest-1] = last
	return content[:rest]
}

// answerBlock returns nil for what cannot be in an answer. paired says that a
// block of a tool that the provider ran has its other half.
func (r *bedrockRenderer) answerBlock(o transcript.Origin, b transcript.Block, paired bool) transcript.Block {
	switch block := b.(type) {
	case transcript.TextBlock:
		citations := get(r.ext(o, block.Extra), "citations")
		block, _ = r.known(o.Entry, b, false).(transcript.TextBlock)
		if rebuild.IsBlank(block.Text) {
			r.note(rebuild.BlankText, o.Entry, "")
			return nil
		}
		if jsontext.IsArray(citations) {
			block.Extra = transcript.Extra{"citations": citations}
		}
		return block
	case transcript.RedactedThinkingBlock:
		if !isBase64(block.Data) {
			b = transcript.RedactedThinkingBlock{} // what is not whole is left out as such
		}
	case transcript.ToolCallBlock:
		name := r.format.ToolName(block.Name)
		if name != block.Name {
			r.note(rebuild.BadName, o.Entry, block.Name+" became "+name)
		}
		block.Name = name
		b = block
		if !slices.Contains(r.called, name) {
			r.called = append(r.called, name)
		}
	case transcript.ToolResultBlock:
		r.drop(o.Entry, b)
		return nil
	}
	return r.renderer.answerBlock(o, b, paired)
}

// bedrockJSON returns a block as it goes out.
func bedrockJSON(b transcript.Block) written {
	switch b := b.(type) {
	case transcript.TextBlock:
		if b.Extra == nil {
			return textJSON(b.Text)
		}
		return object("citationsContent", object("content", list([]string{b.Text}, textJSON), "citations", b.Extra["citations"]))
	case transcript.ImageBlock:
		format := strings.TrimPrefix(b.Source.MediaType, "image/")
		return object("image", object("format", format, "source", object("bytes", b.Source.Data)))
	case transcript.DocumentBlock:
		format := documentFormats[b.Source.MediaType]
		return object("document", object("format", format, "name", b.Title, "context", opt(b.Context), "source", object("bytes", b.Source.Data)))
	case transcript.ThinkingBlock:
		return object("reasoningContent", object("reasoningText", object("text", b.Thinking, "signature", b.Signature)))
	case transcript.RedactedThinkingBlock:
		return object("reasoningContent", object("redactedContent", b.Data))
	case transcript.ToolCallBlock:
		return object("toolUse", object("toolUseId", b.ID, "name", b.Name, "input", inputObject(b)))
	case transcript.ToolResultBlock:
		return object("toolResult", object("toolUseId", b.CallID, "content", list(b.Content, bedrockJSON), "status", when(b.IsError, `"error"`)))
	case transcript.RawBlock:
		return value(get(b.JSON, "block"))
	}
	return nil
}

// user returns the content of a user message, with a text beside documents.
func (r *bedrockRenderer) user(i int, m transcript.Message) []transcript.Block {
	content := r.userContent(i, m, func(entry string, b transcript.Block) []transcript.Block { return r.parts(r, entry, b) })
	if slices.ContainsFunc(content, isType[transcript.DocumentBlock]) && !slices.ContainsFunc(content, isType[transcript.TextBlock]) {
		content = append(content, plainText("[see the documents]")...)
		r.note(rebuild.ReplacedBlock, originOf(m, 0).Entry, "a text beside a document")
	}
	return content
}

// ranByProvider returns how a block of an answer goes back: a call of a tool which the
// provider ran itself, with its result, and what is of a kind that only the API knows.
func ranByProvider(b transcript.RawBlock) half {
	block := get(b.JSON, "block")
	kind, part := typed(block)
	ran := stringMember(part, "type") != ""
	switch {
	case b.BlockType() != opaqueBedrock || !hasOnly(block, kind):
		return half{}
	case ran && (kind == "toolUse" || kind == "toolResult"):
		return half{id: stringMember(part, "toolUseId"), call: kind == "toolUse"}
	}
	return half{alone: !slices.Contains(bedrockKinds, kind)}
}

// bedrockKinds are the kinds of content blocks that the API has.
var bedrockKinds = strings.Fields("text image document video audio toolUse toolResult reasoningContent cachePoint guardContent searchResult citationsContent")
