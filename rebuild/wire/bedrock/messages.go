package bedrock

import (
	"slices"
	"strconv"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/rebuild/wire/internal/messages"
	"github.com/convolog/convolog/transcript"
)

// A renderer turns the messages of one request into those of Converse: into
// those of the Messages API, first, and these into JSON of another form.
type renderer struct {
	messages.Renderer
	format Format
	called []string        // names of tools in the messages, in the order of the calls
	names  map[string]bool // of documents
}

// messageList returns the member messages.
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

// together returns the content of a message: results first, then the rest, or all
// of it in the last result for models that want that.
func (r *renderer) together(m transcript.Message) []transcript.Block {
	content := messages.ResultsFirst(m.Content, nil)
	rest := slices.IndexFunc(content, func(b transcript.Block) bool { return !format.IsType[transcript.ToolResultBlock](b) })
	if !r.format.PureResults || rest < 1 {
		return content
	}
	r.Note(rebuild.ReplacedBlock, format.OriginOf(m, 0).Entry, "what is beside results is in the last of them")
	last, _ := content[rest-1].(transcript.ToolResultBlock)
	last.Content = append(last.Content, content[rest:]...)
	content[rest-1] = last
	return content[:rest]
}

// inAnswer returns nil for what cannot be in an answer. paired says that a
// block of a tool that the provider ran has its other half.
func (r *renderer) inAnswer(o transcript.Origin, b transcript.Block, paired bool) transcript.Block {
	switch block := b.(type) {
	case transcript.TextBlock:
		citations := js.Get(r.Ext(o, block.Extra), "citations")
		block, _ = r.Known(o.Entry, b, false).(transcript.TextBlock)
		if rebuild.IsBlank(block.Text) {
			r.Note(rebuild.BlankText, o.Entry, "")
			return nil
		}
		if jsontext.IsArray(citations) {
			block.Extra = transcript.Extra{"citations": citations}
		}
		return block
	case transcript.RedactedThinkingBlock:
		if !format.IsBase64(block.Data) {
			b = transcript.RedactedThinkingBlock{} // what is not whole is left out as such
		}
	case transcript.ToolCallBlock:
		name := r.format.ToolName(block.Name)
		if name != block.Name {
			r.Note(rebuild.BadName, o.Entry, block.Name+" became "+name)
		}
		block.Name = name
		b = block
		if !slices.Contains(r.called, name) {
			r.called = append(r.called, name)
		}
	case transcript.ToolResultBlock:
		r.Drop(o.Entry, b)
		return nil
	}
	return r.AnswerBlock(o, b, paired)
}

// blockJSON returns a block as it goes out.
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

// user returns the content of a user message, with a text beside documents.
func (r *renderer) user(i int, m transcript.Message) []transcript.Block {
	content := r.UserContent(i, m, func(entry string, b transcript.Block) []transcript.Block { return r.Parts(r, entry, b) })
	if slices.ContainsFunc(content, format.IsType[transcript.DocumentBlock]) && !slices.ContainsFunc(content, format.IsType[transcript.TextBlock]) {
		content = append(content, format.PlainText("[see the documents]")...)
		r.Note(rebuild.ReplacedBlock, format.OriginOf(m, 0).Entry, "a text beside a document")
	}
	return content
}

// ranByProvider returns how a block of an answer goes back: a call of a tool which the
// provider ran itself, with its result, and what is of a kind that only the API knows.
func ranByProvider(b transcript.RawBlock) messages.Half {
	block := js.Get(b.JSON, "block")
	kind, part := typed(block)
	ran := js.String(part, "type") != ""
	switch {
	case b.BlockType() != format.OpaqueBedrock || !js.HasOnly(block, kind):
		return messages.Half{}
	case ran && (kind == "toolUse" || kind == "toolResult"):
		return messages.Half{ID: js.String(part, "toolUseId"), Call: kind == "toolUse"}
	}
	return messages.Half{Alone: !slices.Contains(kinds, kind)}
}

// kinds are the kinds of content blocks that the API has.
var kinds = strings.Fields("text image document video audio toolUse toolResult reasoningContent cachePoint guardContent searchResult citationsContent")

// Source returns an image as bytes.
func (r *renderer) Source(s transcript.Source, kind string) (clean transcript.Source, problem string) {
	clean, problem = format.CleanSource(s, kind)
	switch {
	case r.Media.Take(kind):
		return s, "more than " + strconv.Itoa(maxImages)
	case problem != "" || s.Type != "base64":
		return s, format.SourceProblem(s)
	}
	return clean, ""
}

// documentFormats holds the formats of documents by media type.
var documentFormats = map[string]string{
	"application/pdf": "pdf", "text/csv": "csv", "text/html": "html", "text/plain": "txt", "text/markdown": "md",
	"application/msword": "doc", "application/vnd.ms-excel": "xls",
	"application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
	"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet":       "xlsx",
}

func (r *renderer) Document(entry string, b transcript.DocumentBlock) []transcript.Block {
	data := b.Source.Data
	switch {
	case r.Media.Take("document"):
		return format.PlainText(r.LeftOut(entry, "document", "more than "+strconv.Itoa(maxDocuments)))
	case b.Source.Type == "content" && format.IsDocumentContent(b.Source.Extra["content"]):
		return r.contentBlocks(entry, b)
	case b.Source.Type == "text" && !rebuild.IsBlank(data):
		b.Source.MediaType, b.Source.Data = "text/plain", format.TextBase64(data)
	case b.Source.Type != "base64" || documentFormats[b.Source.MediaType] == "" || !format.IsBase64(data):
		return format.PlainText(r.LeftOut(entry, "document", format.SourceProblem(b.Source)))
	}
	name := r.documentName(b.Title)
	if b.Title != "" && name != b.Title {
		r.Note(rebuild.BadName, entry, "document "+b.Title+" became "+name)
	}
	if b.Title = name; rebuild.IsBlank(b.Context) {
		b.Context = ""
	}
	return []transcript.Block{b}
}

// contentBlocks returns the texts and images that a document consists of.
func (r *renderer) contentBlocks(entry string, b transcript.DocumentBlock) (out []transcript.Block) {
	if about := format.AboutDocument(b); about != "" {
		out = format.PlainText(about)
	}
	r.Note(rebuild.ReplacedBlock, entry, "a document of texts and images")
	for _, part := range format.BlocksOfDocument(b.Source.Extra["content"]) {
		if image, ok := part.(transcript.ImageBlock); ok {
			// It is not in the count of images, so it does not go out.
			out = append(out, format.PlainText(r.LeftOut(entry, image.BlockType(), "in a document"))...)
		} else {
			out = append(out, r.Parts(r, entry, part)...)
		}
	}
	return out
}

// documentName makes a name of the characters that the API allows, without two
// spaces in a row, of at most 200 bytes, that no document of the request has.
func (r *renderer) documentName(title string) string {
	const most = 200
	clean := strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune(" -()[]", c):
			return c
		}
		return '-'
	}, title)
	clean = strings.Join(strings.Fields(clean), " ")
	clean = strings.TrimSpace(clean[:min(len(clean), most-len(" 1000"))])
	if strings.Trim(clean, "-") == "" {
		clean = "document"
	}
	name := clean
	for n := 2; r.names[name]; n++ {
		name = clean + " " + strconv.Itoa(n)
	}
	r.names[name] = true
	return name
}

// Limits of a request to Converse.
const (
	maxDocuments = 5
	maxImages    = 20
)

// countMedia counts how many documents and images are too many for Converse.
func countMedia(asked []transcript.Message) messages.MediaBudget {
	excess := map[string]int{"document": -maxDocuments, "image": -maxImages}
	for _, m := range asked {
		for _, b := range m.Content {
			all := []transcript.Block{b}
			if res, ok := b.(transcript.ToolResultBlock); ok {
				all = res.Content
			}
			for _, b := range all {
				sent := format.IsType[transcript.ImageBlock](b) || format.IsType[transcript.DocumentBlock](b)
				excess[format.BlockType(b)] += messages.Count(sent && m.Role == transcript.RoleUser)
			}
		}
	}
	return messages.MediaBudget{Blocks: excess}
}
