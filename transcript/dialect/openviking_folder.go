package dialect

import (
	"cmp"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript"
)

// vikingSigns says what is in a folder that may be a session of OpenViking.
type vikingSigns struct {
	archives []string
	marked   bool // there is a file that only such a folder has
	decided  bool
	session  bool
}

// vikingSign takes note of a file.
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
// OpenViking. ok says that it is; s is the session if name is its messages.
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
	}
	if meta, err := jsonFile(g.fsys, path.Join(dir, ".meta.json")); err == nil {
		s.ID = cmp.Or(meta.str("session_id"), s.ID)
		s.Created, s.Updated = parseTime(meta["created_at"]), parseTime(meta["updated_at"])
		s.Indexed = true
	}
	return s, true
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

// memoryCategory returns the category of a memory file, empty if it is none.
func memoryCategory(name string) string {
	elements := strings.Split(name, "/")
	i := slices.Index(elements, "memories")
	if i < 1 || path.Ext(name) != ".md" || i+1 >= len(elements) {
		return ""
	}
	if i+2 < len(elements) {
		return elements[i+1]
	}
	return "profile"
}

// vikingFolder is the folder of a session: live messages, and archives of
// earlier ones with a summary each.
type vikingFolder struct {
	fsys     fs.FS
	dir      string
	archives []string
}

// records yields the archived messages, each archive followed by what replaces
// it, and then the live ones. A message that is live as well as archived, or
// in two archives, is shown once. An archive without a summary replaces
// nothing: its messages stay.
func (v vikingFolder) records() iter.Seq2[transcript.Record, error] {
	return func(yield func(transcript.Record, error) bool) {
		messages := path.Join(v.dir, "messages.jsonl")
		live, seen := map[string]bool{}, map[string]bool{}
		for rec, err := range v.scan(messages) {
			if err != nil {
				yield(rec, err)
				return
			}
			live[rec.Entry.ID] = true
		}
		say := func(id string, body transcript.Body) bool {
			return yield(transcript.Record{Entry: transcript.Entry{ID: id, Body: body}}, nil)
		}
		for _, dir := range v.archives {
			name := path.Join("history", path.Base(dir))
			commit := transcript.Commit{Archive: name, Abstract: v.text(dir, ".abstract.md"), Overview: v.text(dir, ".overview.md")}
			for rec, err := range v.scan(path.Join(dir, "messages.jsonl")) {
				e := &rec.Entry
				switch {
				case err != nil || rec.Damage != nil:
				case strings.HasPrefix(e.ID, "@"): // no ID: the file is part of the name
					e.ID = name + e.ID
				case live[e.ID] || seen[e.ID]:
					e.Body = aside(AsideRepeat)
					e.ID = name + atOffset(rec.Offset)
				default:
					seen[e.ID] = true
				}
				if rec.Damage == nil && err == nil {
					commit.FirstEntry, commit.LastEntry = cmp.Or(commit.FirstEntry, e.ID), e.ID
				}
				if !yield(rec, err) || err != nil {
					return
				}
			}
			if summary := cmp.Or(commit.Overview, commit.Abstract); strings.TrimSpace(summary) != "" && commit.LastEntry != "" {
				if !say(name+"/.overview.md", transcript.Compaction{Summary: summary, CoversTo: commit.LastEntry}) {
					return
				}
			}
			if !say(name, commit) {
				return
			}
		}
		for rec, err := range v.scan(messages) {
			if !yield(rec, err) || err != nil {
				return
			}
		}
		if uris := v.relations(); len(uris) > 0 {
			say(".relations.json", transcript.Used{Contexts: uris})
		}
	}
}

// scan scans a file of messages.
func (v vikingFolder) scan(name string) iter.Seq2[transcript.Record, error] {
	return scanFile(v.fsys, name, func(r io.ReaderAt, size int64) iter.Seq2[transcript.Record, error] {
		return scanForm(r, size, transcript.ScanOptions{Final: true}, openViking{tool: v.tool})
	})
}

// tool returns what tool.json says about a call.
func (v vikingFolder) tool(id string) record {
	name := path.Join(v.dir, "tools", id, "tool.json")
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, `/\`) || !fs.ValidPath(name) {
		return nil // it names no folder there
	}
	r, err := jsonFile(v.fsys, name)
	if err != nil {
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
