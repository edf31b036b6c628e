package memory

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// An Index finds memories by their meaning, by embeddings for example. A result
// counts only if the memory's text is still the one that was put. An Index is
// safe for several goroutines.
//
// Folder and name locate the file, "owners/ana" and
// "owners/ana/user/memories/entities/rex.md" for example. An Index must not mix
// folders: they belong to different people.
type Index interface {
	// Put stores the text of a memory, with its hash, and replaces an earlier text
	// of that name. It does nothing if the hash is the same.
	Put(ctx context.Context, folder, name, hash, text string) error
	// Delete forgets a name, or with an empty name the whole folder. When the
	// error is nil, no part of it is left.
	Delete(ctx context.Context, folder, name string) error
	// Near returns the names in a folder whose texts are nearest to a text, the
	// nearest first.
	Near(ctx context.Context, folder, text string, limit int) ([]Near, error)
}

// A Near is a result of an [Index].
type Near struct {
	Name  string
	Hash  string  // from Put
	Score float64 // from 0 to 1; 1 is as good as the best hit by words
}

// text returns the text for an Index.
func (t Text) text() string {
	return strings.TrimSpace(strings.Join([]string{t.Abstract, t.Overview, t.Content}, "\n\n"))
}

// Reindex gives all memories of a scope to [Options].Index: memories older than
// the Index, and memories that people edited.
func (m *Store) Reindex(ctx context.Context, scope Scope) error {
	if m.opts.Index == nil {
		return nil
	}
	if err := scope.check(); err != nil {
		return fmt.Errorf("memory: reindex: %w", err)
	}
	var failed error
	err := m.memories(ctx, scope, func(mem *Memory) {
		if failed == nil {
			failed = m.opts.Index.Put(ctx, folderOf(mem.file), mem.file, mem.hash(), mem.text())
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return fmt.Errorf("memory: reindex %s: %w", scope, err)
	}
	return nil
}

// folderOf returns a file's folder of an owner or an agent.
func folderOf(name string) string {
	parts := strings.SplitN(name, "/", 3)
	return strings.Join(parts[:min(len(parts), 2)], "/")
}

// near adds hits of the Index, except for old texts of a memory.
func (m *Store) near(ctx context.Context, o SearchOptions, f *finding) error {
	if m.opts.Index == nil || f.query == "" {
		return nil
	}
	folders := []string{ownerFolder(o.Scope.Owner)}
	if m.opts.Shared && o.Scope.Agent != "" {
		folders = append(folders, agentFolder(o.Scope.Agent))
	}
	files, err := m.placed(ctx, o.Scope)
	if err != nil {
		return err
	}
	there := make(map[string]placed, len(files))
	for _, file := range files {
		there[file.Name] = file
	}
	for _, folder := range folders {
		list, err := m.opts.Index.Near(ctx, folder, f.query, o.Limit)
		if err != nil {
			return fmt.Errorf("index: %w", err)
		}
		for _, n := range list[:min(len(list), o.Limit)] {
			file, ok := there[n.Name]
			if !ok || folderOf(n.Name) != folder {
				continue
			}
			mem, err := m.recall(ctx, o.Scope, file)
			if err != nil {
				return err
			}
			if mem != nil && n.Hash == mem.hash() {
				f.nearby(mem, min(max(n.Score, 0), 1))
			}
		}
	}
	return nil
}

// nearby adds to the score of a memory, or adds the memory.
func (f *finding) nearby(m *Memory, score float64) {
	i := slices.IndexFunc(f.found, func(d document) bool { return d.Memory != nil && d.Memory.file == m.file })
	if i < 0 {
		i = len(f.found)
		f.found = append(f.found, m.document())
	}
	f.found[i].near = score
}

// noticed is a Storage that reports changes to the Index and to the cache.
type noticed struct {
	Storage
	index  Index // nil if missing
	recent *recent
}

func (n noticed) Create(ctx context.Context, name string, data []byte) error {
	err := n.Storage.Create(ctx, name, data)
	n.changed(ctx, name, data, err)
	return err
}

func (n noticed) Write(ctx context.Context, name string, data []byte) error {
	err := n.Storage.Write(ctx, name, data)
	n.changed(ctx, name, data, err)
	return err
}

func isMemory(name string) bool {
	return strings.HasSuffix(name, extension) && strings.Contains(name, "/memories/")
}

// changed passes the content of a file to the Index. If that fails the memory is
// still written; stale hits are dropped later.
func (n noticed) changed(ctx context.Context, name string, data []byte, err error) {
	n.recent.forget(name)
	if n.index == nil || err != nil || !isMemory(name) {
		return
	}
	text := parse(name, data).Text
	_ = n.index.Put(ctx, folderOf(name), name, text.hash(), text.text())
}

// Remove deletes from the Index first, so that after an error the file can be
// removed again.
func (n noticed) Remove(ctx context.Context, name string) error {
	n.recent.forget(name)
	whole := folderOf(name) == name
	if n.index != nil && (whole || isMemory(name)) {
		file := name
		if whole {
			file = ""
		}
		if err := n.index.Delete(ctx, folderOf(name), file); err != nil {
			return fmt.Errorf("index: %s: %w", name, err)
		}
	}
	return n.Storage.Remove(ctx, name)
}
