package dialect

import (
	"cmp"
	"io"
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

// vikingSigns lists the files in a folder that may be a session of OpenViking.
type vikingSigns struct {
	archives []string
	marked   bool // there is a file that only such a folder has
	decided  bool
	session  bool
}

// vikingSign records the hints of a file name about its folder.
func (g *gathering) vikingSign(name string) {
	dir, base := path.Dir(name), path.Base(name)
	root := vikingRoot(name)
	signs := g.viking[root]
	if signs == nil {
		signs = new(vikingSigns)
		g.viking[root] = signs
	}
	switch {
	case dir != root && base == "messages.jsonl" && path.Base(path.Dir(dir)) == "history":
		signs.archives = append(signs.archives, dir)
	case dir == root && (base == ".abstract.md" || base == ".overview.md" || base == ".meta.json"):
		signs.marked = true
	}
}

// openViking decides about a file that may be part of a session folder of
// OpenViking. ok is set if it is; s is the session if name is its messages.
func (g *gathering) openViking(name string) (s *Session, ok bool) {
	dir := vikingRoot(name)
	messages, signs := path.Join(dir, "messages.jsonl"), g.viking[dir]
	if !g.there[messages] {
		return nil, false
	}
	if name != messages && signs.decided {
		return nil, signs.session
	}
	d, sure, err := detectFile(g.fsys, messages)
	signs.decided = true
	signs.session = err == nil && (d == OpenViking || d == "" && (signs.marked && g.isEmpty(messages) || len(signs.archives) > 0))
	if !signs.session || name != messages {
		return nil, signs.session
	}
	slices.SortFunc(signs.archives, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	s = &Session{Dialect: OpenViking, Sure: sure || signs.marked, Path: dir, Archives: signs.archives, fsys: g.fsys}
	if dir != "." {
		s.ID = path.Base(dir)
		s.Owner = vikingUser(dir)
	}
	if meta, err := jsonFile(g.fsys, path.Join(dir, ".meta.json")); err == nil {
		s.ID = cmp.Or(meta.Str("session_id"), s.ID)
		s.Created, s.Updated = fields.Time(meta["created_at"]), fields.Time(meta["updated_at"])
		s.Indexed = true
	}
	return s, true
}

// vikingUser returns the user of a folder such as user/alice/sessions/s1. The user
// "default" is the program's name for none.
func vikingUser(dir string) string {
	up := strings.Split(path.Dir(dir), "/")
	if n := len(up); n >= 3 && up[n-3] == "user" && (up[n-1] == "sessions" || up[n-1] == "session") && up[n-2] != "default" {
		return up[n-2]
	}
	return ""
}

func (g *gathering) isEmpty(name string) bool {
	info, err := fs.Stat(g.fsys, name)
	return err == nil && info.Size() == 0
}

// vikingRoot returns the folder of the session that a file would belong to.
func vikingRoot(name string) string {
	dir := path.Dir(name)
	for _, part := range []string{"/history/archive_", "/tools/", "/tool-results/"} {
		if i := strings.LastIndex("/"+dir+"/", part); i >= 0 {
			return cmp.Or(strings.Trim(("/" + dir)[:i], "/"), ".")
		}
	}
	return dir
}

// memoryCategory returns the category of a memory file, or "". The profile is
// profile.md, the program's name for it, or without that .overview.md, which
// otherwise describes the folder.
func (g *gathering) memoryCategory(name string) string {
	elements := strings.Split(name, "/")
	i := slices.Index(elements, "memories")
	dir, base := path.Dir(name), path.Base(name)
	switch {
	case i < 1 || path.Ext(name) != ".md" || i+1 >= len(elements):
		return ""
	case i+2 < len(elements) && !strings.HasPrefix(base, "."):
		return elements[i+1]
	case i+2 < len(elements):
		return ""
	case base == ".overview.md" && !g.there[path.Join(dir, "profile.md")]:
		return "profile"
	case strings.HasPrefix(base, "."):
		return ""
	}
	return strings.TrimSuffix(base, ".md")
}

// vikingFolder is the folder of a session: live messages, and archives of
// earlier ones with a summary each.
type vikingFolder struct {
	fsys     fs.FS
	dir      string
	archives []string
	asked    map[string]bool // IDs of calls: a file about an ID belongs to the first call with it
}

// records yields the archived messages, each archive followed by its replacement,
// and then the live messages. A message that is live as well as archived, or in two
// archives, is shown once. An archive without a summary replaces nothing: its
// messages stay. Relations count as used before the last commit, since only a
// commit writes them.
func (v vikingFolder) records() iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		messages := path.Join(v.dir, "messages.jsonl")
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
		a := vikingArchived{vikingFolder: v, known: live, taught: len(meta.memories) > 0}
		for i, dir := range v.archives {
			if !a.messages(dir, yield) {
				return
			}
			last := i == len(v.archives)-1
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
		if len(v.archives) == 0 {
			sayUsed()
		}
	}
}

// vikingArchived reads archives one after the other.
type vikingArchived struct {
	vikingFolder
	known  map[string]bool // IDs of messages that are shown elsewhere
	taught bool            // memories were made of the archives
	open   []string        // the commits so far
	commit transcript.Commit
}

// messages yields the messages of an archive and describes it in commit. It
// returns false if the loop has ended.
func (a *vikingArchived) messages(dir string, yield func(transcript.Record, error) bool) bool {
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
func (a *vikingArchived) extend(e transcript.Entry, within bool) {
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

func (v vikingFolder) scan(name string) iter.Seq2[transcript.Record, error] {
	return scanFile(v.fsys, name, func(r io.ReaderAt, size int64) iter.Seq2[transcript.Record, error] {
		return scanForm(r, size, transcript.ScanOptions{Final: true}, openViking{tool: v.tool})
	})
}

// tool returns the members of tool.json about a call.
func (v vikingFolder) tool(id string) fields.Record {
	if v.asked[id] {
		return nil
	}
	if v.asked != nil {
		v.asked[id] = true
	}
	r, err := jsonFile(v.fsys, path.Join(v.dir, "tools", safeName(id), "tool.json"))
	if err != nil || r["tool_id"] != nil && r.Str("tool_id") != id {
		return nil
	}
	return r
}

// text returns a sidecar file, empty if it is not there.
func (v vikingFolder) text(dir, name string) string {
	data, err := fs.ReadFile(v.fsys, path.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.ToValidUTF8(string(data), "\uFFFD")
}

// A vikingMeta is the part of .meta.json about commits.
type vikingMeta struct {
	committed time.Time                            // of the last one
	memories  map[string]transcript.ExtractedCount // made of all of them, by category
}

func (v vikingFolder) meta() (m vikingMeta) {
	r, err := jsonFile(v.fsys, path.Join(v.dir, ".meta.json"))
	if err != nil {
		return m
	}
	m.committed = fields.Time(r["last_commit_at"])
	for category, value := range fields.Of(r["memories_extracted"]) {
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
func (v vikingFolder) relations() []string {
	data, err := fs.ReadFile(v.fsys, path.Join(v.dir, ".relations.json"))
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
