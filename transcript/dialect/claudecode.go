package dialect

import (
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// claudeCode reads the project files of Claude Code: rows with a uuid and the
// uuid of their parent, and rows about the session.
//
// Blocks of an answer are separate rows, with the answer's message ID. Rows
// without words (progress, hooks, errors of the API) are parents like any
// other, and the program often writes them late. So the order of the lines is
// the conversation, and a parent only decides about a branch; see
// claudeBranches. The rows of a helper's conversation are set aside, unless the
// file contains no others.
type claudeCode struct {
	tree
	claudeBranches
	info    []claudeRow                    // of each row
	answers map[string]int                 // message ID -> first row
	ends    map[int]transcript.MessageLine // first row -> how the answer ended
	bounds  []claudeBound
	queue   claudeQueue
	awaited map[string]bool // uuids of parents that do not precede their rows
	tokens  map[int64]int   // before the compaction at an offset
}

// claudeRow holds further data of a row.
type claudeRow struct {
	node   int // the row itself, or the nearest message above a row without words
	answer int // the first row of the answer it is part of, noRow for none
	call   int // the node of the parent of a result, noRow for other rows
	repeat bool
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
	return &claudeCode{
		tree: newTree(), claudeBranches: newClaudeBranches(), answers: map[string]int{}, ends: map[int]transcript.MessageLine{},
		queue: newClaudeQueue(), awaited: map[string]bool{},
	}
}

// Genuine implements the interface of a program.
func (c *claudeCode) Genuine(r fields.Record) bool {
	return r.Str("type") != "" && (r["uuid"] != nil || r["sessionId"] != nil)
}

// Decode implements the interface of a program.
func (c *claudeCode) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := r.Str("uuid")
	if id == "" {
		id = fields.AtOffset(offset)
	}
	body, err := claudeBody(r)
	if err != nil {
		return nil, err
	}
	return fields.Entries(id, fields.Time(r["timestamp"]), body), nil
}

func claudeBody(r fields.Record) (transcript.Body, error) {
	m := fields.Of(r["message"])
	switch kind := r.Text("type"); kind {
	case "":
		return nil, fields.Malformed("no type")
	case "user", "assistant":
		content, ok := m.Content("content")
		if !ok || r["message"] == nil {
			return nil, fields.Malformed(kind + ` row: unusable "message"`)
		}
		f := transcript.MessageLine{Kind: kind, Role: transcript.Role(kind)}
		f = fields.WithContent(f, content, !jsontext.IsArray(m["content"]))
		switch {
		case r.Flag("isCompactSummary"):
			return transcript.Compaction{Summary: words.Printable(f.Message().Text())}, nil
		case kind == "user":
			return f, nil
		case r.Flag("isApiErrorMessage") || m.Str("model") == "<synthetic>":
			return fields.Aside("excluded"), nil
		}
		f.API, f.Model, f.RequestID = "anthropic", m.Str("model"), r.Str("requestId")
		f.StopReason = transcript.StopReason(m.Str("stop_reason"))
		u := fields.Of(m["usage"])
		f.Usage = transcript.Usage{
			Input: u.Number("input_tokens"), Output: u.Number("output_tokens"),
			CacheRead: u.Number("cache_read_input_tokens"), CacheWrite: u.Number("cache_creation_input_tokens"),
		}
		return f, nil
	case "custom-title":
		title := r.Str("customTitle")
		return transcript.Meta{Title: &title}, nil
	case "attachment":
		prompt := queuedPrompt(r)
		if content, ok := prompt.Content("prompt"); ok && prompt != nil {
			f := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}
			return fields.WithContent(f, content, !jsontext.IsArray(prompt["prompt"])), nil
		}
		return fields.Aside(kind), nil
	case "system", "progress", "summary", "ai-title", "tag", "file-history-snapshot", "queue-operation", "last-prompt", "agent-name":
		return fields.Aside(kind), nil
	default:
		return transcript.Unknown{Kind: kind}, nil
	}
}

// Learn implements the interface of a program.
func (c *claudeCode) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	uuid := r.Str("uuid")
	if uuid == "" {
		return
	}
	f, said := made[0].Body.(transcript.MessageLine)
	_, summary := made[0].Body.(transcript.Compaction)
	boundary := r.Str("subtype") == "compact_boundary"
	row := treeRow{offset: offset, entry: uuid, said: said, side: r.Flag("isSidechain"), parent: noRow}
	info := claudeRow{answer: noRow, call: noRow}
	_, info.repeat = c.byID[uuid]
	if info.repeat {
		row.entry, uuid = fields.AtOffset(offset), ""
	} else if said && !row.side {
		info.repeat = c.queue.repeats(r, f)
	}
	n := len(c.rows)
	up := r.Str("parentUuid")
	if boundary && up == "" {
		up = r.Str("logicalParentUuid")
	}
	above, known := c.byID[up]
	if !known && up != "" {
		c.awaited[up] = true
	}
	known = known && c.rows[above].side == row.side
	info.node = noRow
	if known {
		info.node = c.info[above].node
	}
	part, branch := talk, noRow
	if row.side {
		part = helpers
	}
	switch m := moveOf(r, f); {
	case info.repeat, !said && !summary && !boundary: // without words of its own
		if info.node = c.nearest(info.node, part); info.node != noRow {
			branch = c.of[info.node]
		}
	case !known && (row.side || up == "" && m != follows && !c.awaited[uuid]):
		branch = c.root(n, part)
	default:
		if hasResult(f) {
			info.call = info.node
		}
		if c.awaited[uuid] {
			m = follows
		}
		row.parent, branch = c.put(n, claudeParent{node: info.node, direct: known && info.node == above}, m, part)
	}
	c.of = append(c.of, branch)
	if n = c.add(uuid, row); !info.repeat && (said || summary || boundary) {
		info.node = n
	}
	if said && f.Role == transcript.RoleAssistant {
		info.answer = c.answer(n, r, f, info.repeat)
	}
	c.info = append(c.info, info)
	if summary || boundary {
		meta := fields.Of(r["compactMetadata"])
		c.bounds = append(c.bounds, claudeBound{n, summary, fields.Of(meta["preservedSegment"]).Str("headUuid"), meta.Number("preTokens")})
	}
}

// answer returns the first row of the answer that row n is part of. A repeat is
// only itself.
func (c *claudeCode) answer(n int, r fields.Record, f transcript.MessageLine, repeat bool) int {
	first := n
	if id := fields.Of(r["message"]).Str("id"); id != "" && !repeat {
		if _, ok := c.answers[id]; !ok {
			c.answers[id] = n
		}
		first = c.answers[id]
	}
	if first != n { // only the last row is complete
		c.ends[first] = transcript.MessageLine{StopReason: f.StopReason, Usage: f.Usage}
	} else if !repeat {
		c.branches[c.of[n]].answer = n
	}
	return first
}

// Settle implements the interface of a program.
func (c *claudeCode) Settle() {
	c.leaf = c.end()
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
		case info.call != noRow:
			row.live = c.rows[info.call].live && c.info[info.call].answer != noRow
		}
	}
	c.kept, c.tokens = map[int64]fields.Kept{}, map[int64]int{}
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
			if first := c.keep(0, b.row).First; first != "" { // it replaces something
				c.kept[row.offset] = c.keep(from, b.row)
				c.tokens[row.offset] = last.tokens
			}
		}
		last = b
	}
}

// Place implements the interface of a program.
func (c *claudeCode) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	if i := c.index(offset); i >= 0 && c.info[i].repeat {
		made[0].ID = c.rows[i].entry
		return fields.SetAside(made, "repeat")
	}
	made = c.tree.Place(offset, made)
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
