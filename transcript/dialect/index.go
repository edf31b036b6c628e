package dialect

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/jsontext"
	"github.com/convolog/convolog/transcript/dialect/internal/fields"
)

// A listing is the row of a session in an index.
type listing struct {
	Session
	index string
}

// fill returns s, which was found, with the data of the index.
func (l listing) fill(s Session) Session {
	l.Dialect, l.Sure, l.Path, l.PutAway, l.fsys = s.Dialect, s.Sure, s.Path, s.PutAway, s.fsys
	return l.Session
}

// index reads an index, in any of its known shapes: sessions by key, by ID,
// below "sessions", or ZyHive's list of logs.
func (g *gathering) index(name string) {
	members, err := fields.File(g.fsys, name)
	if err != nil {
		if path.Base(name) == "sessions.json" {
			g.Indexes = append(g.Indexes, Index{Path: name, Err: fmt.Errorf("dialect: %s: %w", name, err)})
		}
		return
	}
	index := Index{Path: name}
	add := func(d Dialect, l listing) {
		index.Dialect = d
		index.Sessions++
		l.Dialect, l.Indexed, l.index, l.fsys = d, true, name, g.fsys
		if l.Err == nil {
			if before, twice := g.listed[l.Path]; !twice || before.Updated.Before(l.Updated) {
				g.listed[l.Path] = l
			}
			return
		}
		g.sessions = append(g.sessions, l.Session)
	}
	dir := path.Dir(name)
	switch entries := members["entries"]; {
	case path.Base(name) == "index.json":
		if !jsontext.IsArray(entries) {
			return
		}
		for e := range jsontext.Elements(entries) {
			if fields.Of(e)["channelId"] != nil { // a log, not a session
				index.Dialect = ZyHiveLog
				index.Sessions++
			}
		}
	case members["sessions"] != nil && members["version"] == nil:
		sessions := fields.Of(members["sessions"])
		index.Dialect = ZyHive
		for _, id := range slices.Sorted(maps.Keys(sessions)) {
			r := fields.Of(sessions[id])
			l := listing{Session: Session{ID: id, Agent: r.Str("agentId"), Title: r.Str("title"), Created: fields.Time(r["createdAt"]), Updated: fields.Time(r["lastAt"])}}
			l.Path, l.Err = inside(dir, cmp.Or(r.Str("filePath"), id+".jsonl"))
			add(ZyHive, l)
		}
	case members["sessions"] != nil:
		index.Dialect = Native // the transcripts contain the same
		index.Sessions = len(fields.Of(members["sessions"]))
	default:
		for _, key := range slices.Sorted(maps.Keys(members)) {
			d, l := listed(dir, key, fields.Of(members[key]))
			if d != "" {
				add(d, l)
			}
		}
	}
	if index.Dialect != "" || path.Base(name) == "sessions.json" {
		g.Indexes = append(g.Indexes, index)
	}
}

func (g *gathering) isIndex(name string) bool {
	return slices.ContainsFunc(g.Indexes, func(i Index) bool { return i.Path == name })
}

// listed reads an entry of an index that is a map of sessions.
func listed(dir, key string, r fields.Record) (Dialect, listing) {
	var l listing
	switch {
	case r["transcript_file"] != nil:
		l.Session = Session{ID: r.Str("session_id"), Key: cmp.Or(r.Str("session_key"), key), Created: fields.Time(r["created_at"]), Updated: fields.Time(r["updated_at"])}
		l.Path, l.Err = inside(path.Join(dir, "transcripts"), r.Str("transcript_file"))
		l.Agent, _, _ = strings.Cut(l.Key, ":")
		return MiniClaw, l
	case r["sessionId"] != nil:
		l.Session = Session{
			ID: r.Str("sessionId"), Key: key, Title: cmp.Or(r.Str("label"), r.Str("displayName"), r.Str("subject")),
			Created: fields.Time(r["sessionStartedAt"]), Updated: fields.Time(r["updatedAt"]),
		}
		if rest, ok := strings.CutPrefix(key, "agent:"); ok {
			l.Agent, _, _ = strings.Cut(rest, ":")
		}
		l.Path, l.Err = inside(dir, cmp.Or(baseOf(r.Str("sessionFile")), l.ID+".jsonl"))
		return Pi, l
	case r["last_active"] != nil || r["created_at"] != nil:
		l.Session = Session{ID: key, Agent: path.Base(dir), Title: r.Str("label"), Created: fields.Time(r["created_at"]), Updated: fields.Time(r["last_active"])}
		l.Path, l.Err = inside(path.Join(dir, "sessions"), key+".jsonl")
		return Claw0, l
	}
	return "", l
}

// inside returns the path of a file in dir that an index names. Indexes have
// been seen that point elsewhere; such a name is not followed.
func inside(dir, name string) (string, error) {
	if name == "" || name != path.Base(name) || strings.Contains(name, `\`) || !fs.ValidPath(name) || name == "." {
		return "", fmt.Errorf("dialect: the index in %s names the file %q, which is not in its folder: look for the transcript yourself", dir, name)
	}
	return path.Join(dir, name), nil
}

// baseOf returns the last element of a path of any system.
func baseOf(name string) string {
	if i := strings.LastIndexAny(name, `/\`); i >= 0 {
		return name[i+1:]
	}
	return name
}

// missing adds the sessions that an index lists and that are not there.
func (g *gathering) missing() {
	found := map[string]bool{}
	for _, s := range g.sessions {
		found[s.Path] = true
	}
	for name, l := range g.listed {
		if !found[name] {
			l.Err = fmt.Errorf("dialect: %s lists it: %w", l.index, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist})
			g.sessions = append(g.sessions, l.Session)
		}
	}
}

// cutArchive returns the name of the transcript that an archive is of. Kind is
// "session" if the program has put it away, "copy" for a mere copy, and empty
// for any other name.
func cutArchive(name string) (transcriptName, kind string) {
	if strings.HasSuffix(name, ".zst") || strings.HasSuffix(name, ".lock") {
		return name, ""
	}
	for _, mark := range []string{".jsonl.reset.", ".jsonl.deleted."} {
		if i := strings.LastIndex(name, mark); i >= 0 {
			return name[:i] + ".jsonl", "session"
		}
	}
	for _, mark := range []string{".jsonl.bak-", ".jsonl.bak.", ".checkpoint.", ".corrupt-"} {
		if i := strings.LastIndex(name, mark); i >= 0 {
			return name[:i] + ".jsonl", "copy"
		}
	}
	return name, ""
}
