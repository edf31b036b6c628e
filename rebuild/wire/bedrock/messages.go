package bedrock

import (
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/neutral"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/messages"
	"github.com/convolog/convolog/transcript"
)

// A renderer turns the messages of one request into messages of the Messages
// API first, and these into the JSON of Converse.
type renderer struct {
	messages.Renderer
	format Format
	called []string        // names of tools in the messages, in the order of the calls
	names  map[string]bool // of documents
}

func (r *renderer) messageList() js.Written {
	r.Media = countMedia(r.Req.Messages)
	rendered := r.Messages(r.user, func(i int, m transcript.Message) []transcript.Block {
		pairs, _ := r.Pairs(m, ranByProvider)
		return r.AnswerContent(i, m, pairs, r.inAnswer)
	})
	for i, m := range rendered {
		rendered[i].Content = r.together(m)
	}
	if r.format.Cache != "" && !r.format.PureResults {
		point := transcript.RawBlock{JSON: js.Object("block", cachePoint(r.format.Cache)).Bytes()}
		for _, i := range messages.MarkedMessages(rendered) {
			rendered[i].Content = append(rendered[i].Content, point)
		}
	}
	return js.List(rendered, func(m transcript.Message) js.Written {
		return js.Object("role", string(m.Role), "content", js.List(m.Content, blockJSON))
	})
}

// together returns the content of a message: results first, then the rest, or for
// PureResults all of it in the last result.
func (r *renderer) together(m transcript.Message) []transcript.Block {
	content := messages.ResultsFirst(m.Content, nil)
	rest := slices.IndexFunc(content, func(b transcript.Block) bool { return !format.IsType[transcript.ToolResultBlock](b) })
	if !r.format.PureResults || rest < 1 {
		return content
	}
	r.Note("replaced-block", format.OriginOf(m, 0).Entry, "what is beside results is in the last of them")
	last, _ := content[rest-1].(transcript.ToolResultBlock)
	last.Content = append(last.Content, content[rest:]...)
	content[rest-1] = last
	return content[:rest]
}

// inAnswer returns nil for blocks that cannot be in an answer. paired is set if
// a block of a tool that the provider ran comes with its other half.
func (r *renderer) inAnswer(o transcript.Origin, b transcript.Block, paired bool) transcript.Block {
	switch block := b.(type) {
	case transcript.TextBlock:
		citations := js.Get(r.Ext(o, block.Extra), "citations")
		block, _ = r.Known(o.Entry, b, false).(transcript.TextBlock)
		if neutral.IsBlank(block.Text) {
			r.Note("blank-text", o.Entry, "")
			return nil
		}
		if jsontext.IsArray(citations) {
			block.Extra = transcript.Extra{"citations": citations}
		}
		return block
	case transcript.RedactedThinkingBlock:
		if !format.IsBase64(block.Data) {
			b = transcript.RedactedThinkingBlock{} // incomplete blocks are left out
		}
	case transcript.ToolCallBlock:
		name := neutral.ToolName(block.Name)
		if name != block.Name {
			r.Note("bad-name", o.Entry, block.Name+" became "+name)
		}
		block.Name = name
		b = block
		if !slices.Contains(r.called, name) {
			r.called = append(r.called, name)
		}
	case transcript.ToolResultBlock:
		_, _ = r.Instead(o.Entry, b)
		return nil
	}
	return r.AnswerBlock(o, b, paired)
}

func blockJSON(b transcript.Block) js.Written {
	switch b := b.(type) {
	case transcript.TextBlock:
		if b.Extra == nil {
			return js.Text(b.Text)
		}
		return js.Object("citationsContent", js.Object("content", js.List([]string{b.Text}, js.Text), "citations", b.Extra["citations"]))
	case transcript.ImageBlock:
		kind := strings.TrimPrefix(b.Source.MediaType, "image/")
		return js.Object("image", js.Object("format", kind, "source", js.Object("bytes", b.Source.Data)))
	case transcript.DocumentBlock:
		kind := documentFormats[b.Source.MediaType]
		return js.Object("document", js.Object("format", kind, "name", b.Title, "context", js.Opt(b.Context), "source", js.Object("bytes", b.Source.Data)))
	case transcript.ThinkingBlock:
		return js.Object("reasoningContent", js.Object("reasoningText", js.Object("text", b.Thinking, "signature", b.Signature)))
	case transcript.RedactedThinkingBlock:
		return js.Object("reasoningContent", js.Object("redactedContent", b.Data))
	case transcript.ToolCallBlock:
		return js.Object("toolUse", js.Object("toolUseId", b.ID, "name", b.Name, "input", format.InputObject(b)))
	case transcript.ToolResultBlock:
		return js.Object("toolResult", js.Object("toolUseId", b.CallID, "content", js.List(b.Content, blockJSON), "status", js.When(b.IsError, `"error"`)))
	case transcript.RawBlock:
		return js.Value(js.Get(b.JSON, "block"))
	}
	return nil
}

// user returns the content of a user message, with a text next to documents.
func (r *renderer) user(i int, m transcript.Message) []transcript.Block {
	content := r.UserContent(i, m, func(entry string, b transcript.Block) []transcript.Block { return r.Parts(r, entry, b) })
	if slices.ContainsFunc(content, format.IsType[transcript.DocumentBlock]) && !slices.ContainsFunc(content, format.IsType[transcript.TextBlock]) {
		content = append(content, format.PlainText("[see the documents]")...)
		r.Note("replaced-block", format.OriginOf(m, 0).Entry, "a text beside a document")
	}
	return content
}

// ranByProvider returns how an opaque block goes back: in a pair if it is a call that
// the provider ran, or its result, alone if only the API knows its kind.
func ranByProvider(b transcript.RawBlock) messages.Half {
	block := js.Get(b.JSON, "block")
	kind, part := typed(block)
	ran := js.String(part, "type") != ""
	switch {
	case transcript.BlockType(b) != format.OpaqueBedrock || !js.HasOnly(block, kind):
		return messages.Half{}
	case ran && (kind == "toolUse" || kind == "toolResult"):
		return messages.Half{ID: js.String(part, "toolUseId"), Call: kind == "toolUse"}
	}
	return messages.Half{Alone: !slices.Contains(kinds, kind)}
}

// kinds are the API's kinds of content blocks.
var kinds = strings.Fields("text image document video audio toolUse toolResult reasoningContent cachePoint guardContent searchResult citationsContent")
