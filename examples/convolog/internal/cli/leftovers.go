package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/session"
)

// temporary matches the names of temporary files.
var temporary = regexp.MustCompile(`^(.+)\.tmp-[0-9a-f]{16}$`)

const conflictCopy = "conflict-copy" // the kind of finding that [folder.conflict] makes

// The findings on files. A repair does the work that opening a store for writing does, also
// for sessions that are not in use.
var (
	unfinished = repairable("unfinished",
		"The last line has no end: a process was killed while it wrote the line, or still writes it.", "the next append ends the line; all earlier lines are kept")
	suspect = repairable("not-durable",
		"A sync of the file has failed, so its last bytes may not survive a power cut.", "check the disk; the next append copies the file to new blocks")
	noIndex = repairable("index-lost",
		"The index of the agent is missing. Lists are slower, because they read the transcripts.", "the next writer makes it again")
	badIndex = repairable("index-damaged",
		"The index of the agent has lines that cannot be read. The transcripts contain all of its data.", "the next writer makes it again")
	leftover = repairable("leftover",
		"A process was killed while it wrote this temporary file, or still writes it.", "the file is never read; a repair removes it if its writer is dead")
	halfErased = repairable("half-erased",
		"A deletion or an erase was interrupted, and some of its words are still there.", "opening the store for writing finishes it")
	twice = note("archived-twice",
		"A session has both an archive and a transcript. The archive is ignored.", "restore the session: that removes the archive if the transcript begins with all lines of the archive. Otherwise inspect both, and move one of them away")
	stranger = note("stranger",
		"The name is not from this program: the file is a copy made by hand, or a file of another program. It is never read.", "move the file away if you do not need it; convolog inspect shows its content")
	notListed = repairable("not-listed",
		"The store does not list the session of this file: the index lacks it, its first record cannot be read, or the name of its folder is not from this program.",
		"a repair compares the folder with the index. If that does not help, restore the file from a copy or move it away: as long as a transcript lacks its first record, a key without a session cannot be loaded")
	lonelyBlobs = note("blobs-without-session",
		"The session of these media does not exist.", "remove the folder if the session was deleted; restore the transcript if it was lost")
)

func repairable(kind, text, way string) finding {
	return finding{Kind: kind, Text: text, Way: way, Repairable: true}
}

func note(kind, text, way string) finding {
	return finding{Kind: kind, Text: text, Way: way, Note: true}
}

func (f *folder) file(i session.Info) string {
	if f.dir == "" {
		return ""
	}
	agent, id := filename.Encode(i.Agent), filename.Encode(i.ID)+".jsonl"
	if i.State == session.Archived || i.State == session.Trashed {
		return filepath.Join(f.dir, "agents", agent, "archive", id+".gz")
	}
	return filepath.Join(f.dir, "agents", agent, "sessions", id)
}

// leftovers examines the files of the store and changes no file.
func (f *folder) leftovers(ctx context.Context) (found []finding, err error) {
	if f.dir == "" {
		return nil, nil
	}
	err = filepath.WalkDir(f.dir, func(name string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rel, relErr := filepath.Rel(f.dir, name)
		if err = errors.Join(err, relErr); errors.Is(err, fs.ErrNotExist) {
			return nil // the file was just removed
		}
		if err != nil && rel == "." {
			return err
		}
		if err != nil {
			found = append(found, finding{Kind: "unreadable", File: name, Text: "The file cannot be examined: " + err.Error(), Way: "check its owner and its permissions"})
			return fs.SkipDir
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		if d.IsDir() && (len(parts) == 1 && rel != "." && rel != "agents" || len(parts) == 3 && parts[2] == "convlogs") {
			return fs.SkipDir
		}
		one, ok := f.judge(name, parts, d)
		if ok && one.Kind == stranger.Kind || len(parts) == 4 && d.Type().IsRegular() && sessionOf(name) != "" && isRenamed(name) {
			if copy, found := f.conflict(ctx, name); found {
				one, ok = copy, true
			}
		}
		if ok {
			one.File = name
			found = append(found, one)
		}
		if len(parts) == 3 && d.Name() == "sessions.jsonl" && d.Type().IsRegular() {
			found = append(found, missing(name)...)
		}
		if len(parts) == 4 && sessionOf(name) != "" {
			one = notListed
			one.File = name
			found = append(found, one)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return f.dropListed(ctx, found)
}

// sessionOf returns the common part of the names of a session's transcript and archive, or
// "" for any other file.
func sessionOf(name string) string {
	folder, base := path.Split(filepath.ToSlash(name))
	stem, ok := "", false
	switch path.Base(folder) {
	case "sessions":
		stem, ok = strings.CutSuffix(base, ".jsonl")
	case "archive":
		stem, ok = strings.CutSuffix(base, ".jsonl.gz")
	}
	if _, ours := filename.Decode(stem); !ok || !ours && len(stem) < 100 { // longer names are hashed
		return ""
	}
	return path.Join(path.Dir(path.Clean(folder)), stem)
}

// dropListed removes a notListed finding if the store lists the session, if the file has
// vanished, or if an interrupted deletion explains the file.
func (f *folder) dropListed(ctx context.Context, found []finding) ([]finding, error) {
	known := map[string]bool{}
	for _, o := range []session.ListOptions{
		{State: session.EveryState},
		{State: session.AnyState, Key: session.Key{Agent: "_settings"}},
		{State: session.AnyState, Key: session.Key{Agent: "_removed"}},
	} {
		infos, err := f.List(ctx, &o)
		if err != nil {
			return nil, err
		}
		for _, i := range infos {
			known[sessionOf(f.file(i))] = true
		}
	}
	for _, one := range found {
		switch one.Kind {
		case conflictCopy:
			known[sessionOf(one.File)] = true
		case halfErased.Kind:
			known[path.Dir(filepath.ToSlash(one.File))] = true
		}
	}
	return slices.DeleteFunc(found, func(one finding) bool {
		if one.Kind != notListed.Kind {
			return false
		}
		_, err := os.Lstat(one.File)
		s := sessionOf(one.File)
		return err != nil || known[s] || known[path.Dir(s)]
	}), nil
}

func (f *folder) judge(name string, parts []string, d fs.DirEntry) (finding, bool) {
	base := d.Name()
	switch {
	case !d.IsDir() && temporary.MatchString(base):
		return leftover, true
	case len(parts) == 2 && d.IsDir():
		_, err := os.Stat(filepath.Join(name, "sessions.jsonl"))
		sessions, _ := os.ReadDir(filepath.Join(name, "sessions"))
		return noIndex, errors.Is(err, fs.ErrNotExist) && len(sessions) > 0
	case len(parts) == 3 && base == "sessions.jsonl" && d.Type().IsRegular():
		return judgeIndex(name)
	case len(parts) == 3 && strings.HasPrefix(base, "sessions") && strings.HasSuffix(base, ".jsonl") && d.Type().IsRegular():
		return stranger, true // a conflict copy of the index
	case len(parts) == 4 && parts[1] == "_erase" && parts[2] == "sessions":
		return halfErased, true
	case len(parts) == 4 && parts[2] == "sessions":
		return judgeTranscript(name, base, d)
	case len(parts) == 4 && parts[2] == "archive" && sessionOf(name) == "":
		return stranger, d.Type().IsRegular()
	case len(parts) == 4 && parts[2] == "archive":
		_, err := os.Stat(filepath.Join(filepath.Dir(filepath.Dir(name)), "sessions", strings.TrimSuffix(base, ".gz")))
		return twice, err == nil
	case len(parts) == 4 && parts[2] == "blobs" && d.IsDir():
		agent := filepath.Dir(filepath.Dir(name))
		_, live := os.Stat(filepath.Join(agent, "sessions", base+".jsonl"))
		_, archived := os.Stat(filepath.Join(agent, "archive", base+".jsonl.gz"))
		return lonelyBlobs, live != nil && archived != nil
	}
	return finding{}, false
}

func judgeTranscript(name, base string, d fs.DirEntry) (finding, bool) {
	stem, isTranscript := strings.CutSuffix(base, ".jsonl")
	_, ours := filename.Decode(stem)
	info, err := d.Info()
	switch {
	case strings.HasSuffix(base, ".jsonl.suspect"):
		return suspect, true
	case !isTranscript || err != nil || !ours && len(stem) < 100: // longer names are hashed
		return stranger, err == nil
	case info.Mode()&fs.ModeSticky != 0:
		return suspect, true
	case !info.Mode().IsRegular() || info.Size() == 0:
		return finding{}, false
	}
	file, err := os.Open(name)
	if err != nil {
		return finding{Kind: "unreadable", Text: "The file cannot be opened: " + err.Error(), Way: "check its owner and its permissions"}, true
	}
	defer func() { _ = file.Close() }() // only read
	last := make([]byte, 1)
	_, err = file.ReadAt(last, info.Size()-1)
	return unfinished, err == nil && last[0] != '\n'
}

func judgeIndex(name string) (finding, bool) {
	info, err := os.Stat(name)
	if err == nil && info.Mode()&fs.ModeSticky != 0 {
		return halfErased, true
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return finding{}, false
	}
	first := true
	for line := range bytes.Lines(data) {
		var l struct {
			Index         int    `json:"index"`
			Delete, Erase string // of a session
		}
		err := json.Unmarshal(line, &l)
		switch {
		case err != nil && len(bytes.TrimSpace(line)) > 0 || first && l.Index == 0:
			return badIndex, true
		case l.Delete != "" || l.Erase != "":
			return halfErased, true
		}
		first = false
	}
	return badIndex, first
}

// missing returns a finding for each session in an index whose file is missing.
func missing(name string) (found []finding) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	type row struct{ ID, Key, Title string }
	rows := map[string]row{}
	for line := range bytes.Lines(data) {
		var l struct {
			Row    row
			Delete string
		}
		if json.Unmarshal(line, &l) == nil && l.Row.ID != "" {
			rows[l.Row.ID] = l.Row
		} else {
			delete(rows, l.Delete)
		}
	}
	folder := filepath.Dir(name)
	files, _ := os.ReadDir(filepath.Join(folder, "sessions"))
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		file := filename.Encode(id) + ".jsonl"
		_, live := os.Lstat(filepath.Join(folder, "sessions", file))
		_, archived := os.Lstat(filepath.Join(folder, "archive", file+".gz"))
		if live == nil || archived == nil {
			continue
		}
		f := finding{
			Kind: "missing", Agent: agentOf(folder), Session: id,
			Text: fmt.Sprintf("The transcript of a session is missing: %s, key %s, title %q.", id, rows[id].Key, rows[id].Title),
			Way:  "bring back " + filepath.Join(folder, "sessions", file) + " from the cloud or a copy, or delete the session with session delete --now. Until then its key gets no new session",
		}
		for _, other := range files { // a placeholder of a cloud service, or another spelling
			if strings.Contains(strings.ToLower(other.Name()), strings.ToLower(filename.Encode(id))) {
				f.Text += fmt.Sprintf(" In its place is %q.", other.Name())
			}
		}
		found = append(found, f)
	}
	return found
}

// repair opens the store for writing, reads every session, and closes the store again.
// This finishes deletions and erases, ends unfinished lines, and makes the index again. It
// copies files whose sync failed, and removes temporary files of killed processes under
// their locks. It changes no complete line.
func (f *folder) repair(ctx context.Context) (err error) {
	if f.dir == "" {
		return usageError("--repair is for a folder: stores in databases have no files")
	}
	before, _ := f.leftovers(ctx) // opening or listing the store below reports the same error
	for _, b := range before {
		if b.Kind == notListed.Kind {
			err = cmp.Or(err, touch(filepath.Dir(b.File)))
		}
	}
	if err != nil {
		return err
	}
	w, err := openFolder(ctx, f.dir, false)
	if err != nil {
		return err
	}
	err = errors.Join(w.mend(ctx, before), w.Close())
	again, openErr := openFolder(ctx, f.dir, true) // a new store has no cached state
	if openErr == nil {
		f.Store, again.Store = again.Store, f.Store
		openErr = again.Close()
	}
	return errors.Join(err, openErr)
}

// touch sets the time of a folder, so that the next call of a store compares the names in
// the folder with the index.
func touch(folder string) error { return os.Chtimes(folder, time.Time{}, time.Now()) }

func (f *folder) mend(ctx context.Context, before []finding) error {
	infos, err := f.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return err
	}
	agents := map[string]bool{}
	for _, i := range infos {
		agents[i.Agent] = true
		s, err := f.Get(ctx, i.Ref)
		if err == nil {
			if _, err = s.Health(ctx); err == nil && i.State != session.Archived {
				_ = s.Recover(ctx) // the second examination reports a failure
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	for _, b := range before {
		switch b.Kind {
		case noIndex.Kind:
			agents[agentOf(b.File)] = true
		case badIndex.Kind, halfErased.Kind:
			agents[agentOf(filepath.Dir(b.File))] = true
		}
	}
	delete(agents, "")
	var errs []error
	for agent := range agents {
		// Restoring a session that does not exist makes the driver repair the index first.
		if err := f.move(ctx, session.Ref{Agent: agent, ID: rand.Text()}, "restore"); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	for _, b := range before {
		if m := temporary.FindStringSubmatch(path.Base(filepath.ToSlash(b.File))); b.Kind == leftover.Kind && m != nil {
			errs = append(errs, removeTemps(filepath.Dir(b.File), m[1]))
		}
	}
	return errors.Join(errs...)
}

// agentOf returns the agent of a folder, or "" if its name is hashed or unknown.
func agentOf(folder string) string {
	if filepath.Base(filepath.Dir(folder)) != "agents" {
		return ""
	}
	name, _ := filename.Decode(filepath.Base(folder))
	return name
}

// removeTemps removes the temporary files that dead writers of a file left.
func removeTemps(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("remove leftovers: %w", err)
	}
	return errors.Join(filelog.RemoveTemps(root, name), root.Close())
}
