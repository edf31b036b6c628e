// Package openviking reads the session folders of OpenViking.
package openviking

import (
	"cmp"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A Folder is the folder of a session: live messages, and archives of
// earlier ones with a summary each.
type Folder struct {
	FS       fs.FS
	Dir      string
	Archives []string
	// Scan reads a file of messages.
	Scan func(name string, r Reader) iter.Seq2[transcript.Record, error]
	// Name returns the name of the folder with the files about a call.
	Name func(callID string) string

	asked map[string]bool // IDs of calls: a file about an ID belongs to the first call with it
}

// Records yields the archived messages, each archive followed by its replacement,
// and then the live messages. A message that is live as well as archived, or in two
// archives, is shown once. An archive without a summary replaces nothing: its
// messages stay. Relations count as used before the last commit, since only a
// commit writes them.
func (v Folder) Records() iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		messages := path.Join(v.Dir, "messages.jsonl")
		live := map[string]bool{}
		for rec, err := range v.scan(messages) {
			if err != nil {
				yield(rec, err)
				return
			}
			live[rec.Entry.ID] = true
		}
		v.asked = map[string]bool{}
		var at time.Time
		say := func(id string, body transcript.Body) bool {
			return yield(transcript.Record{Entry: transcript.Entry{ID: id, Time: at, Body: body}}, nil)
		}
		uris, meta := v.relations(), v.meta()
		sayUsed := func() bool { return len(uris) == 0 || say(".relations.json", transcript.Used{Contexts: uris}) }
		a := archived{Folder: v, known: live, taught: len(meta.memories) > 0}
		for i, dir := range v.Archives {
			if !a.messages(dir, yield) {
				return
			}
			last := i == len(v.Archives)-1
			if last && !sayUsed() {
				return
			}
			if last {
				a.commit.Stats.Contexts, at = len(uris), meta.committed
			}
			id := path.Join("history", path.Base(dir))
			summary := cmp.Or(a.commit.Overview, a.commit.Abstract)
			if strings.TrimSpace(summary) != "" && a.commit.LastEntry != "" {
				if !say(id+"/.overview.md", transcript.Compaction{Summary: summary, CoversTo: a.commit.LastEntry}) {
					return
				}
			}
			if !say(id, a.commit) {
				return
			}
			a.open = append(a.open, id)
			if last && len(meta.memories) > 0 && !say(id+"/.meta.json", transcript.Extracted{Commit: id, Counts: meta.memories}) {
				return
			}
		}
		for rec, err := range v.scan(messages) {
			if !yield(rec, err) || err != nil {
				return
			}
		}
		if len(v.Archives) == 0 {
			sayUsed()
		}
	}
}

// archived reads archives one after the other.
type archived struct {
	Folder
	known  map[string]bool // IDs of messages that are shown elsewhere
	taught bool            // memories were made of the archives
	open   []string        // the commits so far
	commit transcript.Commit
}

// messages yields the messages of an archive and describes it in commit. It
// returns false if the loop has ended.
func (a *archived) messages(dir string, yield func(transcript.Record, error) bool) bool {
	name := path.Base(dir)
	at := path.Join("history", name)
	a.commit = transcript.Commit{
		N: max(a.commit.N+1, archiveNumber(name)), Abstract: a.text(dir, ".abstract.md"), Overview: a.text(dir, ".overview.md"),
		Stats: transcript.CommitStats{Commits: len(a.open) + 1},
	}
	if !a.taught {
		a.commit.Open = slices.Clone(a.open)
	}
	within := false // a run
	for rec, err := range a.scan(path.Join(dir, "messages.jsonl")) {
		e := &rec.Entry
		switch {
		case err != nil || rec.Damage != nil:
		case strings.HasPrefix(e.ID, "@"): // no ID: the file is part of the name
			e.ID = at + e.ID
			a.extend(*e, within)
			within = true
		case a.known[e.ID]:
			e.Body = fields.Aside("repeat")
			e.ID = at + fields.AtOffset(rec.Offset)
			within = false
		default:
			a.known[e.ID] = true
			a.extend(*e, within)
			within = true
		}
		if !yield(rec, err) || err != nil {
			return false
		}
	}
	return true
}

// extend adds an entry to the chapter of the commit, within its last run or in a
// new one.
func (a *archived) extend(e transcript.Entry, within bool) {
	c := &a.commit
	if _, ok := e.Body.(transcript.MessageLine); !ok {
		return // it is about a call of a message
	}
	c.FirstEntry, c.LastEntry = cmp.Or(c.FirstEntry, e.ID), e.ID
	if !within || len(c.Runs) == 0 {
		c.Runs = append(c.Runs, transcript.Run{First: e.ID})
	}
	c.Runs[len(c.Runs)-1].Last = e.ID
	if kind := e.Type(); kind == transcript.TypeUser || kind == transcript.TypeAssistant {
		c.Messages++
	}
}

func (v Folder) scan(name string) iter.Seq2[transcript.Record, error] {
	return v.Scan(name, Reader{Tool: v.tool})
}

// tool returns the members of tool.json about a call.
func (v Folder) tool(id string) fields.Record {
	if v.asked[id] {
		return nil
	}
	if v.asked != nil {
		v.asked[id] = true
	}
	r, err := fields.File(v.FS, path.Join(v.Dir, "tools", v.Name(id), "tool.json"))
	if err != nil || r["tool_id"] != nil && r.Str("tool_id") != id {
		return nil
	}
	return r
}

// text returns a sidecar file, empty if it is not there.
func (v Folder) text(dir, name string) string {
	data, err := fs.ReadFile(v.FS, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(data), "\uFFFD")
}

// A metadata is the part of .meta.json about commits.
type metadata struct {
	committed time.Time                            // of the last one
	memories  map[string]transcript.ExtractedCount // made of all of them, by category
}

func (v Folder) meta() (m metadata) {
	r, err := fields.File(v.FS, path.Join(v.Dir, ".meta.json"))
	if err != nil {
		return m
	}
	m.committed = fields.Time(r["last_commit_at"])
	for category, value := range r.Object("memories_extracted") {
		if n, err := strconv.Atoi(string(value)); err == nil && n > 0 && category != "total" {
			if m.memories == nil {
				m.memories = map[string]transcript.ExtractedCount{}
			}
			m.memories[category] = transcript.ExtractedCount{Added: n}
		}
	}
	return m
}

// relations returns the contexts that the session is linked to, each one once.
func (v Folder) relations() []string {
	data, err := fs.ReadFile(v.FS, path.Join(v.Dir, ".relations.json"))
	if err != nil || !jsontext.Valid(data) {
		return nil
	}
	var uris []string
	var walk func(value []byte, depth int)
	walk = func(value []byte, depth int) {
		switch {
		case depth > 8: // deeper than any of its shapes
		case jsontext.IsArray(value):
			for e := range jsontext.Elements(value) {
				walk(e, depth+1)
			}
		case jsontext.IsObject(value):
			for name, member := range jsontext.Members(value) {
				if name != "uris" {
					walk(member, depth+1)
					continue
				}
				if !jsontext.IsArray(member) {
					continue
				}
				for e := range jsontext.Elements(member) {
					if uri, ok := jsontext.String(e); ok && !slices.Contains(uris, uri) {
						uris = append(uris, uri)
					}
				}
			}
		}
	}
	walk(jsontext.Trim(data), 0)
	return uris
}

// archiveNumber returns the number in the name of an archive, or 0.
func archiveNumber(name string) int {
	n, err := strconv.Atoi(name[strings.LastIndexByte(name, '_')+1:])
	if err != nil || n < 0 || n > mostArchives {
		return 0
	}
	return n
}

// mostArchives keeps a name like archive_99999999999 from setting the next
// number.
const mostArchives = 1e6
