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
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

// flatOutput writes the records of mini-claw and claw0.
type flatOutput struct {
	*lines
	claw0 bool
	row   indexRow
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

func (f *flatOutput) exchange(x *exchange) error {
	if err := f.answer(x); err != nil {
		return err
	}
	for _, r := range x.results {
		o := rows.Object("type", transcript.TypeToolResult, "tool_use_id", r.CallID, f.resultName(), x.resultText(r.ToolResultBlock))
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
	return f.stamp(rows.Object("type", transcript.TypeUser, "content", strings.Join(texts, "\n")), x.saidAt)
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
		var content any = texts[0]
		if f.claw0 {
			var blocks [][]byte
			for _, text := range texts {
				blocks = append(blocks, transcript.MarshalBlock(transcript.TextBlock{Text: text}))
			}
			content = blocks
		}
		texts = nil
		return f.stamp(rows.Object("type", transcript.TypeAssistant, "content", content), x.answerAt)
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
		o := rows.Object("type", transcript.TypeToolUse, "name", c.Name, "tool_use_id", c.ID, "input", rows.Input(c))
		if f.claw0 {
			o = rows.Object("type", transcript.TypeToolUse, "tool_use_id", c.ID, "name", c.Name, "input", rows.Input(c))
		}
		if err := f.stamp(o, x.answerAt); err != nil {
			return err
		}
	}
	return say()
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
	return f.lines.end(f.row)
}

func beginMiniClaw(w *Writer, s Session) (output, error) {
	s.ID = sessionID(s)
	s.Key = cmp.Or(s.Key, cmp.Or(s.Agent, "main")+":import:"+s.ID)
	file := w.unique(safeName(strings.ReplaceAll(s.Key, ":", "_")+"_"+s.ID), ".jsonl")
	l, err := w.lines(path.Join("transcripts", file))
	if err != nil {
		return nil, err
	}
	header := rows.Object("type", "session", "id", s.ID, "key", s.Key, "created", pythonTime(s.Created))
	return &flatOutput{lines: l, row: newIndexRow(s, file)}, l.add(header)
}

func beginClaw0(w *Writer, s Session) (output, error) {
	s.ID, s.Agent = sessionID(s), w.agent(s.Agent)
	file := w.unique(path.Join("agents", s.Agent, "sessions", s.ID), ".jsonl")
	s.ID = strings.TrimSuffix(path.Base(file), ".jsonl")
	l, err := w.lines(file)
	return &flatOutput{lines: l, claw0: true, row: newIndexRow(s, "")}, err
}

// miniClawIndex gives each session a key of its own: the last used one of a key keeps it,
// and the time of creation is added to the others, as the program does for a new
// session.
func miniClawIndex(all *jsontext.Object, written []indexRow) {
	byKey := map[string]indexRow{}
	var others []indexRow
	slices.Reverse(written)
	slices.SortStableFunc(written, func(a, b indexRow) int { return b.Updated.Compare(a.Updated) })
	for _, row := range written {
		if _, taken := byKey[row.Key]; taken {
			others = append(others, row)
			continue
		}
		byKey[row.Key] = row
	}
	for _, row := range others {
		own := row.Key + row.Created.UTC().Format("_150405")
		key := own
		for n := 2; byKey[key].file != ""; n++ {
			key = fmt.Sprintf("%s_%d", own, n)
		}
		byKey[key] = row
	}
	for _, key := range slices.Sorted(maps.Keys(byKey)) {
		row := byKey[key]
		all.Value(key, rows.Object(
			"session_key", key, "session_id", row.ID, "created_at", pythonTime(row.Created), "updated_at", pythonTime(row.Updated),
			"message_count", row.count, "transcript_file", row.file,
		).End())
	}
}

func claw0Index(all *jsontext.Object, written []indexRow) {
	for _, row := range written {
		all.Value(row.ID, rows.Object(
			"label", row.Title, "created_at", pythonTime(row.Created), "last_active", pythonTime(row.Updated), "message_count", row.count,
		).End())
	}
}
