package session

import (
	"bufio"
	"crypto/rand"
	"sync"

	"github.com/google/uuid"
)

// ids makes entry and session IDs: UUIDs of version 7, each greater than those
// that this process made before. It is safe for several goroutines.
type ids struct {
	mu     sync.Mutex
	random *bufio.Reader // asks the system once for many IDs
}

const randomAhead = 64 * 16 // bytes, for as many IDs

func newIDs() *ids { return &ids{random: bufio.NewReaderSize(rand.Reader, randomAhead)} }

func (s *ids) next() string {
	s.mu.Lock()
	id := uuid.Must(uuid.NewV7FromReader(s.random)) // rand.Reader never fails
	s.mu.Unlock()
	return id.String()
}
