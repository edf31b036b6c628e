package dialect

import (
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
)

// claudeCode reads the project files of Claude Code: rows with a uuid and the
// uuid of their parent, and rows about the session.
//
// Blocks of an answer are separate rows, with the answer's message ID. The
// result of a call names the row of that call as its parent, so of calls that
// ran at once only one is on the path to the leaf. The other rows of an answer
// on the path belong to the conversation all the same, and so do the results
// that are their children. The rows of a helper's conversation are set aside,
// unless the file contains no others.
type claudeCode struct {
	tree
	info    []claudeRow                    // of each row
	answers map[string]int                 // message ID -> first row
	ends    map[int]transcript.MessageLine // first row -> how the answer ended
	bounds  []claudeBound
	helper  int           // the last row of a helper
	tokens  map[int64]int // before the compaction at an offset
}

// claudeRow holds further data of a row.
type claudeRow struct {
	answer int // the first row of the answer it is part of, noRow for none
	result bool
	repeat bool // there is a row with its uuid already
}

// claudeBound is a row that marks the place of a compaction or holds its
// summary.
type claudeBound struct {
	row     int
	summary bool
	kept    string // uuid of the first kept row, if any
	tokens  int
}

func newClaudeCode() *claudeCode {
	return &claudeCode{tree: newTree(), answers: map[string]int{}, ends: map[int]transcript.MessageLine{}, helper: noRow}
}

func (c *claudeCode) genuine(r record) bool {
	return r.str("type") != "" && (r["uuid"] != nil || r["sessionId"] != nil)
}

func (c *claudeCode) decode(r record, offset int64) ([]transcript.Entry, error) {
	id := r.str("uuid")
	if id == "" {
		id = atOffset(offset)
	}
	body, err := claudeBody(r)
	if err != nil {
		return nil, err
	}
	return one(id, r, "timestamp", body), nil
}

func claudeBody(r record) (transcript.Body, error) {
	m := object(r["message"])
	switch kind := r.text("type"); kind {
	case "":
		return nil, malformed("no type")
	case "user", "assistant":
		content, ok := m.content("content")
		if !ok || r["message"] == nil {
			return nil, malformed(kind + ` row: unusable "message"`)
		}
		f := transcript.MessageLine{Kind: kind, Role: transcript.Role(kind)}
		f = withContent(f, content, !jsontext.IsArray(m["content"]))
		switch {
		case r.flag("isCompactSummary"):
			return transcript.Compaction{Summary: words.Printable(f.Message().Text())}, nil
		case kind == "user":
			return f, nil
		case r.flag("isApiErrorMessage") || m.str("model") == "<synthetic>":
			return aside("excluded"), nil
		}
		f.API, f.Model, f.RequestID = "anthropic", m.str("model"), r.str("requestId")
		f.StopReason = transcript.StopReason(m.str("stop_reason"))
		u := object(m["usage"])
		f.Usage = transcript.Usage{
			Input: u.number("input_tokens"), Output: u.number("output_tokens"),
			CacheRead: u.number("cache_read_input_tokens"), CacheWrite: u.number("cache_creation_input_tokens"),
		}
		return f, nil
	case "custom-title":
		title := r.str("customTitle")
		return transcript.Meta{Title: &title}, nil
	case "system", "progress", "summary", "ai-title", "tag", "file-history-snapshot", "queue-operation", "last-prompt", "agent-name":
		return aside(kind), nil
	default:
		return transcript.Unknown{Kind: kind}, nil
	}
}

func (c *claudeCode) learn(r record, line []byte, offset int64, made []transcript.Entry) {
	uuid := r.str("uuid")
	if uuid == "" {
		return
	}
	f, said := made[0].Body.(transcript.MessageLine)
	_, summary := made[0].Body.(transcript.Compaction)
	boundary := r.str("subtype") == "compact_boundary"
	row := treeRow{offset: offset, entry: uuid, said: said, side: r.flag("isSidechain"), parent: noRow}
	switch up := r.str("parentUuid"); {
	case up != "":
		row.parent = c.parent(up, row.side)
	case boundary:
		row.parent = c.parent(r.str("logicalParentUuid"), row.side)
	case summary:
		row.parent = c.leaf
	}
	info := claudeRow{answer: noRow}
	if _, info.repeat = c.byID[uuid]; info.repeat {
		row.entry, uuid = atOffset(offset), ""
	}
	n := c.add(uuid, row)
	if said && f.Role == transcript.RoleAssistant {
		info.answer = n
		if id := object(r["message"]).str("id"); id != "" && !info.repeat {
			if _, ok := c.answers[id]; !ok {
				c.answers[id] = n
			}
			info.answer = c.answers[id]
		}
		if info.answer != n { // only the last row is complete
			c.ends[info.answer] = transcript.MessageLine{StopReason: f.StopReason, Usage: f.Usage}
		}
	}
	for _, b := range f.Content {
		if _, ok := b.(transcript.ToolResultBlock); ok {
			info.result = true
		}
	}
	c.info = append(c.info, info)
	if summary || boundary {
		meta := object(r["compactMetadata"])
		c.bounds = append(c.bounds, claudeBound{n, summary, object(meta["preservedSegment"]).str("headUuid"), meta.number("preTokens")})
	}
	switch {
	case info.repeat:
	case row.side:
		c.helper = n
	default:
		c.leaf = n
	}
}

// parent returns the row with a uuid. If it is missing, a helper's row is a
// root: the rows before it belong to another conversation.
func (c *claudeCode) parent(uuid string, side bool) int {
	if _, ok := c.byID[uuid]; !ok && side {
		return noRow
	}
	return c.tree.parent(uuid)
}

func (c *claudeCode) settle() {
	if c.leaf == noRow {
		c.leaf = c.helper
	}
	c.walk()
	live := map[int]bool{} // the answers of the path, by their first row
	for i, info := range c.info {
		if c.rows[i].live && info.answer != noRow {
			live[info.answer] = true
		}
	}
	for i, info := range c.info {
		row := &c.rows[i]
		switch {
		case row.live || info.repeat:
		case info.answer != noRow:
			row.live = live[info.answer]
		case info.result && row.parent != noRow:
			row.live = c.rows[row.parent].live && c.info[row.parent].answer != noRow
		}
	}
	c.kept, c.tokens = map[int64]keeper{}, map[int64]int{}
	var last claudeBound
	for _, b := range c.bounds {
		row := c.rows[b.row]
		if !row.live {
			continue
		}
		if b.summary {
			from := b.row
			if n, ok := c.byID[last.kept]; ok && c.rows[n].live {
				from = n
			}
			if first := c.keep(0, b.row).first; first != "" { // it replaces something
				c.kept[row.offset] = c.keep(from, b.row)
				c.tokens[row.offset] = last.tokens
			}
		}
		last = b
	}
}

func (c *claudeCode) place(offset int64, made []transcript.Entry) []transcript.Entry {
	made = c.tree.place(offset, made)
	switch b := made[0].Body.(type) {
	case transcript.Compaction:
		if _, ok := c.kept[offset]; !ok { // of an earlier file: here it is the first message
			text := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}
			made[0].Body = text.WithContent(transcript.TextBlock{Text: b.Summary})
			break
		}
		b.TokensBefore = c.tokens[offset]
		made[0].Body = b
	case transcript.MessageLine:
		i := c.index(offset)
		if i < 0 || c.info[i].answer == noRow {
			break
		}
		if c.info[i].answer == i {
			if end, ok := c.ends[i]; ok {
				b.StopReason, b.Usage = end.StopReason, end.Usage
				made[0].Body = b
			}
			break
		}
		b.Of = c.rows[c.info[i].answer].entry
		b.API, b.Model, b.StopReason, b.Usage, b.RequestID = "", "", "", transcript.Usage{}, ""
		made[0].Body = b
	}
	return made
}
