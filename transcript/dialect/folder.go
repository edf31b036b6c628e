package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/transcript"
	"github.com/convolog/convolog/transcript/dialect/internal/chatgpt"
	"github.com/convolog/convolog/transcript/dialect/internal/claudecode"
	"github.com/convolog/convolog/transcript/dialect/internal/document"
)

// A Folder lists the contents of a folder of another program: a session folder,
// or any folder above.
type Folder struct {
	Indexes  []Index
	Memories []Memory // of OpenViking
	// Others are the files that belong to no session: logs (of channels as
	// well), locks, copies of damaged files and so on.
	Others []string

	fsys     fs.FS
	sessions []Session
}

// Index is a program's list of its sessions.
type Index struct {
	Path     string
	Dialect  Dialect // empty if it cannot be read, see Err
	Sessions int     // how many it lists; of ZyHiveLog these are logs of channels
	Err      error
}

// Memory is a file of OpenViking's memories beyond sessions.
type Memory struct {
	Path     string
	Category string // profile, preferences, entities, events, cases, patterns, or a later one

	fsys fs.FS
}

// Text returns the text of the memory, Markdown as it is in the file. Bytes that
// are not UTF-8 are replaced. The error names the file.
func (m Memory) Text() (string, error) {
	if m.fsys == nil {
		return "", fmt.Errorf("dialect: memory %s is not from a folder: %w", m.Path, fs.ErrInvalid)
	}
	data, err := fs.ReadFile(m.fsys, m.Path)
	if err != nil {
		return "", fmt.Errorf("dialect: memory %s: %w", m.Path, err)
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), nil
}

// ReadFolder looks for sessions of any dialect in fsys. It reads the names of
// all files, the indexes, and the part that [Detect] reads of every possible
// transcript; it follows no links and opens regular files alone.
//
// Sessions in which a store keeps its own records, such as the list of deleted sessions,
// are left out. An index hides nothing: unlisted transcripts are found as well, and a listed
// one that is missing is a session whose Err matches [fs.ErrNotExist]. The
// error comes from fsys and names the file or folder; the result holds the
// readable rest.
//
// Codex compresses a rollout after some days, to a name in .jsonl.zst. The Err of such a
// session is a [*CompressedError]. To read it, give an fsys that holds the decompressed
// file, without .zst in its name.
func ReadFolder(fsys fs.FS) (*Folder, error) {
	f := &Folder{fsys: fsys}
	if fsys == nil {
		return f, fmt.Errorf("dialect: no file system to read: %w", fs.ErrInvalid)
	}
	var names []string
	var errs []error
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("dialect: %w", err))
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			names = append(names, name)
		case !d.IsDir():
			f.Others = append(f.Others, name)
		}
		return nil
	})
	errs = append(errs, err)
	g := newGathering(f, names)
	for _, name := range names {
		if base := path.Base(name); base == "sessions.json" || base == "index.json" {
			g.index(name)
		}
	}
	for _, name := range names {
		if err := g.file(name); err != nil {
			errs = append(errs, fmt.Errorf("dialect: %s: %w", name, err))
		}
	}
	g.missing()
	f.sessions = slices.DeleteFunc(f.sessions, func(s Session) bool { // as session.Store.List leaves them out
		return s.Dialect == Native && strings.Contains("/"+s.Path, "/agents/_")
	})
	slices.SortFunc(f.sessions, func(a, b Session) int {
		if a.isHelper() != b.isHelper() {
			return map[bool]int{true: 1, false: -1}[a.isHelper()]
		}
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Key, b.Key), cmp.Compare(a.part.start, b.part.start))
	})
	return f, errors.Join(errs...)
}

// Sessions yields the sessions in the order of their paths, and last the helpers
// of Claude Code. Each transcript is read once, for data outside of the index, and the
// part with a helper's rows once more.
// The sequence may be ranged over several times; errors are in Session.Err.
func (f *Folder) Sessions() iter.Seq[Session] {
	return func(yield func(Session) bool) {
		known := claudecode.Calls{}
		var helpers []Session
		for _, s := range f.sessions {
			var inline claudecode.Inline
			if s.Err == nil {
				s.survey(func(rec transcript.Record) { s.noteHelpers(known, &inline, rec) })
			}
			if !yield(s) {
				return
			}
			helpers = append(helpers, s.helpers(inline.Helpers())...)
		}
		for _, s := range helpers {
			s.survey(func(transcript.Record) {})
			if !yield(s) {
				return
			}
		}
	}
}

func (s *Session) isHelper() bool { return s.Dialect == ClaudeCode && claudecode.IsHelper(s.Path) }

// noteHelpers learns from a row who started the session, and the helpers that it
// started.
func (s *Session) noteHelpers(known claudecode.Calls, inline *claudecode.Inline, rec transcript.Record) {
	if s.Dialect != ClaudeCode {
		return
	}
	line := rec.Entry.Line()
	b, _ := rec.Entry.Body.(transcript.Custom)
	inline.Note(line, rec.Offset, rec.End, b.Name == "sidechain")
	if s.Parent == "" && s.isHelper() {
		s.Parent, s.Call = known.Starter(s.ID, line)
	}
	known.Note(s.ID, line)
}

// helpers returns the helpers in the file of a session of Claude Code.
func (s *Session) helpers(inline []claudecode.Helper) (all []Session) {
	for _, h := range inline {
		helper := Session{
			Dialect: s.Dialect, Sure: s.Sure, Path: s.Path, ID: "agent-" + h.Root, Owner: s.Owner, Dir: s.Dir, PutAway: s.PutAway,
			Parent: s.ID, Call: h.Call, fsys: s.fsys, part: part{start: h.Start, end: h.End, helper: h.Root},
		}
		if h.Parent != "" {
			helper.Parent = "agent-" + h.Parent
		}
		all = append(all, helper)
	}
	return all
}

// gathering is a Folder while it is made.
type gathering struct {
	*Folder
	there  map[string]bool
	listed map[string]listing  // by path of the transcript
	copies map[string][]string // by path of the transcript
	viking map[string]*vikingSigns
}

func newGathering(f *Folder, names []string) *gathering {
	g := &gathering{Folder: f, there: map[string]bool{}, listed: map[string]listing{}, copies: map[string][]string{}, viking: map[string]*vikingSigns{}}
	for _, name := range names {
		g.there[name] = true
		if t, kind := cutArchive(name); kind == "copy" {
			g.copies[t] = append(g.copies[t], name)
		}
		g.vikingSign(name)
	}
	return g
}

func (g *gathering) file(name string) error {
	base, dir := path.Base(name), path.Dir(name)
	if s, ok := g.openViking(name); ok {
		if s != nil {
			g.sessions = append(g.sessions, *s)
		}
		return nil
	}
	transcriptName, putAway := cutArchive(name)
	switch {
	case base == "sessions.json", base == "index.json" && g.isIndex(name):
		return nil
	case g.memoryCategory(name) != "":
		g.Memories = append(g.Memories, Memory{Path: name, Category: g.memoryCategory(name), fsys: g.fsys})
		return nil
	case putAway == "copy" && g.there[transcriptName]:
		return nil // see archives
	case strings.HasPrefix(base, "rollout-") && strings.HasSuffix(base, ".jsonl.zst") && !g.there[strings.TrimSuffix(name, ".zst")]:
		g.sessions = append(g.sessions, Session{Dialect: Codex, Path: name, fsys: g.fsys, Err: fmt.Errorf("dialect: %w", &CompressedError{Path: name})})
		return nil
	case path.Ext(name) == ".json":
		return g.document(name)
	case path.Ext(transcriptName) != ".jsonl", putAway == "copy", strings.HasSuffix(base, ".trajectory.jsonl"):
		g.Others = append(g.Others, name)
		return nil
	}
	d, sure, err := detectFile(g.fsys, name)
	if err != nil {
		return err
	}
	l, listed := g.listed[name]
	if d == "" && listed {
		d = l.Dialect
	}
	if d == "" || d == ZyHiveLog || d == OpenViking && base == "messages.jsonl" && dir != "." && path.Base(path.Dir(dir)) == "history" {
		g.Others = append(g.Others, name)
		return nil
	}
	s := Session{Dialect: d, Sure: sure, Path: name, PutAway: putAway != "", fsys: g.fsys}
	if listed {
		s = l.fill(s)
	}
	s.ID = cmp.Or(s.ID, strings.TrimSuffix(path.Base(transcriptName), ".jsonl"))
	s.Archives = slices.Clone(g.copies[name])
	slices.Sort(s.Archives)
	g.sessions = append(g.sessions, s)
	return nil
}

// document adds the conversations of a JSON document. Other documents belong to no
// session.
func (g *gathering) document(name string) error {
	r, size, err := openFile(g.fsys, name)
	if err != nil {
		return err
	}
	defer func() { _ = r.Close() }() // it was only read
	outline, err := document.Outline(r, min(size, detectBytes))
	d := detectDocument(outline)
	if err != nil || d == "" {
		g.Others = append(g.Others, name)
		return err
	}
	if d == GeminiCLI && g.there[name+"l"] { // continued there
		g.copies[name+"l"] = append(g.copies[name+"l"], name)
		return nil
	}
	var files chatgpt.Assets
	if d == ChatGPT {
		files = chatgpt.AssetsOf(g.fsys, name, g.there)
	}
	for c, err := range document.Split(r, size, messagesOf[d], transcript.DefaultMaxLine) {
		if err != nil {
			return err
		}
		g.sessions = append(g.sessions, Session{
			Dialect: d, Sure: true, Path: name, ID: strings.TrimSuffix(path.Base(name), ".json"), fsys: g.fsys, part: part{start: c.Start, end: c.End, files: files},
		})
	}
	return nil
}
