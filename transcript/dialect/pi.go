package dialect

import (
	"slices"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/internal/words"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// pi reads the transcripts of pi and of OpenClaw: a header and a tree of
// entries. Version 1 is a list without IDs, whose compactions name their first
// kept line by number. The members of a record show its version, not the
// header, because programs mix versions.
//
// The leaf is the last entry, or the target of the last leaf record; an entry
// marked as outside of the conversation is never the leaf.
type pi struct {
	tree
	lines []int // the row of each record; noRow for a header
	marks []piMark
	edits []piEdit

	changes map[int64]piEdit // by offset of the row that is edited
}

// piMark is a compaction: its row and the first row it keeps, noRow if that is
// not known.
type piMark struct{ row, from int }

// piEdit replaces the content of a row, or takes the row out.
type piEdit struct {
	row, target int
	content     []byte // nil takes it out
}

// Genuine implements the interface of a program.
func (p *pi) Genuine(r fields.Record) bool {
	return r.Str("type") != "" && r["timestamp"] != nil && (r["id"] != nil || r["message"] != nil)
}

// Decode implements the interface of a program.
func (p *pi) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	id := r.Str("id")
	if id == "" {
		id = fields.AtOffset(offset)
	}
	body, err := piBody(r)
	if err != nil {
		return nil, err
	}
	return fields.Entries(id, fields.Time(r["timestamp"]), body), nil
}

func piBody(r fields.Record) (transcript.Body, error) {
	switch kind := r.Text("type"); kind {
	case "":
		return nil, fields.Malformed("no type")
	case "session":
		return transcript.Header{Created: fields.Time(r["timestamp"])}, nil
	case "message":
		return piMessage(fields.Of(r["message"]))
	case "custom_message":
		return piUser(r["content"])
	case "branch_summary":
		if r.Str("summary") == "" {
			return fields.Aside(kind), nil
		}
		return piText(piBranchHeading + "\n\n<summary>\n" + words.Printable(r.Str("summary")) + "\n</summary>"), nil
	case "compaction":
		return transcript.Compaction{
			Summary: r.Text("summary"), FirstKept: r.Text("firstKeptEntryId"),
			TokensBefore: r.Number("tokensBefore"), TokensAfter: r.Number("tokensAfter"),
		}, nil
	case "reset": // hides earlier entries, without a summary
		return transcript.Compaction{FirstKept: r.Text("firstKeptEntryId")}, nil
	case "session_info":
		name := r.Str("name")
		return transcript.Meta{Title: &name}, nil
	case "thinking_level_change", "model_change", "usage", "custom", "label", "leaf", "context_edit":
		return fields.Aside(kind), nil
	default:
		return transcript.Unknown{Kind: kind}, nil
	}
}

// Learn implements the interface of a program.
func (p *pi) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	if _, ok := made[0].Body.(transcript.Header); ok {
		p.lines = append(p.lines, noRow)
		if len(p.lines) == 1 {
			p.header = made[0].ID
		}
		return
	}
	kind := r.Str("type")
	_, said := made[0].Body.(transcript.MessageLine)
	row := treeRow{offset: offset, entry: made[0].ID, said: said, parent: p.leaf, side: r.Str("appendMode") == "side"}
	if v, ok := jsontext.Member(made[0].Line(), "parentId"); ok {
		row.parent = noRow
		if !jsontext.IsNull(v) {
			row.parent = p.parent(r.Text("parentId"))
		}
	}
	n := p.add(r.Str("id"), row)
	p.lines = append(p.lines, n)
	switch {
	case kind == "leaf":
		p.leaf = row.parent
		if target := r["targetId"]; target == nil {
			p.leaf = noRow
		} else if at, ok := p.byID[r.Text("targetId")]; ok {
			p.leaf = at
		}
		return
	case !row.side:
		p.leaf = n
	}
	switch kind {
	case "compaction", "reset":
		p.marks = append(p.marks, piMark{n, p.firstKept(r, n)})
	case "context_edit":
		if target, ok := p.byID[r.Text("targetId")]; ok {
			p.edits = append(p.edits, piEdit{n, target, slices.Clone(r["replacement"])})
		}
	}
}

// firstKept returns the row that a compaction keeps first. The record names an
// ID, its own for no row, or the number of a line, 0 for the header.
func (p *pi) firstKept(r fields.Record, marker int) int {
	if id := r.Str("firstKeptEntryId"); id != "" {
		if n, ok := p.byID[id]; ok {
			return n
		}
		return noRow
	}
	if r["firstKeptEntryIndex"] != nil {
		if n := r.Number("firstKeptEntryIndex"); n > 0 && n < len(p.lines) {
			return max(p.lines[n], 0)
		}
		return noRow
	}
	if r.Str("type") == "reset" {
		return marker
	}
	return noRow
}

// Settle implements the interface of a program.
func (p *pi) Settle() {
	p.walk()
	p.changes, p.kept = map[int64]piEdit{}, map[int64]fields.Kept{}
	for _, e := range p.edits {
		if target := &p.rows[e.target]; p.rows[e.row].live && target.live && target.said {
			p.changes[target.offset] = e
		}
	}
	for _, e := range p.changes {
		p.rows[e.target].said = e.content != nil
	}
	for _, m := range p.marks {
		if row := p.rows[m.row]; row.live && m.from != noRow && (m.from == m.row || p.rows[m.from].live) {
			p.kept[row.offset] = p.keep(m.from, m.row)
		}
	}
}

// Place implements the interface of a program.
func (p *pi) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	made = p.tree.Place(offset, made)
	f, ok := made[0].Body.(transcript.MessageLine)
	e, edited := p.changes[offset]
	switch {
	case !ok || !edited:
		return made
	case e.content == nil:
		return fields.SetAside(made, "omitted")
	}
	content, plain, ok := piContent(e.content)
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
