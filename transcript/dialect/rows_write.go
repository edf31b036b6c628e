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

// rowTarget writes files of rows. OpenClaw alone has an index.
type rowTarget struct {
	dialect Dialect
	agents  map[string][]indexRow // of OpenClaw
	ids     map[string]bool       // of the written sessions
}

func (r *rowTarget) begin(w *Writer, s Session) (output, error) {
	out := &rowOutput{target: r, writer: w, row: indexRow{Session: s}}
	out.to, out.log = rowWriters[r.dialect]()
	if out.inOpenClaw() {
		out.row.Agent = w.agent(s.Agent)
	}
	as := rows.Session{ID: s.ID, Key: s.Key, Agent: out.row.Agent, Title: s.Title, Dir: cmp.Or(s.Dir, "/"), Created: s.Created}
	id, file := out.to.Start(as)
	if r.ids[id] && r.dialect != Pi { // by an agent's session of that ID
		out.to, out.log = rowWriters[r.dialect]()
		as.ID = rows.UUID(s.Agent + "/" + cmp.Or(s.ID, s.Key))
		id, file = out.to.Start(as)
	}
	r.ids[id] = true
	out.row.Updated = s.Created
	out.row.ID, out.row.file = id, w.unique(file, ".jsonl")
	origin := rows.Object()
	origin.OptString("session", cmp.Or(s.Origin, s.ID))
	origin.OptString("agent", s.Agent)
	out.log.Rows[0].Value(rows.Own, origin.End())
	return out, nil
}

// rowOutput holds the rows of a session until its end.
type rowOutput struct {
	target *rowTarget
	writer *Writer
	to     rowWriter
	log    *rows.Log
	row    indexRow
}

// inOpenClaw reports whether the key of the session is one of OpenClaw.
func (r *rowOutput) inOpenClaw() bool {
	return r.target.dialect == Pi && strings.HasPrefix(r.row.Key, "agent:")
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
	if err := l.close(); err != nil {
		return err
	}
	if r.inOpenClaw() {
		r.target.agents[r.row.Agent] = append(r.target.agents[r.row.Agent], r.row)
	}
	return nil
}

// index writes the sessions of OpenClaw by their keys, the last used one of each.
func (r *rowTarget) index(w *Writer) error {
	for _, agent := range slices.Sorted(maps.Keys(r.agents)) {
		byKey := map[string]indexRow{}
		for _, row := range r.agents[agent] {
			if before, twice := byKey[row.Key]; !twice || !before.Updated.After(row.Updated) {
				byKey[row.Key] = row
			}
		}
		all := jsontext.AppendObject(nil)
		for _, key := range slices.Sorted(maps.Keys(byKey)) {
			row := byKey[key]
			o := rows.Object("sessionId", row.ID, "sessionFile", path.Base(row.file), "updatedAt", rows.Milliseconds(row.Updated))
			if !row.Created.IsZero() {
				o.Int("sessionStartedAt", rows.Milliseconds(row.Created))
			}
			o.OptString("displayName", row.Title)
			all.Value(key, o.End())
		}
		if err := w.putJSON(path.Join("agents", agent, "sessions", "sessions.json"), all.End()); err != nil {
			return err
		}
	}
	return nil
}
