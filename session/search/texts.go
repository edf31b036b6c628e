package search

import (
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/recalltool"
	"github.com/convolog/convolog/transcript"
)

// passage is a text of an entry that is searched.
type passage struct {
	text  string
	role  string
	block int
	kind  string
	tool  string // of a call
	// call is the ID of the call of a result, and carried the ID of the original
	// entry of a carried item.
	call, carried string
}

// The roles of a [Hit] that messages lack.
const (
	roleTool   = "tool"
	roleSystem = "system"
)

// kindApp is the type of data that an application put on an entry. No model
// sees it.
const kindApp = "app"

// passages returns the texts of an entry. State that a compaction or a header repeats
// is searched where it was set.
func passages(e transcript.Entry) []passage {
	var list []passage
	switch b := e.Body.(type) {
	case transcript.MessageLine:
		list = contentPassages(b)
	case transcript.System:
		list = []passage{{text: b.Text, role: roleSystem, kind: "system"}}
	case transcript.Compaction:
		list = []passage{{text: b.Summary, role: roleSystem, kind: "summary"}}
		for _, i := range carriedItems(b) {
			list = append(list, passage{text: i.Text, role: roleSystem, kind: "summary", carried: i.Entry})
		}
	}
	if len(e.App) > 0 {
		list = append(list, passage{text: scalars(e.App), role: roleSystem, kind: kindApp})
	}
	return list
}

func contentPassages(f transcript.MessageLine) []passage {
	list := make([]passage, 0, len(f.Content))
	for i, b := range f.Content {
		p := passage{role: string(f.Role), block: i, kind: transcript.BlockType(b)}
		switch b := b.(type) {
		case transcript.ToolCallBlock:
			p.tool, p.text = b.Name, scalars(b.Input)
		case transcript.ToolResultBlock:
			p.role, p.call = roleTool, b.CallID
			var texts []string
			for _, in := range b.Content {
				texts = append(texts, textOf(in))
			}
			p.text = strings.Join(texts, "\n")
		default:
			p.text = textOf(b)
		}
		list = append(list, p)
	}
	return list
}

func textOf(b transcript.Block) string {
	switch b := b.(type) {
	case transcript.TextBlock:
		return b.Text
	case transcript.ThinkingBlock:
		return b.Thinking
	case transcript.ContextBlock:
		return b.URI + "\n" + b.Abstract
	case transcript.DocumentBlock:
		text := b.Title + "\n" + b.Context
		if b.Source.Type == "text" {
			text += "\n" + b.Source.Data
		}
		return text
	case transcript.RawBlock:
		return scalars(b.JSON)
	}
	return ""
}

// scalars returns the strings and numbers in a JSON value, each on its own line,
// without the names of members.
func scalars(value []byte) string {
	var sb strings.Builder
	var walk func(v []byte, depth int)
	walk = func(v []byte, depth int) {
		switch {
		case depth > maxDepth || len(v) == 0:
		case v[0] == '{':
			for _, member := range jsontext.Members(v) {
				walk(member, depth+1)
			}
		case v[0] == '[':
			for element := range jsontext.Elements(v) {
				walk(element, depth+1)
			}
		default:
			if sb.Len() > 0 {
				sb.WriteByte('\n')
			}
			if s, ok := jsontext.String(v); ok {
				sb.WriteString(s)
			} else {
				sb.Write(v)
			}
		}
	}
	walk(jsontext.Trim(value), 0)
	return sb.String()
}

const maxDepth = 100

func textsOf(list []passage) []string {
	texts := make([]string, len(list))
	for i, p := range list {
		texts[i] = p.text
	}
	return texts
}

// isRecall reports whether a passage belongs to a reading tool: a call, or a
// result that repeats entries.
func isRecall(p passage) bool {
	return p.tool == recalltool.Search || p.tool == recalltool.Window || p.tool == recalltool.Read
}

// excerptSize is how many bytes of a text a [Hit] shows, a quarter of them
// before the match.
const excerptSize = 400
