package blobs

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"github.com/convolog/convolog/session/driver"
)

// A Memory keeps blobs in memory, for tests of applications beside the memory
// driver. It is safe for several goroutines.
type Memory struct {
	mu  sync.Mutex // guards all
	all map[driver.Ref]map[string][]byte
}

// NewMemory returns a Memory without blobs.
func NewMemory() *Memory { return &Memory{all: map[driver.Ref]map[string][]byte{}} }

// Put keeps a copy of data under its hash.
func (m *Memory) Put(_ context.Context, ref driver.Ref, hash string, data []byte) error {
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

// Get returns the data with that hash. If it is not there the error matches
// [fs.ErrNotExist].
func (m *Memory) Get(_ context.Context, ref driver.Ref, hash string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	data, ok := m.all[ref][hash]
	if !ok {
		return nil, fmt.Errorf("blobs: read %.12s of %s/%s: %w", hash, ref.Agent, ref.ID, fs.ErrNotExist)
	}
	return bytes.Clone(data), nil
}

// List returns the hashes of the blobs of a session.
func (m *Memory) List(_ context.Context, ref driver.Ref) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.all[ref])), nil
}

// Delete removes blobs of a session; without hashes it removes none.
func (m *Memory) Delete(_ context.Context, ref driver.Ref, hashes ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, hash := range hashes {
		delete(m.all[ref], hash)
	}
	return nil
}
