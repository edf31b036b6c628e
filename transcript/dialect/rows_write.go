package dialect

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/claudecode"
	"github.com/convolog/convolog/transcript/dialect/internal/codex"
	"github.com/convolog/convolog/transcript/dialect/internal/pi"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// A rowWriter writes the rows of one session.
type rowWriter interface {
	// Start begins the session. It returns its ID, and the name of its file without
	// the extension.
	Start(s rows.Session) (id, file string)
	Message(m rows.Message)
	Compaction(e transcript.Entry, c transcript.Compaction)
	Title(name string, e transcript.Entry)
}

// rowWriters make the writers of programs whose files are rows in a folder without a
// fixed depth. Each returns the log of its rows as well.
var rowWriters = map[Dialect]func() (rowWriter, *rows.Log){
	Pi:         func() (rowWriter, *rows.Log) { w := new(pi.Writer); return w, &w.Log },
	ClaudeCode: func() (rowWriter, *rows.Log) { w := new(claudecode.Writer); return w, &w.Log },
	Codex:      func() (rowWriter, *rows.Log) { w := new(codex.Writer); return w, &w.Log },
}

func beginRows(w *Writer, s Session) (output, error) {
	out := &rowOutput{writer: w, row: newIndexRow(s, "")}
	out.to, out.log = rowWriters[w.dialect]()
	if out.inOpenClaw() {
		out.row.Agent = w.agent(s.Agent)
	}
	as := rows.Session{ID: s.ID, Key: s.Key, Agent: out.row.Agent, Title: s.Title, Dir: cmp.Or(s.Dir, "/"), Created: s.Created}
	id, file := out.to.Start(as)
	if w.ids[id] && w.dialect != Pi { // by an agent's session of that ID
		out.to, out.log = rowWriters[w.dialect]()
		as.ID = rows.UUID(s.Agent + "/" + cmp.Or(s.ID, s.Key))
		id, file = out.to.Start(as)
	}
	w.ids[id] = true
	out.row.ID, out.row.file = id, w.unique(file, ".jsonl")
	out.log.Rows[0].Value(rows.Own, rows.Object("session", rows.Opt(cmp.Or(s.Origin, s.ID)), "agent", rows.Opt(s.Agent)).End())
	return out, nil
}

// rowOutput holds the rows of a session until its end.
type rowOutput struct {
	writer *Writer
	to     rowWriter
	log    *rows.Log
	row    indexRow
}

// inOpenClaw reports whether the key of the session is one of OpenClaw.
func (r *rowOutput) inOpenClaw() bool {
	return r.writer.dialect == Pi && strings.HasPrefix(r.row.Key, "agent:")
}

func (r *rowOutput) exchange(x *exchange) error {
	rest := slices.Clone(x.ids) // of the answer
	drop := func(id string) { rest = slices.DeleteFunc(rest, func(other string) bool { return other == id }) }
	drop(x.saidID)
	for _, result := range x.results {
		drop(result.id)
	}
	say := func(m rows.Message) {
		if m.Time.After(r.row.Updated) {
			r.row.Updated = m.Time
		}
		r.to.Message(m)
	}
	if len(x.answer) > 0 {
		f := x.line
		f.Kind, f.Content = transcript.TypeAssistant, x.answer
		say(rows.Message{MessageLine: f, Entry: x.answerID, More: rest, Time: x.answerAt})
	}
	for _, result := range x.results {
		f := transcript.MessageLine{Kind: transcript.TypeToolResult, Role: transcript.RoleUser, Content: []transcript.Block{result.ToolResultBlock}}
		say(rows.Message{MessageLine: f, Entry: result.id, Time: result.at})
	}
	if len(x.said) > 0 {
		f := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser, Content: x.said}
		if x.saidText && len(x.said) == 1 {
			f = f.WithContent(x.said...)
		}
		say(rows.Message{MessageLine: f, Entry: x.saidID, Time: x.saidAt})
	}
	return nil
}

func (r *rowOutput) compaction(e transcript.Entry, c transcript.Compaction) (bool, error) {
	r.to.Compaction(e, c)
	return true, nil
}

func (r *rowOutput) entry(_ *exchange, e transcript.Entry) (bool, error) {
	m, ok := e.Body.(transcript.Meta)
	if !ok || m.Title == nil {
		return false, nil
	}
	if r.row.Title == "" && *m.Title != "" { // the title of the session wins
		r.to.Title(*m.Title, e)
	}
	return true, nil
}

func (r *rowOutput) end(losses Losses) error {
	for name, n := range r.log.Lost {
		losses[name] += n
	}
	l, err := r.writer.lines(r.row.file)
	if err != nil {
		return err
	}
	for _, row := range r.log.Rows {
		if err := l.add(row); err != nil {
			return err
		}
	}
	if r.inOpenClaw() {
		return l.end(r.row)
	}
	return l.close()
}

// openClawIndex lists the sessions by their keys, the last used one of each.
func openClawIndex(all *jsontext.Object, written []indexRow) {
	byKey := map[string]indexRow{}
	for _, row := range written {
		if before, twice := byKey[row.Key]; !twice || !before.Updated.After(row.Updated) {
			byKey[row.Key] = row
		}
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		row := byKey[key]
		o := rows.Object("sessionId", row.ID, "sessionFile", path.Base(row.file), "updatedAt", rows.Milliseconds(row.Updated))
		if !row.Created.IsZero() {
			o.Int("sessionStartedAt", rows.Milliseconds(row.Created))
		}
		o.OptString("displayName", row.Title)
		all.Value(key, o.End())
	}
}
