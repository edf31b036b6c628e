// Package claudecode reads the project files of Claude Code.
package claudecode

import (
	"cmp"
	"strings"

	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/tree"
)

// A Reader reads the project files of Claude Code: rows with a uuid and the
// uuid of their parent, and rows about the session.
//
// Blocks of an answer are separate rows, with the answer's message ID. Rows
// without words (progress, hooks, errors of the API) are parents like any
// other, and the program often writes them late. So the order of the lines is
// the conversation, and a parent only decides about a branch; see
// branchIndex. The rows of a helper's conversation are set aside, unless the
// file contains no others. NewHelper reads them.
type Reader struct {
	tree.Tree
	branchIndex
	info    []rowInfo                      // of each row
	answers map[string]int                 // message ID -> first row
	ends    map[int]transcript.MessageLine // first row -> how the answer ended
	bounds  []bound
	queue   queue
	only    *rowsOf         // the rows to read, nil for all
	awaited map[string]bool // uuids of parents that do not precede their rows
	tokens  map[int64]int   // before the compaction at an offset
}

// rowInfo holds further data of a row.
type rowInfo struct {
	node   int // the row itself, or the nearest message above a row without words
	answer int // the first row of the answer it is part of, tree.None for none
	call   int // the node of the parent of a result, tree.None for other rows
	repeat bool
}

// bound is a row that marks the place of a compaction or holds its
// summary.
type bound struct {
	row     int
	summary bool
	kept    string // uuid of the first kept row, if any
	tokens  int
}

// New returns a reader of one file.
func New() *Reader {
	return &Reader{
		Tree: tree.New(), branchIndex: newBranchIndex(), answers: map[string]int{}, ends: map[int]transcript.MessageLine{},
		queue: newQueue(), awaited: map[string]bool{},
	}
}

// NewHelper returns a reader of one helper in the file of a session. It leaves out the
// rows of others.
func NewHelper(root string) *Reader {
	c := New()
	c.only = &rowsOf{uuids: map[string]bool{root: true}, offsets: map[int64]bool{}}
	return c
}

// Genuine implements the interface of a program.
func (c *Reader) Genuine(r fields.Record) bool {
	return r.Str("type") != "" && (r["uuid"] != nil || r["sessionId"] != nil)
}

// Decode implements the interface of a program.
func (c *Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := cmp.Or(r.Str("uuid"), fields.AtOffset(offset))
	body, err := body(r)
	if err != nil {
		return nil, err
	}
	return fields.Entries(id, fields.Time(r["timestamp"]), body), nil
}

func body(r fields.Record) (transcript.Body, error) {
	m := r.Object("message")
	switch kind := r.Text("type"); kind {
	case "":
		return nil, fields.Malformed("no type")
	case "user", "assistant":
		f, ok := m.Message(kind, "content")
		if !ok || r["message"] == nil {
			return nil, fields.Malformed(kind + ` row: unusable "message"`)
		}
		switch {
		case r.Flag("isCompactSummary"):
			return transcript.Compaction{Summary: words.Printable(f.Message().Text())}, nil
		case kind == "user":
			return f, nil
		case r.Flag("isApiErrorMessage") || m.Str("model") == "<synthetic>":
			return fields.Aside("excluded"), nil
		}
		f.API, f.Model, f.RequestID = api, m.Str("model"), r.Str("requestId")
		f.StopReason = transcript.StopReason(m.Str("stop_reason"))
		f.Usage = m.Object("usage").Usage("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
		return f, nil
	case "custom-title":
		return transcript.Meta{Title: new(r.Str("customTitle"))}, nil
	case "attachment":
		prompt := queuedPrompt(r)
		if f, ok := prompt.Message(transcript.TypeUser, "prompt"); ok && prompt != nil {
			return f, nil
		}
		return fields.Aside(kind), nil
	case "system", "progress", "summary", "ai-title", "tag", "file-history-snapshot", "queue-operation", "last-prompt", "agent-name",
		"api-request", "api-request-blob", "api-request-shape", "atis-latch", "cost-state", "mode", "tools-used":
		return fields.Aside(kind), nil
	default:
		return transcript.Unknown{Kind: kind}, nil
	}
}

// Learn implements the interface of a program.
func (c *Reader) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	uuid := r.Str("uuid")
	if uuid == "" || c.only != nil && !c.only.learn(r, offset) {
		return
	}
	f, said := made[0].Body.(transcript.MessageLine)
	_, summary := made[0].Body.(transcript.Compaction)
	boundary := r.Str("subtype") == "compact_boundary"
	row := tree.Row{Offset: offset, Entry: uuid, Said: said, Side: r.Flag("isSidechain"), Parent: tree.None}
	info := rowInfo{answer: tree.None, call: tree.None}
	_, info.repeat = c.ByID[uuid]
	if info.repeat {
		row.Entry, uuid = fields.AtOffset(offset), ""
	} else if said && !row.Side {
		info.repeat = c.queue.repeats(r, f)
	}
	n := len(c.Rows)
	up := r.Str("parentUuid")
	if boundary && up == "" {
		up = r.Str("logicalParentUuid")
	}
	above, known := c.ByID[up]
	if !known && up != "" {
		c.awaited[up] = true
	}
	known = known && c.Rows[above].Side == row.Side
	info.node = tree.None
	if known {
		info.node = c.info[above].node
	}
	part, branch := talk, tree.None
	if row.Side {
		part = helpers
	}
	switch m := moveOf(r, f); {
	case info.repeat, !said && !summary && !boundary: // without words of its own
		if info.node = c.nearest(info.node, part); info.node != tree.None {
			branch = c.of[info.node]
		}
	case !known && (row.Side || up == "" && m != follows && !c.awaited[uuid]):
		branch = c.root(n, part)
	default:
		if hasResult(f) {
			info.call = info.node
		}
		if c.awaited[uuid] {
			m = follows
		}
		row.Parent, branch = c.put(n, parentRow{node: info.node, direct: known && info.node == above}, m, part)
	}
	c.of = append(c.of, branch)
	if n = c.Add(uuid, row); !info.repeat && (said || summary || boundary) {
		info.node = n
	}
	if said && f.Role == transcript.RoleAssistant {
		info.answer = c.answer(n, r, f, info.repeat)
	}
	c.info = append(c.info, info)
	if summary || boundary {
		meta := r.Object("compactMetadata")
		c.bounds = append(c.bounds, bound{n, summary, meta.Object("preservedSegment").Str("headUuid"), meta.Number("preTokens")})
	}
}

// answer returns the first row of the answer that row n is part of. A repeat is
// only itself.
func (c *Reader) answer(n int, r fields.Record, f transcript.MessageLine, repeat bool) int {
	first := n
	if id := r.Object("message").Str("id"); id != "" && !repeat {
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
func (c *Reader) Settle() {
	c.Leaf = c.end()
	c.Walk()
	live := map[int]bool{} // the answers of the path, by their first row
	for i, info := range c.info {
		if c.Rows[i].Live && info.answer != tree.None {
			live[info.answer] = true
		}
	}
	for i, info := range c.info {
		row := &c.Rows[i]
		switch {
		case row.Live || info.repeat:
		case info.answer != tree.None:
			row.Live = live[info.answer]
		case info.call != tree.None:
			row.Live = c.Rows[info.call].Live && c.info[info.call].answer != tree.None
		}
	}
	c.Kept, c.tokens = map[int64]fields.Kept{}, map[int64]int{}
	var last bound
	for _, b := range c.bounds {
		row := c.Rows[b.row]
		if !row.Live {
			continue
		}
		if b.summary {
			from := b.row
			if n, ok := c.ByID[last.kept]; ok && c.Rows[n].Live {
				from = n
			}
			if first := c.Keep(0, b.row).First; first != "" { // it replaces something
				c.Kept[row.Offset] = c.Keep(from, b.row)
				c.tokens[row.Offset] = last.tokens
			}
		}
		last = b
	}
}

// Place implements the interface of a program.
func (c *Reader) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	if c.only != nil && !c.only.offsets[offset] {
		return nil
	}
	if i := c.Index(offset); i >= 0 && c.info[i].repeat {
		made[0].ID = c.Rows[i].Entry
		return fields.SetAside(made, "repeat")
	}
	made = c.Tree.Place(offset, made)
	switch b := made[0].Body.(type) {
	case transcript.Compaction:
		if _, ok := c.Kept[offset]; !ok { // of an earlier file: here it is the first message
			made[0].Body = fields.User(transcript.TextBlock{Text: b.Summary})
			break
		}
		b.Summary = strings.TrimPrefix(b.Summary, continued)
		b.TokensBefore = c.tokens[offset]
		made[0].Body = b
	case transcript.MessageLine:
		i := c.Index(offset)
		if i < 0 || c.info[i].answer == tree.None {
			break
		}
		if c.info[i].answer == i {
			if end, ok := c.ends[i]; ok {
				b.StopReason, b.Usage = end.StopReason, end.Usage
				made[0].Body = b
			}
			break
		}
		b.Of = c.Rows[c.info[i].answer].Entry
		b.API, b.Model, b.StopReason, b.Usage, b.RequestID = "", "", "", transcript.Usage{}, ""
		made[0].Body = b
	}
	return made
}
