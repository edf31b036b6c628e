// Package pi reads the transcripts of pi and of OpenClaw.
package pi

import (
	"cmp"
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
	"github.com/convolog/convolog/transcript/dialect/internal/tree"
)

// A Reader reads the transcripts of pi and of OpenClaw: a header and a tree of
// entries. Version 1 is a list without IDs, whose compactions name their first
// kept line by number. The members of a record show its version, not the
// header, because programs mix versions.
//
// The leaf is the last entry, or the target of the last leaf record; an entry
// marked as outside of the conversation is never the leaf.
type Reader struct {
	tree.Tree
	lines []int // the row of each record; tree.None for a header
	marks []mark
	edits []edit

	changes map[int64]edit // by offset of the row that is edited
}

// mark is a compaction: its row and the first row it keeps, tree.None if that is
// not known.
type mark struct{ row, from int }

// edit replaces the content of a row, or takes the row out.
type edit struct {
	row, target int
	content     []byte // nil takes it out
}

// New returns a reader of one file.
func New() *Reader { return &Reader{Tree: tree.New()} }

// Genuine implements the interface of a program.
func (p *Reader) Genuine(r fields.Record) bool {
	return r.Str("type") != "" && r["timestamp"] != nil && (r["id"] != nil || r["message"] != nil)
}

// Decode implements the interface of a program.
func (p *Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := cmp.Or(r.Str("id"), fields.AtOffset(offset))
	body, err := body(r)
	if err != nil {
		return nil, err
	}
	return fields.Entries(id, fields.Time(r["timestamp"]), body), nil
}

func body(r fields.Record) (transcript.Body, error) {
	switch kind := r.Text("type"); kind {
	case "":
		return nil, fields.Malformed("no type")
	case "session":
		return transcript.Header{Created: fields.Time(r["timestamp"])}, nil
	case "message":
		return message(r.Object("message"))
	case "custom_message":
		return userOf(r["content"])
	case "branch_summary":
		if r.Str("summary") == "" {
			return fields.Aside(kind), nil
		}
		return summary(branchHeading, r), nil
	case "compaction":
		return r.Compacted(), nil
	case "reset": // hides earlier entries, without a summary
		return transcript.Compaction{FirstKept: r.Text("firstKeptEntryId")}, nil
	case "session_info":
		return transcript.Meta{Title: new(r.Str("name"))}, nil
	case "thinking_level_change", "model_change", "usage", "custom", "label", "leaf", "context_edit":
		return fields.Aside(kind), nil
	default:
		return transcript.Unknown{Kind: kind}, nil
	}
}

// Learn implements the interface of a program.
func (p *Reader) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	if _, ok := made[0].Body.(transcript.Header); ok {
		p.lines = append(p.lines, tree.None)
		if len(p.lines) == 1 {
			p.Header = made[0].ID
		}
		return
	}
	kind := r.Str("type")
	_, said := made[0].Body.(transcript.MessageLine)
	row := tree.Row{Offset: offset, Entry: made[0].ID, Said: said, Parent: p.Leaf, Side: r.Str("appendMode") == "side"}
	if v, ok := jsontext.Member(made[0].Line(), "parentId"); ok {
		row.Parent = tree.None
		if !jsontext.IsNull(v) {
			row.Parent = p.Parent(r.Text("parentId"))
		}
	}
	n := p.Add(r.Str("id"), row)
	p.lines = append(p.lines, n)
	switch {
	case kind == "leaf":
		p.Leaf = row.Parent
		if target := r["targetId"]; target == nil {
			p.Leaf = tree.None
		} else if at, ok := p.ByID[r.Text("targetId")]; ok {
			p.Leaf = at
		}
		return
	case !row.Side:
		p.Leaf = n
	}
	switch kind {
	case "compaction", "reset":
		p.marks = append(p.marks, mark{n, p.firstKept(r, n)})
	case "context_edit":
		if target, ok := p.ByID[r.Text("targetId")]; ok {
			p.edits = append(p.edits, edit{n, target, slices.Clone(r["replacement"])})
		}
	}
}

// firstKept returns the row that a compaction keeps first. The record names an
// ID, its own for no row, or the number of a line, 0 for the header.
func (p *Reader) firstKept(r fields.Record, marker int) int {
	if id := r.Str("firstKeptEntryId"); id != "" {
		if n, ok := p.ByID[id]; ok {
			return n
		}
		return tree.None
	}
	if r["firstKeptEntryIndex"] != nil {
		if n := r.Number("firstKeptEntryIndex"); n > 0 && n < len(p.lines) {
			return max(p.lines[n], 0)
		}
		return tree.None
	}
	if r.Str("type") == "reset" {
		return marker
	}
	return tree.None
}

// Settle implements the interface of a program.
func (p *Reader) Settle() {
	p.Walk()
	p.changes, p.Kept = map[int64]edit{}, map[int64]fields.Kept{}
	for _, e := range p.edits {
		if target := &p.Rows[e.target]; p.Rows[e.row].Live && target.Live && target.Said {
			p.changes[target.Offset] = e
		}
	}
	for _, e := range p.changes {
		p.Rows[e.target].Said = e.content != nil
	}
	for _, m := range p.marks {
		if row := p.Rows[m.row]; row.Live && m.from != tree.None && (m.from == m.row || p.Rows[m.from].Live) {
			p.Kept[row.Offset] = p.Keep(m.from, m.row)
		}
	}
}

// Place implements the interface of a program.
func (p *Reader) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	made = p.Tree.Place(offset, made)
	f, ok := made[0].Body.(transcript.MessageLine)
	e, edited := p.changes[offset]
	switch {
	case !ok || !edited:
		return made
	case e.content == nil:
		return fields.SetAside(made, "omitted")
	}
	content, plain, ok := contentOf(e.content)
	if !ok {
		return made
	}
	if f.Kind == transcript.TypeToolResult {
		if r, ok := f.Content[0].(transcript.ToolResultBlock); ok {
			if r.Content = content; plain {
				r = r.WithContent(content...)
			}
			content, plain = []transcript.Block{r}, false
		}
	}
	made[0].Body = fields.WithContent(f, content, plain)
	return made
}
