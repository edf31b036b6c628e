package dialect

import (
	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
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
	case "attachment":
		prompt := queuedPrompt(r)
		if content, ok := prompt.content("prompt"); ok && prompt != nil {
			f := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}
			return withContent(f, content, !jsontext.IsArray(prompt["prompt"])), nil
		}
		return aside(kind), nil
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
	info := claudeRow{answer: noRow, call: noRow}
	_, info.repeat = c.byID[uuid]
	if info.repeat {
		row.entry, uuid = atOffset(offset), ""
	} else if said && !row.side {
		info.repeat = c.queue.repeats(r, f)
	}
	n := len(c.rows)
	up := r.str("parentUuid")
	if boundary && up == "" {
		up = r.str("logicalParentUuid")
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
		meta := object(r["compactMetadata"])
		c.bounds = append(c.bounds, claudeBound{n, summary, object(meta["preservedSegment"]).str("headUuid"), meta.number("preTokens")})
	}
}

// answer returns the first row of the answer that row n is part of. A repeat is
// only itself.
func (c *claudeCode) answer(n int, r record, f transcript.MessageLine, repeat bool) int {
	first := n
	if id := object(r["message"]).str("id"); id != "" && !repeat {
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

func (c *claudeCode) settle() {
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
	if i := c.index(offset); i >= 0 && c.info[i].repeat {
		made[0].ID = c.rows[i].entry
		return setAside(made, "repeat")
	}
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
