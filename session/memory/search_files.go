package memory

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

// A recent caches memories as they were last read, so that a search reads only
// changed ones.
type recent struct {
	mu    sync.Mutex // guards the fields below
	files map[string]recentFile
	bytes int
}

type recentFile struct {
	version string
	mem     Memory
}

// maxRecent limits the bytes of kept texts.
const maxRecent = 32 << 20

func (r *recent) get(f File) (Memory, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, ok := r.files[f.Name]
	return got.mem, ok && got.version == f.Version
}

// put keeps a memory. Without room for it, all others go.
func (r *recent) put(f File, m Memory) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(f.Name)
	size := m.size()
	if r.bytes+size > maxRecent || r.files == nil {
		r.files, r.bytes = map[string]recentFile{}, 0
	}
	r.files[f.Name] = recentFile{f.Version, m}
	r.bytes += size
}

// drop forgets a file. The caller holds mu.
func (r *recent) drop(name string) {
	if old, ok := r.files[name]; ok {
		r.bytes -= old.mem.size()
		delete(r.files, name)
	}
}

// forget forgets a file, or all files below a folder.
func (r *recent) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(name)
	for file := range r.files {
		if strings.HasPrefix(file, name+"/") {
			r.drop(file)
		}
	}
}

// memories calls f with every memory of a scope. It skips an unreadable file and
// names it in the error. It holds only some of very many memories at a time.
func (m *Store) memories(ctx context.Context, scope Scope, f func(*Memory)) error {
	files, err := m.placed(ctx, scope)
	if err != nil {
		return err
	}
	const some = 512
	known := make(map[string]bool, len(files))
	var failed []error
	for part := range slices.Chunk(files, some) {
		read := make([]*Memory, len(part))
		errs := make([]error, len(part))
		group, running := errgroup.WithContext(ctx)
		workers := runtime.GOMAXPROCS(0)
		for w := range workers {
			group.Go(func() error {
				for i := w; i < len(part) && running.Err() == nil; i += workers {
					read[i], errs[i] = m.recall(running, scope, part[i])
				}
				return running.Err()
			})
		}
		if err := group.Wait(); err != nil {
			return errors.Join(append(failed, err)...)
		}
		for i, mem := range read {
			if mem == nil {
				continue
			}
			if known[mem.ID] {
				mem.ID = fileID(part[i].Name) // a copy
			}
			known[mem.ID] = true
			f(mem)
		}
		failed = append(failed, errs...)
	}
	return errors.Join(failed...)
}

// recall returns a memory, from the cache if its file is unchanged; nil if it is
// missing.
func (m *Store) recall(ctx context.Context, scope Scope, f placed) (*Memory, error) {
	mem, ok := m.recent.get(f.File)
	if !ok {
		var err error
		mem, err = m.read(ctx, scope, f.category, f.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		m.recent.put(f.File, mem)
	}
	mem.Scope = scope // shared memories are in several
	return &mem, nil
}
