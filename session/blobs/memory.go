package blobs

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/convolog/convolog/session"
)

// memory is a Store in memory.
type memory struct {
	mu  sync.Mutex // guards all
	all map[session.Ref]map[string][]byte
}

// Memory returns an empty Store that keeps blobs in memory, for tests of applications
// with the memory driver.
func Memory() Store { return &memory{all: map[session.Ref]map[string][]byte{}} }

func (m *memory) Put(_ context.Context, ref session.Ref, hash string, data []byte) error {
	if err := checkHash(hash); err != nil {
		return fmt.Errorf("blobs: keep: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all[ref] == nil {
		m.all[ref] = map[string][]byte{}
	}
	m.all[ref][hash] = bytes.Clone(data)
	return nil
}

func (m *memory) Get(_ context.Context, ref session.Ref, hash string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.all[ref][hash]
	if !ok {
		return nil, fmt.Errorf("blobs: read %.12s of %s/%s: %w", hash, ref.Agent, ref.ID, fs.ErrNotExist)
	}
	return bytes.Clone(data), nil
}

func (m *memory) List(_ context.Context, ref session.Ref) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.all[ref])), nil
}

func (m *memory) Delete(_ context.Context, ref session.Ref, hashes ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, hash := range hashes {
		delete(m.all[ref], hash)
	}
	return nil
}
