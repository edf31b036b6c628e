// Package gemini reads the chats of Gemini CLI: a document for each session in older
// versions, and since then a file of lines.
//
// A message is written again when it changes, so the last line with its ID counts. A
// line may take messages back, or replace all of them.
package gemini

import (
	"cmp"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// The API that answers come from.
const api = "gemini"

// A Reader reads one session.
type Reader struct {
	rows   []row
	byAt   map[int64]int  // of lines: the first row
	latest map[string]int // by ID of the message
	header bool
	// The results of all lines, and those that an earlier line holds as well: with its
	// call, and in a message of the user.
	results []result
	twice   map[result]bool
}

// result is an entry with the result of a call.
type result struct {
	row           int
	offset        int64
	entry, callID string
}

// row is a message in a line.
type row struct {
	id   string
	gone string // the name of the aside that it has become
}

// New returns a reader of one session.
func New() *Reader {
	return &Reader{byAt: map[int64]int{}, latest: map[string]int{}, twice: map[result]bool{}}
}

// Head implements the interface of a program with documents.
func (*Reader) Head(r fields.Record) fields.Head {
	return fields.Head{ID: r.Str("sessionId"), Title: r.Str("summary"), Created: fields.Time(r["startTime"])}
}

// Genuine implements the interface of a program.
func (*Reader) Genuine(r fields.Record) bool {
	return r.Str("id") != "" && r["timestamp"] != nil && r["type"] != nil
}

// Decode implements the interface of a program.
func (*Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := fields.AtOffset(offset)
	set := r.Object("$set")
	switch {
	case r.Str("sessionId") != "" && r["projectHash"] != nil:
		header := fields.Entries(r.Str("sessionId"), fields.Time(r["startTime"]), transcript.Header{Created: fields.Time(r["startTime"])})
		return header, nil
	case r["$rewindTo"] != nil:
		return fields.Entries(id, fields.Time(nil), fields.Aside("$rewindTo")), nil
	case set["messages"] != nil:
		var made []transcript.Entry
		for m := range set.Objects("messages") {
			made = append(made, entries(m, id+"/"+m.Str("id"))...)
		}
		if len(made) == 0 {
			made = fields.Entries(id, fields.Time(nil), fields.Aside("$set"))
		}
		return made, nil
	case set.Str("summary") != "":
		return fields.Entries(id, fields.Time(nil), transcript.Meta{Title: new(set.Str("summary"))}), nil
	case r["$set"] != nil:
		return fields.Entries(id, fields.Time(nil), fields.Aside("$set")), nil
	case r.Str("type") == "":
		return nil, fields.Malformed("no type")
	}
	return entries(r, id), nil
}

// entries returns the entries of a message.
func entries(r fields.Record, id string) []transcript.Entry {
	if !strings.Contains(id, "/") {
		id = cmp.Or(r.Str("id"), id)
	}
	return fields.Entries(id, fields.Time(r["timestamp"]), bodies(r)...)
}

// Learn implements the interface of a program.
func (c *Reader) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	c.learn(r, offset)
	for _, e := range made {
		if n := c.row(offset, e.ID); n >= 0 {
			for _, callID := range resultsOf(e) {
				c.results = append(c.results, result{n, offset, e.ID, callID})
			}
		}
	}
}

// resultsOf returns the IDs of the calls whose results an entry holds.
func resultsOf(e transcript.Entry) []string {
	f, _ := e.Body.(transcript.MessageLine)
	var ids []string
	for _, b := range f.Content {
		if r, ok := b.(transcript.ToolResultBlock); ok {
			ids = append(ids, r.CallID)
		}
	}
	return ids
}

// row returns the row of an entry in the line at an offset, else -1.
func (c *Reader) row(offset int64, entry string) int {
	n, ok := c.byAt[offset]
	if !ok || n == len(c.rows) {
		return -1
	}
	if _, message, ok := strings.Cut(entry, "/"); ok && strings.HasPrefix(entry, "@") { // of all messages
		message, _, _ = strings.Cut(message, "#")
		for ; n < len(c.rows); n++ {
			if c.rows[n].id == message {
				return n
			}
		}
		return -1
	}
	return n
}

func (c *Reader) learn(r fields.Record, offset int64) {
	set := r.Object("$set")
	switch {
	case r["$rewindTo"] != nil:
		from := slices.IndexFunc(c.rows, func(m row) bool { return m.gone == "" && m.id == r.Str("$rewindTo") })
		for i := max(from, 0); i < len(c.rows); i++ {
			c.drop(i, "branch")
		}
	case set["messages"] != nil:
		var all []string
		for m := range set.Objects("messages") {
			all = append(all, m.Str("id"))
		}
		for i := range c.rows {
			if slices.Contains(all, c.rows[i].id) {
				c.drop(i, "repeat")
			}
			c.drop(i, "branch")
		}
		c.add(offset, all...)
	case r.Str("id") != "" && r["sessionId"] == nil:
		c.add(offset, r.Str("id"))
	}
}

// add adds the messages of a line. Earlier lines with their IDs no longer count.
func (c *Reader) add(offset int64, ids ...string) {
	c.byAt[offset] = len(c.rows)
	for _, id := range ids {
		if n, ok := c.latest[id]; ok {
			c.drop(n, "repeat")
		}
		c.latest[id] = len(c.rows)
		c.rows = append(c.rows, row{id: id})
	}
}

func (c *Reader) drop(i int, as string) {
	if c.rows[i].gone == "" {
		c.rows[i].gone = as
	}
}

// Settle implements the interface of a program.
func (c *Reader) Settle() {
	seen := map[string]bool{}
	for _, r := range c.results {
		switch {
		case c.rows[r.row].gone != "":
		case seen[r.callID]:
			c.twice[r] = true
		default:
			seen[r.callID] = true
		}
	}
}

// Place implements the interface of a program.
func (c *Reader) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	if _, ok := made[0].Body.(transcript.Header); ok {
		if c.header {
			made[0].ID, made[0].Body = fields.AtOffset(offset), fields.Aside("header")
		}
		c.header = true
	}
	var kept []transcript.Entry
	for _, e := range made {
		n := c.row(offset, e.ID)
		switch {
		case n < 0:
			kept = append(kept, e)
		case c.rows[n].gone != "" && !strings.HasPrefix(e.ID, "@"):
			made = fields.SetAside(made, c.rows[n].gone)
			made[0].ID = fields.AtOffset(offset) // the ID is of the line that counts
			return made
		case c.rows[n].gone != "":
			e.Body = fields.Aside(c.rows[n].gone)
			kept = append(kept, e)
		default:
			ids := resultsOf(e)
			if len(ids) == 0 || !c.twice[result{n, offset, e.ID, ids[0]}] {
				kept = append(kept, e)
			}
		}
	}
	if len(kept) == 0 {
		return fields.SetAside(made, "repeat")
	}
	return kept
}

// bodies returns the bodies of a message.
func bodies(r fields.Record) []transcript.Body {
	switch kind := r.Str("type"); kind {
	case "user":
		blocks, calls := parts(r["content"])
		text := strings.TrimSpace(fields.User(blocks...).Message().Text())
		for _, mark := range []string{"/", "?", "<session_context>", "<hook_context>"} {
			if strings.HasPrefix(text, mark) { // as the program does
				return []transcript.Body{fields.Aside("excluded")}
			}
		}
		bodies := results(calls)
		if len(blocks) > 0 || len(bodies) == 0 {
			bodies = append(bodies, fields.User(blocks...))
		}
		return bodies
	case "gemini":
		return answer(r)
	case "info", "error", "warning":
		return []transcript.Body{fields.Aside(kind)}
	default:
		return []transcript.Body{transcript.Unknown{Kind: kind}}
	}
}

// answer returns an answer and the results of its calls. Content with calls or thoughts
// in it is whole; otherwise these have members of their own.
func answer(r fields.Record) []transcript.Body {
	blocks, _ := parts(r["content"])
	whole := slices.ContainsFunc(blocks, func(b transcript.Block) bool {
		_, call := b.(transcript.ToolCallBlock)
		return call || transcript.IsReasoning(b)
	})
	if !whole {
		var thoughts []transcript.Block
		for t := range r.Objects("thoughts") {
			text := strings.TrimSpace(t.Str("description"))
			if s := t.Str("subject"); s != "" {
				text = strings.TrimSpace("**" + s + "** " + text)
			}
			thoughts = append(thoughts, transcript.ThinkingBlock{Thinking: text})
		}
		blocks = append(thoughts, blocks...)
		for c := range r.Objects("toolCalls") {
			blocks = append(blocks, call(c))
		}
	}
	f := fields.Answer(blocks...)
	f.API, f.Model = api, r.Str("model")
	u := r.Object("tokens")
	cached := u.Number("cached")
	f.Usage = transcript.Usage{Input: max(u.Number("input")-cached, 0), Output: u.Number("output") + u.Number("thoughts"), CacheRead: cached}
	bodies := []transcript.Body{f}
	for c := range r.Objects("toolCalls") {
		status := c.Str("status")
		failed := status == "error" || status == "cancelled"
		switch result := c["result"]; {
		case jsontext.IsArray(result) || jsontext.IsObject(result):
			output, answers := parts(result)
			for _, a := range answers {
				output = append(output, a.Content...)
			}
			bodies = append(bodies, fields.Result(c.Str("id"), failed, output...))
		case result != nil:
			bodies = append(bodies, fields.Result(c.Str("id"), failed, transcript.TextBlock{Text: fields.Text(result)}))
		case failed:
			text := cmp.Or(c.Str("resultDisplay"), status)
			bodies = append(bodies, fields.Result(c.Str("id"), true, transcript.TextBlock{Text: text}))
		}
	}
	return bodies
}

func call(c fields.Record) transcript.ToolCallBlock {
	return transcript.ToolCallBlock{ID: c.Str("id"), Name: c.Str("name"), Input: fields.Input(c["args"], "args")}
}

func results(answers []transcript.ToolResultBlock) []transcript.Body {
	var bodies []transcript.Body
	for _, a := range answers {
		bodies = append(bodies, fields.Result(a.CallID, false, a.Content...))
	}
	return bodies
}

// parts returns the blocks of content: a text, a part, or an array of them; and the
// results in it.
func parts(v []byte) (blocks []transcript.Block, answers []transcript.ToolResultBlock) {
	if s, ok := jsontext.String(v); ok {
		return fields.Texts(s), nil
	}
	elements := [][]byte{v}
	if jsontext.IsArray(v) {
		elements = slices.Collect(jsontext.Elements(v))
	}
	for _, raw := range elements {
		p := fields.Of(raw)
		var extra transcript.Extra
		if s := p.Str("thoughtSignature"); s != "" {
			o := jsontext.AppendObject(nil)
			o.String("thoughtSignature", s)
			extra = transcript.Extra{"ext": o.End()}
		}
		switch {
		case jsontext.IsString(raw):
			blocks = append(blocks, fields.Texts(fields.Text(raw))...)
		case p.Flag("thought"):
			blocks = append(blocks, transcript.ThinkingBlock{Thinking: p.Str("text"), Extra: extra})
		case p["text"] != nil:
			blocks = append(blocks, transcript.TextBlock{Text: p.Str("text"), Extra: extra})
		case p["functionCall"] != nil:
			c := call(p.Object("functionCall"))
			c.Extra = extra
			blocks = append(blocks, c)
		case p["functionResponse"] != nil:
			answers = append(answers, response(p.Object("functionResponse")))
		case p["inlineData"] != nil:
			d := p.Object("inlineData")
			blocks = append(blocks, fields.Media("data:;base64,"+d.Str("data"), d.Str("mimeType"), d.Str("displayName")))
		case p["fileData"] != nil:
			d := p.Object("fileData")
			blocks = append(blocks, fields.Media(d.Str("fileUri"), d.Str("mimeType"), d.Str("displayName")))
		case len(p) > 0:
			blocks = append(blocks, transcript.TextBlock{Text: string(raw)})
		}
	}
	return blocks, answers
}

// response returns a result: the text in the members that the program uses, else the
// JSON of the response.
func response(p fields.Record) transcript.ToolResultBlock {
	r := transcript.ToolResultBlock{CallID: p.Str("id")}
	body := p.Object("response")
	for _, name := range []string{"output", "error"} {
		if body[name] != nil {
			r.Content = append(r.Content, transcript.TextBlock{Text: body.Text(name)})
		}
	}
	if r.Content == nil {
		r.Content = fields.Texts(p.Text("response"))
	}
	media, _ := parts(p["parts"])
	r.Content = append(r.Content, media...)
	return r
}
