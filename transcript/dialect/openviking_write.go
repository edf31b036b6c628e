package dialect

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// vikingTarget writes session/<id>/ with the messages, the archives and the
// files beside them. The folder is the index.
type vikingTarget struct{}

func (vikingTarget) index(*Writer) error { return nil }

func (vikingTarget) begin(w *Writer, s Session) (output, error) {
	s.ID = w.unique(safeName(cmp.Or(s.ID, hexOf(s.Key, 12))), "")
	return &vikingOutput{w: w, s: s, dir: path.Join("session", s.ID), tools: map[string]bool{}}, nil
}

// vikingOutput writes one session. It holds the messages since the last
// compaction, since only that says which of them are archived.
type vikingOutput struct {
	w        *Writer
	s        Session
	dir      string
	live     []vikingMessage
	archives int
	made     int             // messages so far
	tools    map[string]bool // folders in tools/
	used     []string
	first    string // text of the user
	early    []timedResult

	// The archive that was made last; a commit may say more about it.
	overview, abstract string
	undescribed        bool

	turns   int
	updated time.Time
}

type vikingMessage struct {
	line []byte
	ids  []string
	user bool
}

func vikingTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

func (v *vikingOutput) exchange(x *exchange) error {
	if len(x.answer)+len(x.results) > 0 {
		if err := v.answer(x); err != nil {
			return err
		}
	}
	if len(x.said) == 0 {
		return nil
	}
	parts := []byte{'['}
	for _, b := range x.said {
		parts = v.part(parts, x, b)
	}
	if text := x.first(); v.first == "" {
		v.first = text
	}
	v.message(x.saidID, transcript.RoleUser, append(parts, ']'), x.saidAt, x.ids)
	return nil
}

// first returns the first text that the user said.
func (x *exchange) first() string {
	for _, b := range x.said {
		if t, ok := b.(transcript.TextBlock); ok {
			return t.Text
		}
	}
	return ""
}

// answer writes an answer with the results of its calls. A result whose call is
// not in the answer waits for it: mini-claw wrote results first.
func (v *vikingOutput) answer(x *exchange) error {
	results := slices.Clone(x.results)
	parts := []byte{'['}
	for _, b := range x.answer {
		c, ok := b.(transcript.ToolCallBlock)
		if !ok {
			parts = v.part(parts, x, b)
			continue
		}
		var result *timedResult
		for _, from := range []*[]timedResult{&results, &v.early} {
			i := slices.IndexFunc(*from, func(r timedResult) bool { return r.CallID == c.ID })
			if i >= 0 {
				r := (*from)[i]
				result, *from = &r, slices.Delete(*from, i, i+1)
				break
			}
		}
		part, err := v.tool(x, c, result)
		if err != nil {
			return err
		}
		parts = comma(parts)
		parts = append(parts, part...)
	}
	v.early = append(v.early, results...)
	if len(x.answer) > 0 {
		v.message(x.answerID, transcript.RoleAssistant, append(parts, ']'), x.answerAt, x.ids)
	}
	return nil
}

func comma(dst []byte) []byte {
	if len(dst) > 1 {
		dst = append(dst, ',')
	}
	return dst
}

// part appends a text or a context.
func (v *vikingOutput) part(dst []byte, x *exchange, b transcript.Block) []byte {
	o := jsontext.AppendObject(nil)
	switch b := b.(type) {
	case transcript.TextBlock:
		o.String("type", "text")
		o.String("text", b.Text)
	case transcript.ContextBlock:
		o.String("type", "context")
		o.String("uri", b.URI)
		o.String("context_type", b.Kind)
		o.String("abstract", b.Abstract)
	default:
		x.losses[b.BlockType()]++
		return dst
	}
	return append(comma(dst), o.End()...)
}

// tool returns the part of a call and writes the file about it once it has
// ended.
func (v *vikingOutput) tool(x *exchange, c transcript.ToolCallBlock, r *timedResult) ([]byte, error) {
	status, output := "pending", ""
	if r != nil {
		output = x.resultText(r.ToolResultBlock)
		if status = "completed"; r.IsError {
			status = "error"
		}
	}
	skill, _ := jsontext.String(c.Extra["skill_uri"])
	o := jsontext.AppendObject(nil)
	o.String("type", "tool")
	o.String("tool_id", c.ID)
	o.String("tool_name", c.Name)
	o.String("tool_uri", "viking://session/"+v.s.ID+"/tools/"+c.ID)
	o.String("skill_uri", skill)
	o.String("tool_status", status)
	if input := inputOf(c); string(input) != "{}" {
		o.Value("tool_input", input)
	}
	o.OptString("tool_output", output)
	name := safeName(c.ID)
	if r == nil || v.tools[name] {
		return o.End(), nil
	}
	v.tools[name] = true
	t := jsontext.AppendObject(nil)
	t.String("tool_id", c.ID)
	t.String("tool_name", c.Name)
	t.String("session_id", v.s.ID)
	t.Value("input", inputOf(c))
	t.String("output", output)
	t.String("status", status)
	created := jsontext.AppendObject(nil)
	created.String("created", vikingTime(r.at))
	t.Value("time", created.End())
	return o.End(), v.w.put(path.Join(v.dir, "tools", name, "tool.json"), t.End())
}

func (v *vikingOutput) message(id string, role transcript.Role, parts []byte, at time.Time, ids []string) {
	v.made++
	if !strings.HasPrefix(id, "msg_") || strings.Contains(id, "#") {
		id = "msg_" + hexOf(fmt.Sprintf("%s/%d/%s", v.s.ID, v.made, id), 32)
	}
	o := jsontext.AppendObject(nil)
	o.String("id", id)
	o.String("role", string(role))
	o.Value("parts", parts)
	if !at.IsZero() {
		o.String("created_at", vikingTime(at))
		if at.After(v.updated) {
			v.updated = at
		}
	}
	v.live = append(v.live, vikingMessage{line: append(o.End(), '\n'), ids: ids, user: role == transcript.RoleUser})
}

// compaction archives the messages that it does not keep.
func (v *vikingOutput) compaction(_ transcript.Entry, c transcript.Compaction) (bool, error) {
	has := func(id string) int {
		return slices.IndexFunc(v.live, func(m vikingMessage) bool { return id != "" && slices.Contains(m.ids, id) })
	}
	n := len(v.live)
	if i := has(c.FirstKept); i >= 0 {
		n = i
	} else if i := has(c.CoversTo); i >= 0 {
		for n = i + 1; n < len(v.live) && slices.Contains(v.live[n].ids, c.CoversTo); n++ {
		}
	}
	if n == 0 {
		return false, nil
	}
	if err := v.describe(); err != nil {
		return false, err
	}
	v.archives++
	if err := v.file(v.archive("messages.jsonl"), v.live[:n]); err != nil {
		return false, err
	}
	v.live = slices.Clone(v.live[n:])
	v.undescribed = true
	v.overview = c.Summary
	v.abstract, _, _ = strings.Cut(strings.TrimSpace(c.Summary), "\n")
	return true, nil
}

func (v *vikingOutput) archive(name string) string {
	return path.Join(v.dir, "history", fmt.Sprintf("archive_%03d", v.archives), name)
}

// describe writes what is said about the archive that was made last.
func (v *vikingOutput) describe() error {
	if !v.undescribed {
		return nil
	}
	v.undescribed = false
	if err := v.w.put(v.archive(".overview.md"), []byte(v.overview)); err != nil {
		return err
	}
	return v.w.put(v.archive(".abstract.md"), []byte(v.abstract))
}

func (v *vikingOutput) file(name string, messages []vikingMessage) error {
	l, err := v.w.lines(name)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if m.user {
			v.turns++
		}
		if _, err := l.buf.Write(m.line); err != nil {
			return err
		}
	}
	return l.close()
}

func (v *vikingOutput) entry(e transcript.Entry) (bool, error) {
	switch b := e.Body.(type) {
	case transcript.Used:
		for _, uri := range b.Contexts {
			if !slices.Contains(v.used, uri) {
				v.used = append(v.used, uri)
			}
		}
		return true, nil
	case transcript.Commit:
		if v.undescribed { // about the compaction before it
			v.abstract, v.overview = cmp.Or(b.Abstract, v.abstract), cmp.Or(b.Overview, v.overview)
			return true, nil
		}
	}
	return false, nil
}

func (v *vikingOutput) end(losses Losses) error {
	if len(v.early) > 0 {
		losses[transcript.TypeToolResult] += len(v.early)
	}
	if err := v.describe(); err != nil {
		return err
	}
	if err := v.file(path.Join(v.dir, "messages.jsonl"), v.live); err != nil {
		return err
	}
	start := []rune(v.first)
	abstract := fmt.Sprintf("%d turns, starting from '%s...'", v.turns, string(start[:min(len(start), 50)]))
	if err := v.w.put(path.Join(v.dir, ".abstract.md"), []byte(abstract)); err != nil {
		return err
	}
	if err := v.w.put(path.Join(v.dir, ".overview.md"), []byte(v.overview)); err != nil {
		return err
	}
	meta := jsontext.AppendObject(nil)
	meta.String("session_id", v.s.ID)
	if !v.s.Created.IsZero() {
		meta.String("created_at", vikingTime(v.s.Created))
	}
	if updated := v.s.Updated; !updated.IsZero() || !v.updated.IsZero() {
		if v.updated.After(updated) {
			updated = v.updated
		}
		meta.String("updated_at", vikingTime(updated))
	}
	meta.Int("message_count", int64(len(v.live)))
	meta.Int("commit_count", int64(v.archives))
	if err := v.w.putJSON(path.Join(v.dir, ".meta.json"), meta.End()); err != nil {
		return err
	}
	if len(v.used) == 0 {
		return nil
	}
	links := []byte{'['}
	for i, uri := range v.used {
		o := jsontext.AppendObject(nil)
		o.String("id", fmt.Sprintf("link_%d", i+1))
		o.Value("uris", append(jsontext.AppendString([]byte{'['}, uri), ']'))
		o.String("reason", "")
		if !v.updated.IsZero() {
			o.String("created_at", vikingTime(v.updated))
		}
		links = append(comma(links), o.End()...)
	}
	return v.w.putJSON(path.Join(v.dir, ".relations.json"), append(links, ']'))
}
