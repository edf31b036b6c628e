package dialect

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

func beginZyHive(w *Writer, s Session) (output, error) {
	s.Agent = w.agent(s.Agent)
	file := w.unique(path.Join("agents", s.Agent, "sessions", sessionID(s)), ".jsonl")
	s.ID = strings.TrimSuffix(path.Base(file), ".jsonl")
	l, err := w.lines(file)
	if err != nil {
		return nil, err
	}
	header := rows.Object("type", "session", "version", 3, "agentId", s.Agent, "createdAt", milliseconds(s.Created))
	return &zyHiveOutput{lines: l, row: newIndexRow(s, path.Base(file)), places: map[string]zyPlace{}}, l.add(header)
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// zyHiveOutput holds the messages until the end, because a marker precedes the
// first message it keeps: the program drops all messages before its last marker.
// Messages have no IDs there; a marker names the first one it keeps by its
// number, as in the documents, so that both readings are the same.
type zyHiveOutput struct {
	*lines
	row      indexRow
	messages [][]byte // the lines
	markers  []zyMark
	places   map[string]zyPlace // by entry ID
}

// A zyPlace is the numbers, from 1, of the first and the last message that have
// content of an entry, or of the answer whose calls it answers.
type zyPlace struct{ first, last int }

// A zyMark is a compaction before the message kept.
type zyMark struct {
	transcript.Compaction
	at   time.Time
	kept int
}

func (z *zyHiveOutput) exchange(x *exchange) error {
	if err := z.message(x, transcript.RoleAssistant, x.answer, x.answerText, x.answerAt); err != nil {
		return err
	}
	var blocks []transcript.Block
	at := x.saidAt
	for _, r := range x.results {
		r.Extra = nil
		r.Content = z.blocks(x, r.Content)
		blocks = append(blocks, r.ToolResultBlock)
		if at.IsZero() || r.at.After(at) {
			at = r.at
		}
	}
	return z.message(x, transcript.RoleUser, append(blocks, x.said...), x.saidText && len(blocks) == 0, at)
}

func (z *zyHiveOutput) message(x *exchange, role transcript.Role, content []transcript.Block, plain bool, at time.Time) error {
	blocks := z.blocks(x, content)
	if len(blocks) == 0 {
		return nil
	}
	f := transcript.MessageLine{Role: role, Content: blocks}
	if _, isText := blocks[0].(transcript.TextBlock); plain && isText && len(blocks) == 1 {
		f = f.WithContent(blocks...)
	}
	body, err := f.Message().MarshalJSON()
	if err != nil {
		return err
	}
	z.row.count++
	for _, id := range x.ids {
		first := cmp.Or(z.places[id].first, z.row.count)
		z.places[id] = zyPlace{first, z.row.count}
	}
	o := rows.Object("type", "message", "message", body)
	if !at.IsZero() {
		o.Int("timestamp", at.UnixMilli())
	}
	z.messages = append(z.messages, z.w.line(o))
	if at.After(z.row.Updated) {
		z.row.Updated = at
	}
	return nil
}

// blocks returns the blocks allowed in a message there: texts, calls, results
// and images with their data.
func (z *zyHiveOutput) blocks(x *exchange, content []transcript.Block) []transcript.Block {
	out := make([]transcript.Block, 0, len(content))
	for _, b := range content {
		switch b := b.(type) {
		case transcript.ToolCallBlock:
			out = append(out, transcript.ToolCallBlock{ID: b.ID, Name: b.Name, Input: rows.Input(b)})
			continue
		case transcript.ToolResultBlock:
			out = append(out, b)
			continue
		case transcript.ImageBlock:
			if b.Source.Type == "base64" {
				b.Extra = nil
				out = append(out, b)
				continue
			}
		}
		if text, ok := x.text(b); ok {
			out = append(out, transcript.TextBlock{Text: text})
		}
	}
	return out
}

// compaction takes a marker. An earlier marker that keeps less moves to the place
// of this one, which would not be the last otherwise.
func (z *zyHiveOutput) compaction(e transcript.Entry, c transcript.Compaction) (bool, error) {
	kept := z.row.count + 1
	if p, ok := z.places[c.FirstKept]; ok {
		kept = p.first
	} else if p, ok := z.places[c.CoversTo]; ok {
		kept = p.last + 1
	}
	for i := range z.markers {
		z.markers[i].kept = min(z.markers[i].kept, kept)
	}
	z.markers = append(z.markers, zyMark{c, e.Time, kept})
	return true, nil
}

func (m zyMark) record() *jsontext.Object {
	o := rows.Object(
		"type", "compaction", "summary", m.Summary, "firstKeptEntryId", fmt.Sprintf("msg-%d", m.kept),
		"tokensBefore", m.TokensBefore, "tokensAfter", m.TokensAfter,
	)
	if !m.at.IsZero() {
		o.Int("timestamp", m.at.UnixMilli())
	}
	return o
}

func (z *zyHiveOutput) entry(*exchange, transcript.Entry) (bool, error) { return false, nil }

func (z *zyHiveOutput) end(Losses) error {
	for n := 1; n <= len(z.messages)+1; n++ {
		for ; len(z.markers) > 0 && z.markers[0].kept == n; z.markers = z.markers[1:] {
			m := z.markers[0]
			z.row.tokens = int64(len(m.Summary)/4) + 500 // as the program estimates a summary
			if err := z.add(m.record()); err != nil {
				return err
			}
		}
		if n > len(z.messages) {
			break
		}
		line := z.messages[n-1]
		message, _ := jsontext.Member(line, "message")
		content, _ := jsontext.Member(message, "content")
		z.row.tokens += int64(len(content) / 4)
		if err := z.write(line); err != nil {
			return err
		}
	}
	return z.lines.end(z.row)
}

func zyHiveIndex(all *jsontext.Object, written []indexRow) {
	sessions := rows.Object()
	for _, row := range written {
		sessions.Value(row.ID, rows.Object(
			"id", row.ID, "agentId", row.Agent, "filePath", row.file, "title", rows.Opt(row.Title), "messageCount", row.count,
			"createdAt", milliseconds(row.Created), "lastAt", milliseconds(row.Updated), "tokenEstimate", row.tokens,
		).End())
	}
	all.Value("sessions", sessions.End())
}
