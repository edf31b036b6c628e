package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/convolog/convolog/internal/filename"
	"github.com/convolog/convolog/transcript"
)

var _ transcript.Eraser = (*Store)(nil)

// PlanErase implements [transcript.Eraser]. A subject with an owner and no Match covers
// everything of the owner; with a Match it covers the matching memories of the owner or,
// without one, of every owner. Match gets each memory as an entry of the user: its ID,
// its text, the time of its last change, and all of it, with its sources, as application
// data {"memory":{...}}. So it can choose by text and by sources.
//
// The diffs that mention an erased memory are erased too; [Options].Index receives
// the rest of each searched folder again. The diffs' commits are [Store.Pending]
// again, so that their other memories come back from the rest of the chapters.
// Shared memories with the owner among their sources are erased as well.
func (m *Store) PlanErase(ctx context.Context, s transcript.Subject) ([]transcript.Place, error) {
	return m.erase(ctx, s, false)
}

// Erase implements [transcript.Eraser]. After an error or a kill it may be called again.
// A [Store.Extract] that waits for a model may bring back texts that the model read:
// erase while no Extract is running, or again afterwards.
func (m *Store) Erase(ctx context.Context, s transcript.Subject) ([]transcript.Place, error) {
	return m.erase(ctx, s, true)
}

// An eraser erases in one folder at a time, with its lock.
type eraser struct {
	*Store
	transcript.Subject
	really bool
	places []transcript.Place
}

func (m *Store) erase(ctx context.Context, s transcript.Subject, really bool) ([]transcript.Place, error) {
	if s.Owner == "" && s.Match == nil {
		return nil, nil
	}
	e := &eraser{Store: m, Subject: s, really: really}
	if err := e.run(ctx); err != nil {
		return e.places, fmt.Errorf("memory: erase: %w", err)
	}
	return e.places, nil
}

func (e *eraser) run(ctx context.Context) error {
	owners, err := e.folders(ctx, "owners")
	if err != nil {
		return err
	}
	agents, err := e.folders(ctx, "agents")
	if err != nil {
		return err
	}
	if e.Owner != "" {
		owners = slices.DeleteFunc(owners, func(f string) bool { return f != ownerFolder(e.Owner) })
		if e.really && len(owners) == 0 {
			owners = []string{ownerFolder(e.Owner)} // leftovers of a killed writer
		}
	}
	for _, f := range agents {
		if err := e.locked(ctx, f, e.shared); err != nil {
			return err
		}
	}
	for _, f := range owners {
		if err := e.locked(ctx, f, e.owned); err != nil {
			return err
		}
	}
	return nil
}

func (e *eraser) locked(ctx context.Context, folder string, do func(ctx context.Context, folder string) error) error {
	if e.really {
		unlock, err := e.files.Lock(ctx, folder)
		if err != nil {
			return err
		}
		defer unlock()
	}
	return do(ctx, folder)
}

func (m *Store) folders(ctx context.Context, below string) ([]string, error) {
	files, err := m.files.List(ctx, below)
	var list []string
	for _, f := range files {
		first, _, _ := strings.Cut(strings.TrimPrefix(f.Name, below+"/"), "/")
		list = append(list, path.Join(below, first))
	}
	return slices.Compact(list), err
}

// shared erases memories that the owners of an agent share. The agent's lock stops
// extractions that would write them, or diffs that mention them.
func (e *eraser) shared(ctx context.Context, folder string) error {
	mine := func(s Source) bool { return e.Owner == "" || s.Owner == e.Owner }
	gone, err := e.matching(ctx, folder, func(m Memory) bool {
		return slices.ContainsFunc(m.Sources, mine) || e.Owner == ""
	})
	if err == nil && len(gone) > 0 {
		err = e.diffs(ctx, "owners", gone, false)
	}
	if err == nil {
		err = e.memories(ctx, gone)
	}
	if err != nil {
		return err
	}
	return e.reindex(ctx, folder)
}

func (e *eraser) owned(ctx context.Context, folder string) error {
	gone, err := e.matching(ctx, folder, func(Memory) bool { return true })
	if err != nil {
		return err
	}
	// Diffs are erased first: after a kill the remaining memories lead to them.
	if err := e.diffs(ctx, folder, gone, true); err != nil {
		return err
	}
	if err := e.memories(ctx, gone); err != nil || !e.really {
		return err
	}
	if e.Match != nil {
		return e.reindex(ctx, folder)
	}
	return e.files.Remove(ctx, folder) // with all other files
}

// reindex makes the Index hold only the rest of a folder: it may also hold
// names that people changed or removed.
func (e *eraser) reindex(ctx context.Context, folder string) error {
	index := e.opts.Index
	if index == nil || !e.really {
		return nil
	}
	if err := index.Delete(ctx, folder, ""); err != nil {
		return fmt.Errorf("index: %s: %w", folder, err)
	}
	return e.each(ctx, folder, func(m Memory) error {
		return index.Put(ctx, folder, m.file, m.hash(), m.text())
	})
}

// matching returns the memories below a folder to erase.
func (e *eraser) matching(ctx context.Context, folder string, among func(Memory) bool) (gone []Memory, err error) {
	err = e.each(ctx, folder, func(m Memory) error {
		if among(m) && e.hit(m) {
			gone = append(gone, m)
		}
		return nil
	})
	return gone, err
}

func (e *eraser) each(ctx context.Context, folder string, do func(Memory) error) error {
	files, err := e.files.List(ctx, folder)
	for _, f := range files {
		if err != nil || isDiff(f.Name) || !strings.HasSuffix(f.Name, extension) {
			continue
		}
		var data []byte
		data, err = e.files.Read(ctx, f.Name)
		if err == nil {
			err = do(parse(f.Name, data))
		}
		err = ignore(err, fs.ErrNotExist)
	}
	return err
}

func (e *eraser) hit(m Memory) bool {
	if e.Match == nil {
		return true
	}
	about, _ := json.Marshal(map[string]Memory{"memory": m}) // of strings and times
	f := transcript.MessageLine{Kind: transcript.TypeUser, Role: transcript.RoleUser}
	text := strings.Join([]string{m.Abstract, m.Overview, m.Content}, "\n\n")
	return e.Match(transcript.Entry{
		ID: m.ID, Time: m.Updated, App: about,
		Body: f.WithContent(transcript.TextBlock{Text: text}),
	})
}

func (e *eraser) memories(ctx context.Context, gone []Memory) error {
	for _, m := range gone {
		if err := e.remove(ctx, m.file, transcript.Place{Kind: "memory", Name: m.ID}); err != nil {
			return err
		}
	}
	return nil
}

// diffs erases the diffs below a folder that mention memories, or match themselves.
func (e *eraser) diffs(ctx context.Context, folder string, gone []Memory, match bool) error {
	files, err := e.files.List(ctx, folder)
	for _, f := range files {
		if err != nil || !isDiff(f.Name) {
			continue
		}
		var data []byte
		data, err = e.files.Read(ctx, f.Name)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
			continue
		}
		source, steps := stepsOf(f.Name, data)
		if err == nil && slices.ContainsFunc(steps, func(s step) bool { return mentions(s, gone) || match && e.hits(s) }) {
			place := transcript.Place{Kind: "diff", Agent: source.Agent, Session: source.Session, Entry: source.Commit}
			err = e.remove(ctx, f.Name, place)
		}
	}
	return err
}

func isDiff(name string) bool {
	parts := strings.Split(name, "/")
	return len(parts) == 4 && parts[2] == diffsFolder
}

// stepsOf reads a diff or a progress. An unreadable file becomes one step with all of
// its text.
func stepsOf(name string, data []byte) (Source, []step) {
	var d diff
	var p progress
	base, isProgress := strings.CutSuffix(path.Base(name), progressExt)
	commit, _ := filename.Decode(strings.TrimSuffix(base, diffExt))
	if isProgress && json.Unmarshal(data, &p) == nil {
		return Source{Commit: commit}, p.Instead
	}
	if json.Unmarshal(data, &d) != nil {
		return Source{Commit: commit}, []step{{Reason: string(data)}}
	}
	return d.Source, d.steps()
}

func mentions(s step, gone []Memory) bool {
	return slices.ContainsFunc(gone, func(m Memory) bool { return m.ID == s.ID || m.ID == s.PageID })
}

func (e *eraser) hits(s step) bool {
	texts := []Memory{parse(s.File, []byte(s.After)), parse(s.File, []byte(s.Before)), {Text: Text{Abstract: s.Reason}}}
	if s.Candidate != nil {
		texts = append(texts, Memory{Topic: s.Candidate.Topic, Text: s.Candidate.Text})
	}
	return slices.ContainsFunc(texts, e.hit)
}

func (e *eraser) remove(ctx context.Context, file string, place transcript.Place) error {
	if e.really {
		e.announce("erase")
		if err := e.files.Remove(ctx, file); err != nil {
			return err
		}
	}
	e.places = append(e.places, place)
	return nil
}
