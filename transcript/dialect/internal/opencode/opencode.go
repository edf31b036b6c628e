// Package opencode reads what opencode export prints: a session and its messages, with
// parts in the first generation of the program and with content in the second.
//
// A compaction is an answer that is marked as a summary, after a message of the user
// that asks for it. Messages after the place that the session was reverted to are a
// branch.
package opencode

import (
	"cmp"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A Reader reads one session.
type Reader struct {
	revert string // the first message that was taken back
	whole  bool   // all of it was
	rows   []row
	byAt   map[int64]int
	tails  map[string]string // by the message that asks for a compaction: the first that is kept
}

// row is a message.
type row struct {
	id, parent string
	left, said bool
}

// New returns a reader of one session.
func New() *Reader { return &Reader{byAt: map[int64]int{}, tails: map[string]string{}} }

// Head implements the interface of a program with documents.
func (c *Reader) Head(r fields.Record) fields.Head {
	info := r.Object("info")
	back := info.Object("revert")
	c.revert, c.whole = back.Str("messageID"), back["partID"] == nil
	return fields.Head{ID: info.Str("id"), Title: info.Str("title"), Created: fields.Time(info.Object("time")["created"])}
}

// Genuine implements the interface of a program.
func (*Reader) Genuine(fields.Record) bool { return false }

// Decode implements the interface of a program.
func (*Reader) Decode(r fields.Record, offset int64) ([]transcript.Entry, error) {
	info, bodies := r, []transcript.Body(nil)
	if r["info"] != nil {
		info = r.Object("info")
		bodies = first(info, r.Objects("parts"))
	} else {
		bodies = second(r)
	}
	id := cmp.Or(info.Str("id"), fields.AtOffset(offset))
	return fields.Entries(id, fields.Time(info.Object("time")["created"]), bodies...), nil
}

// Learn implements the interface of a program.
func (c *Reader) Learn(r fields.Record, offset int64, made []transcript.Entry) {
	info := r.Object("info")
	for p := range r.Objects("parts") {
		if p.Str("type") == "compaction" {
			c.tails[info.Str("id")] = p.Str("tail_start_id")
		}
	}
	at := row{id: made[0].ID, parent: info.Str("parentID")}
	_, at.said = made[0].Body.(transcript.MessageLine)
	before := len(c.rows) > 0 && c.rows[len(c.rows)-1].left
	reached := len(c.rows) > 0 && c.rows[len(c.rows)-1].id == c.revert
	at.left = c.revert != "" && (before || reached || c.whole && at.id == c.revert)
	c.byAt[offset] = len(c.rows)
	c.rows = append(c.rows, at)
}

// Settle implements the interface of a program.
func (*Reader) Settle() {}

// Place implements the interface of a program.
func (c *Reader) Place(offset int64, made []transcript.Entry) []transcript.Entry {
	n := c.byAt[offset]
	if c.rows[n].left {
		return fields.SetAside(made, "branch")
	}
	if b, ok := made[0].Body.(transcript.Compaction); ok {
		b.FirstKept = c.tails[c.rows[n].parent]
		for i := n - 1; i >= 0 && b.FirstKept == "" && b.CoversTo == ""; i-- {
			if c.rows[i].said {
				b.CoversTo = c.rows[i].id
			}
		}
		made[0].Body = b
	}
	return made
}

// stops are the reasons of the program why an answer ended.
var stops = map[string]transcript.StopReason{
	"stop": transcript.StopEndTurn, "length": transcript.StopMaxTokens, "tool-calls": transcript.StopToolUse, "content-filter": transcript.StopRefusal,
}

// answer returns the lines of an answer: its blocks, with the model and the usage in
// the first, and the results.
func answer(info fields.Record, m *message) []transcript.Body {
	bodies := m.All()
	f, ok := bodies[0].(transcript.MessageLine)
	if !ok || f.Role != transcript.RoleAssistant {
		return bodies
	}
	f.Model = info.Str("modelID")
	provider := info.Str("providerID")
	if model := info.Object("model"); len(model) > 0 {
		f.Model, provider = model.Str("id"), model.Str("providerID")
	}
	if provider == "anthropic" {
		f.API = provider
	}
	f.StopReason = stops[info.Str("finish")]
	if info.Object("error").Str("name") == "MessageAbortedError" {
		f.StopReason = transcript.StopAborted
	}
	u := info.Object("tokens")
	cache := u.Object("cache")
	f.Usage = transcript.Usage{Input: u.Number("input"), Output: u.Number("output"), CacheRead: cache.Number("read"), CacheWrite: cache.Number("write")}
	bodies[0] = f
	return bodies
}

type message struct{ fields.Lines }

// reasoning returns reasoning, with the signature of the provider that checks one.
func reasoning(text string, metadata fields.Record) transcript.Block {
	own := metadata.Object("anthropic")
	if data := own.Str("redactedData"); data != "" {
		return transcript.RedactedThinkingBlock{Data: data}
	}
	return transcript.ThinkingBlock{Thinking: text, Signature: own.Str("signature")}
}
