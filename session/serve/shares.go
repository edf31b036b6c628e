package serve

import (
	"context"
	"slices"
	"sync"
)

// shares divide an amount between owners. An owner that holds a part may take more, up
// to three times the free rest in all. A single owner thus leaves a quarter free for
// others. Waiting owners take turns.
type shares struct {
	mu     sync.Mutex
	free   int64
	held   map[string]int64
	queues []*queue // one for each waiting owner, the next one first
}

// A queue holds the waiting requests of one owner.
type queue struct {
	owner string
	all   []*request
}

type request struct {
	n     int64
	taken chan struct{} // closed when the owner holds the part
}

func newShares(amount int64) *shares {
	return &shares{free: amount, held: map[string]int64{}}
}

// take waits for a part of the amount. It fails only if ctx is done.
func (s *shares) take(ctx context.Context, owner string, n int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	r := &request{n, make(chan struct{})}
	s.mu.Lock()
	q := s.queue(owner)
	q.all = append(q.all, r)
	s.serve()
	s.mu.Unlock()
	select {
	case <-r.taken:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(q.all, r); i >= 0 {
		q.all = slices.Delete(q.all, i, i+1)
		s.serve()
		return context.Cause(ctx)
	}
	return nil // serve gave the part before ctx was done
}

// try takes a part of the amount if it fits and no request waits.
func (s *shares) try(owner string, n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queues) > 0 || !s.fits(owner, n) {
		return false
	}
	s.free -= n
	s.held[owner] += n
	return true
}

// fits reports whether an owner may take a part now. The caller holds the mutex.
func (s *shares) fits(owner string, n int64) bool {
	rest, held := s.free-n, s.held[owner]
	return rest >= 0 && (held == 0 || held+n <= 3*rest)
}

// give returns a part.
func (s *shares) give(owner string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += n
	if s.held[owner] -= n; s.held[owner] == 0 {
		delete(s.held, owner)
	}
	s.serve()
}

// queue returns the queue of an owner. The caller holds the mutex.
func (s *shares) queue(owner string) *queue {
	if i := slices.IndexFunc(s.queues, func(q *queue) bool { return q.owner == owner }); i >= 0 {
		return s.queues[i]
	}
	s.queues = append(s.queues, &queue{owner: owner})
	return s.queues[len(s.queues)-1]
}

// serve gives parts to requests until none fits. An owner that gets a part moves to the
// end. The caller holds the mutex.
func (s *shares) serve() {
	s.queues = slices.DeleteFunc(s.queues, func(q *queue) bool { return len(q.all) == 0 })
	for i := 0; i < len(s.queues); i++ {
		q := s.queues[i]
		r := q.all[0]
		if !s.fits(q.owner, r.n) {
			continue
		}
		s.free -= r.n
		s.held[q.owner] += r.n
		close(r.taken)
		q.all = q.all[1:]
		if s.queues = slices.Delete(s.queues, i, i+1); len(q.all) > 0 {
			s.queues = append(s.queues, q)
		}
		i = -1
	}
}
