package dialect

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// flatOutput writes the records of mini-claw and claw0.
type flatOutput struct {
	*lines
	claw0 bool
	row   indexRow
	done  func(indexRow)
}

// isoTime is how Python writes a time in UTC.
const isoTime = "2006-01-02T15:04:05.000000+00:00"

func pythonTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(isoTime)
}

// stamp writes the time of a record, if it is known, and the record.
func (f *flatOutput) stamp(o *jsontext.Object, at time.Time) error {
	switch {
	case at.IsZero():
	case f.claw0:
		o.Value("ts", strconv.AppendFloat(nil, float64(at.UnixMicro())/1e6, 'f', -1, 64))
	default:
		o.String("ts", pythonTime(at))
	}
	if at.After(f.row.Updated) {
		f.row.Updated = at
	}
	return f.add(o)
}

func flatRecord(kind string) *jsontext.Object {
	o := jsontext.AppendObject(nil)
	o.String("type", kind)
	return &o
}

func (f *flatOutput) exchange(x *exchange) error {
	if err := f.answer(x); err != nil {
		return err
	}
	for _, r := range x.results {
		o := flatRecord(transcript.TypeToolResult)
		o.String("tool_use_id", r.CallID)
		o.String(f.resultName(), x.resultText(r.ToolResultBlock))
		if r.IsError {
			x.losses["error"]++
		}
		if err := f.stamp(o, r.at); err != nil {
			return err
		}
	}
	texts := x.texts(x.said)
	if len(texts) == 0 {
		return nil
	}
	f.row.count++
	o := flatRecord(transcript.TypeUser)
	o.String("content", strings.Join(texts, "\n"))
	return f.stamp(o, x.saidAt)
}

func (f *flatOutput) resultName() string {
	if f.claw0 {
		return "content"
	}
	return "output"
}

// answer writes a record for each text and each call, and in claw0 for the
// texts between two calls.
func (f *flatOutput) answer(x *exchange) error {
	var texts []string
	say := func() error {
		if len(texts) == 0 {
			return nil
		}
		o := flatRecord(transcript.TypeAssistant)
		if f.claw0 {
			o.Func("content", func(dst []byte) []byte {
				dst = append(dst, '[')
				for i, text := range texts {
					if i > 0 {
						dst = append(dst, ',')
					}
					dst = append(dst, transcript.MarshalBlock(transcript.TextBlock{Text: text})...)
				}
				return append(dst, ']')
			})
		} else {
			o.String("content", texts[0])
		}
		texts = nil
		return f.stamp(o, x.answerAt)
	}
	for _, b := range x.answer {
		c, isCall := b.(transcript.ToolCallBlock)
		if !isCall {
			text, ok := x.text(b)
			if !ok {
				continue
			}
			if texts = append(texts, text); f.claw0 {
				continue
			}
		}
		if err := say(); err != nil {
			return err
		}
		if !isCall {
			continue
		}
		o := flatRecord(transcript.TypeToolUse)
		if f.claw0 {
			o.String("tool_use_id", c.ID)
			o.String("name", c.Name)
		} else {
			o.String("name", c.Name)
			o.String("tool_use_id", c.ID)
		}
		o.Value("input", inputOf(c))
		if err := f.stamp(o, x.answerAt); err != nil {
			return err
		}
	}
	return say()
}

func inputOf(c transcript.ToolCallBlock) []byte {
	if len(c.Input) == 0 {
		return []byte("{}")
	}
	return c.Input
}

// compaction has no place: all messages are there, whatever replaced them.
func (f *flatOutput) compaction(transcript.Entry, transcript.Compaction) (bool, error) {
	return false, nil
}

func (f *flatOutput) entry(*exchange, transcript.Entry) (bool, error) { return false, nil }

func (f *flatOutput) end(Losses) error {
	if f.claw0 {
		f.row.count = f.rows
	}
	if err := f.close(); err != nil {
		return err
	}
	f.done(f.row)
	return nil
}

// miniClawTarget writes transcripts/<key>_<id>.jsonl and sessions.json, which
// lists the sessions by key.
type miniClawTarget struct{ rows []indexRow }

func (m *miniClawTarget) begin(w *Writer, s Session) (output, error) {
	s.ID = sessionID(s)
	s.Key = cmp.Or(s.Key, cmp.Or(s.Agent, "main")+":import:"+s.ID)
	file := w.unique(safeName(strings.ReplaceAll(s.Key, ":", "_")+"_"+s.ID), ".jsonl")
	l, err := w.lines(path.Join("transcripts", file))
	if err != nil {
		return nil, err
	}
	o := flatRecord("session")
	o.String("id", s.ID)
	o.String("key", s.Key)
	o.String("created", pythonTime(s.Created))
	if err := l.add(o); err != nil {
		return nil, err
	}
	out := &flatOutput{lines: l, row: indexRow{Session: s, file: file}}
	out.row.Updated = s.Created
	out.done = func(row indexRow) { m.rows = append(m.rows, row) }
	return out, nil
}

func (m *miniClawTarget) index(w *Writer) error {
	all := jsontext.AppendObject(nil)
	rows := m.byKey()
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		row := rows[key]
		o := jsontext.AppendObject(nil)
		o.String("session_key", key)
		o.String("session_id", row.ID)
		o.String("created_at", pythonTime(row.Created))
		o.String("updated_at", pythonTime(row.Updated))
		o.Int("message_count", int64(row.count))
		o.String("transcript_file", row.file)
		all.Value(key, o.End())
	}
	return w.putJSON("sessions.json", all.End())
}

// byKey gives each session a key of its own: the last used one of a key keeps it,
// and the time of creation is added to the others, as the program does for a new
// session.
func (m *miniClawTarget) byKey() map[string]indexRow {
	rows := map[string]indexRow{}
	var others []indexRow
	slices.Reverse(m.rows)
	slices.SortStableFunc(m.rows, func(a, b indexRow) int { return b.Updated.Compare(a.Updated) })
	for _, row := range m.rows {
		if _, taken := rows[row.Key]; taken {
			others = append(others, row)
			continue
		}
		rows[row.Key] = row
	}
	for _, row := range others {
		own := row.Key + row.Created.UTC().Format("_150405")
		key := own
		for n := 2; rows[key].file != ""; n++ {
			key = fmt.Sprintf("%s_%d", own, n)
		}
		rows[key] = row
	}
	return rows
}

// claw0Target writes agents/<agent>/sessions/<id>.jsonl and
// agents/<agent>/sessions.json.
type claw0Target struct{ agents map[string][]indexRow }

func (c *claw0Target) begin(w *Writer, s Session) (output, error) {
	s.ID, s.Agent = sessionID(s), w.agent(s.Agent)
	file := w.unique(path.Join("agents", s.Agent, "sessions", s.ID), ".jsonl")
	l, err := w.lines(file)
	if err != nil {
		return nil, err
	}
	s.ID = strings.TrimSuffix(path.Base(file), ".jsonl")
	out := &flatOutput{lines: l, claw0: true, row: indexRow{Session: s}}
	out.row.Updated = s.Created
	out.done = func(row indexRow) { c.agents[row.Agent] = append(c.agents[row.Agent], row) }
	return out, nil
}

func (c *claw0Target) index(w *Writer) error {
	for _, agent := range slices.Sorted(maps.Keys(c.agents)) {
		all := jsontext.AppendObject(nil)
		for _, row := range c.agents[agent] {
			o := jsontext.AppendObject(nil)
			o.String("label", row.Title)
			o.String("created_at", pythonTime(row.Created))
			o.String("last_active", pythonTime(row.Updated))
			o.Int("message_count", int64(row.count))
			all.Value(row.ID, o.End())
		}
		if err := w.putJSON(path.Join("agents", agent, "sessions.json"), all.End()); err != nil {
			return err
		}
	}
	return nil
}
