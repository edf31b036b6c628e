package dialect

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strings"

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
	if meta, err := fields.File(g.fsys, path.Join(dir, ".meta.json")); err == nil {
		s.ID, s.Agent = cmp.Or(meta.Str("session_id"), s.ID), meta.Str("agent_id")
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
