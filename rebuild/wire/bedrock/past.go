package bedrock

import (
	"encoding/json"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Messages reads a list of messages of Converse, a request that holds one, or an answer, as
// items to append to a session. It is the inverse of Request of a [Format].
//
// The system prompt becomes a [transcript.System]. Content that fits no block becomes an
// opaque block, and members of a message become data of the application, see
// [transcript.WithApp]. Package [wire] lists the losses. A place that no item can hold
// gives a [*wire.ItemError].
func Messages(data []byte) ([]transcript.Item, error) {
	return format.ReadPast(data, "messages", Format{}.Response, format.SystemPrompt("system", readBlock), readMessage)
}

func readMessage(p *format.Past, i int, m json.RawMessage) error {
	at := p.At(i)
	blocks, err := format.Blocks(at+"/content", js.Get(m, "content"), readBlock)
	switch role := js.String(m, "role"); {
	case err != nil:
		return err
	case !jsontext.IsArray(js.Get(m, "content")):
		return format.Bad(at+"/content", "the content is not a list")
	case role == "assistant":
		return p.Answer(at, js.Object("output", js.Object("message", m), "stopReason", "end_turn"), m, "role", "content")
	case role == "user":
		p.Add(transcript.Message{Role: transcript.RoleUser, Content: besideErrors(blocks)}, m, "role", "content")
		return nil
	default:
		return format.Bad(at+"/role", "the role %q is not known", role)
	}
}

// besideErrors takes all but the first text out of an error that has media: an error may
// have only texts, so PureResults has put the content of the message there.
func besideErrors(blocks []transcript.Block) (out []transcript.Block) {
	var rest []transcript.Block
	for _, b := range blocks {
		if r, ok := b.(transcript.ToolResultBlock); ok && r.IsError {
			if i := min(slices.IndexFunc(r.Content, transcript.IsMedia), 1); i >= 0 {
				rest = append(rest, r.Content[i:]...)
				b = r.WithContent(r.Content[:i:i]...)
			}
		}
		out = append(out, b)
	}
	return append(out, rest...)
}

// readBlock reads a content block of a message of the user. It leaves out cache points,
// which each request places anew.
func readBlock(at string, block []byte) (transcript.Block, error) {
	kind, value := typed(block)
	if kind == "" {
		return nil, format.Bad(at, "an empty block")
	}
	data := js.String(value, "source", "bytes")
	mime := mediaType(kind, js.String(value, "format"))
	source := transcript.Source{Type: "base64", MediaType: mime, Data: data}
	switch {
	case js.Get(block, "cachePoint") != nil:
		return nil, nil
	case len(js.MembersOf(block)) > 1:
	case kind == "text":
		return transcript.TextBlock{Text: js.String(value)}, nil
	case kind == "json": // of a result
		return transcript.TextBlock{Text: string(value)}, nil
	case kind == "image" && data != "" && js.HasOnly(value, "format", "source"):
		return transcript.ImageBlock{Source: source}, nil
	case kind == "document" && data != "" && mime != "":
		return transcript.DocumentBlock{
			Source: source, Title: js.String(value, "name"), Context: js.String(value, "context"),
			Extra: format.Rest(value, "format", "source", "name", "context"),
		}, nil
	case kind == "toolResult":
		id := js.String(value, "toolUseId")
		if id == "" {
			return nil, format.Bad(at, "a result without toolUseId")
		}
		blocks, err := format.Blocks(at+"/toolResult/content", js.Get(value, "content"), readBlock)
		result := transcript.ToolResultBlock{
			CallID: id, IsError: js.String(value, "status") == "error", Extra: format.Rest(value, "toolUseId", "content", "status"),
		}
		return result.WithContent(blocks...), err
	}
	return transcript.RawBlock{JSON: js.Object("type", format.OpaqueBedrock, "block", json.RawMessage(block)).Bytes()}, nil
}

// mediaType returns the media type of a format of images or documents.
func mediaType(kind, name string) string {
	if kind == "image" {
		return "image/" + name
	}
	for media, short := range documentFormats {
		if short == name {
			return media
		}
	}
	return ""
}
