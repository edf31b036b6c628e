package session

import (
	"context"
	"sync"
	"time"
)

// patience is a context that ends a while after somebody first waits for its
// end, and not with the one that it has its values from. Unlike one of
// [context.WithTimeout] it costs nothing if nobody does, which is so for nearly
// every append.
type patience struct {
	context.Context // for its values
	limit           time.Duration

	mu    sync.Mutex // guards what follows
	ended chan struct{}
	timer *time.Timer
	err   error
}

// Deadline implements [context.Context]. There is none yet.
func (p *patience) Deadline() (time.Time, bool) { return time.Time{}, false }

// Done implements [context.Context].
func (p *patience) Done() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended == nil {
		p.ended = make(chan struct{})
		p.timer = time.AfterFunc(p.limit, p.end)
	}
	return p.ended
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = context.DeadlineExceeded
	close(p.ended)
}

// Err implements [context.Context].
func (p *patience) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// stop releases what waiting has made. Who still waits does so for ever.
func (p *patience) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}
