package dialect

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/rows"
)

func (v *vikingOutput) end(losses Losses) error {
	if len(v.early) > 0 {
		losses[transcript.TypeToolResult] += len(v.early)
	}
	a, lost := v.archive()
	if lost > 0 {
		losses["compaction"] += lost
	}
	written := map[string]bool{}
	for _, made := range a.made {
		dir := path.Join(v.dir, "history", fmt.Sprintf("archive_%03d", made.number))
		if err := errors.Join(v.folder(dir, made.messages, made.abstract, made.overview), v.tools(made.messages, written)); err != nil {
			return err
		}
	}
	live := a.live()
	if err := v.tools(live, written); err != nil {
		return err
	}
	var newest vikingArchive
	if n := len(a.made); n > 0 {
		newest = a.made[n-1]
	}
	err := v.folder(v.dir, live, v.abstract(live, newest), newest.overview)
	if err == nil {
		err = v.w.putJSON(path.Join(v.dir, ".meta.json"), v.meta(live, newest))
	}
	if err != nil || len(v.used) == 0 {
		return err
	}
	return v.w.putJSON(path.Join(v.dir, ".relations.json"), v.relations())
}

// folder writes messages with a short and a long summary.
func (v *vikingOutput) folder(dir string, messages []vikingMessage, abstract, overview string) error {
	if err := v.file(path.Join(dir, "messages.jsonl"), messages); err != nil {
		return err
	}
	if err := v.w.put(path.Join(dir, ".abstract.md"), []byte(abstract)); err != nil {
		return err
	}
	return v.w.put(path.Join(dir, ".overview.md"), []byte(overview))
}

func (v *vikingOutput) file(name string, messages []vikingMessage) error {
	l, err := v.w.lines(name)
	if err != nil {
		return err
	}
	for _, m := range messages {
		if _, err := l.buf.Write(v.w.mend(v.line(m))); err != nil {
			return err
		}
	}
	return l.close()
}

// tools writes a file about each call that is over. Of calls with the same ID
// it is about the first one read.
func (v *vikingOutput) tools(messages []vikingMessage, written map[string]bool) error {
	for _, m := range messages {
		for _, p := range m.parts {
			if p.call == nil {
				continue
			}
			dir := strings.ToLower(safeName(p.call.ID)) // on disks that fold case
			had := written[dir]
			written[dir] = true
			if had || !p.call.over() {
				continue
			}
			dir = safeName(p.call.ID)
			if err := v.w.put(path.Join(v.dir, "tools", dir, "tool.json"), v.w.mend(v.record(p.call))); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry takes entries other than messages.
func (v *vikingOutput) entry(x *exchange, e transcript.Entry) (bool, error) {
	switch b := e.Body.(type) {
	case transcript.Commit:
		v.marks = append(v.marks, vikingMark{len(v.messages), b, e.Time})
	case transcript.Extracted:
		v.taught[b.Commit] = b
	case transcript.ToolStatus:
		v.status(x, b, e.Time)
	case transcript.Used:
		v.link(b)
	default:
		return false, nil
	}
	return true, nil
}

func (v *vikingOutput) compaction(e transcript.Entry, c transcript.Compaction) (bool, error) {
	v.marks = append(v.marks, vikingMark{len(v.messages), c, e.Time})
	return true, nil // archive counts those that have no place
}

// abstract returns a line about the beginning of the live messages, or without
// any about the newest archive.
func (v *vikingOutput) abstract(live []vikingMessage, newest vikingArchive) string {
	if len(live) == 0 {
		return newest.abstract
	}
	turns := 0
	for _, m := range v.messages {
		if m.role == transcript.RoleUser {
			turns++
		}
	}
	start := []rune(live[0].first())
	return fmt.Sprintf("%d turns, starting from '%s...'", turns, string(start[:min(len(start), 50)]))
}

func (v *vikingOutput) meta(live []vikingMessage, newest vikingArchive) []byte {
	o := rows.Object("session_id", v.s.ID, "agent_id", rows.Opt(v.s.Agent)) // no folder names the agent
	stamp := func(name string, at time.Time) {
		if !at.IsZero() {
			o.String(name, vikingTime(at))
		}
	}
	stamp("created_at", v.s.Created)
	stamp("updated_at", v.updated())
	o.Int("message_count", int64(len(live)))
	o.Int("commit_count", int64(newest.number))
	counts, total := map[string]int{}, 0
	for _, x := range v.taught {
		for category, c := range x.Counts {
			counts[category] += c.Added + c.Merged
		}
	}
	memories := rows.Object()
	for _, category := range []string{"profile", "preferences", "entities", "events", "cases", "patterns", "tools", "skills"} {
		memories.Int(category, int64(counts[category]))
		total += counts[category]
	}
	memories.Int("total", int64(total))
	o.Value("memories_extracted", memories.End())
	stamp("last_commit_at", newest.at)
	return o.End()
}

// updated returns the time of the newest message, or a later time of the
// session.
func (v *vikingOutput) updated() time.Time {
	last := v.s.Updated
	for _, m := range v.messages {
		if m.at.After(last) {
			last = m.at
		}
	}
	return last
}

func (v *vikingOutput) relations() []byte {
	var links [][]byte
	for i, uri := range v.used {
		uris := [][]byte{jsontext.AppendString(nil, uri)}
		links = append(links, rows.Object("id", fmt.Sprintf("link_%d", i+1), "uris", uris, "reason", "", "created_at", vikingTime(v.updated())).End())
	}
	return rows.Array(links)
}

func (v *vikingOutput) link(b transcript.Used) {
	uris := b.Contexts
	if b.Skill != nil {
		uris = append(slices.Clone(uris), b.Skill.URI)
	}
	for _, uri := range uris {
		if uri != "" && !slices.Contains(v.used, uri) {
			v.used = append(v.used, uri)
		}
	}
}
