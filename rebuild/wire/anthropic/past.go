package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/convolog/convolog/rebuild/wire/internal/format"
	"github.com/convolog/convolog/rebuild/wire/internal/js"
	"github.com/convolog/convolog/transcript"
)

// Messages reads a list of messages of the Messages API, a request that holds one, or an
// answer, as items to append to a session. It is the inverse of Request of a [Format].
//
// The system prompt and a message of role system become a [transcript.System]. Blocks of
// unknown types and members of blocks stay, and members of a message become data of the
// application, see [transcript.WithApp]. Package [wire] lists the losses. A place that no
// item can hold gives a [*wire.ItemError].
func Messages(data []byte) ([]transcript.Item, error) {
	return format.ReadPast(data, "messages", Format{}.Response, format.SystemPrompt("system", readBlock), readMessage)
}

func readMessage(p *format.Past, i int, m json.RawMessage) error {
	at := p.At(i)
	blocks, err := format.Blocks(at+"/content", js.Get(m, "content"), readBlock)
	if err != nil {
		return err
	}
	var said transcript.Message // which keeps a text a text
	if err := said.UnmarshalJSON(m); err != nil {
		return format.Bad(at, "%v", err)
	}
	switch role := js.String(m, "role"); role {
	case "system":
		return p.Prompt(at+"/content", blocks, m, "role", "content")
	case "user":
		p.Add(said, m, "role", "content")
	case "assistant":
		p.Said(format.APIAnthropic, said, m, "role", "content")
	default:
		return format.Bad(at+"/role", "the role %q is not known", role)
	}
	return nil
}

func readBlock(at string, block []byte) (transcript.Block, error) {
	b, err := transcript.UnmarshalBlock(block)
	if err != nil {
		return nil, format.Bad(at, "%s", strings.TrimPrefix(err.Error(), "transcript: "))
	}
	return b, nil
}
