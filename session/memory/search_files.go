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

// A recent has memories as they were read last, so that a search reads only those
// that have changed.
type recent struct {
	mu    sync.Mutex // guards the fields below
	files map[string]recentFile
	bytes int
}

type recentFile struct {
	version string
	mem     Memory
}

// maxRecent is how many bytes of texts are kept.
const maxRecent = 32 << 20

func (r *recent) get(f File) (Memory, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, ok := r.files[f.Name]
	return got.mem, ok && got.version == f.Version
}

// put keeps a memory. If there is no room for it, the others make it.
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

// drop forgets a file, or all below a folder. The lock is held.
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

// memories calls f with every memory of a scope. A file that cannot be read is left
// out and named in the error. Of very many memories some are held at a time.
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

// recall returns a memory as it was read last, if it has not changed; nil if it is
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
	mem.Scope = scope // of shared ones there are several
	return &mem, nil
}
