package session

import (
	"context"
	"slices"
	"sync"
)

// A queue orders the appends of one session in one process: one job at a time is written,
// together with those that arrived while the one before it was written, so that one write
// and one sync serve many. The zero value is ready to use.
type queue[J interface {
	comparable
	queueing[J]
}] struct {
	mu      sync.Mutex
	led     bool // a job is being written
	waiting []J
}

// queueing are the methods of a job.
type queueing[J any] interface {
	place() *ticket
	// joins reports whether the job can be written with those before it.
	joins(group []J) bool
}

// A ticket is the place of a job in a queue.
type ticket struct {
	ctx     context.Context //nolint:containedctx // of the call, which waits for the job
	alone   bool            // the job was written with others in vain
	signals chan signal
}

// A signal ends the wait of a job, or begins it anew.
type signal int

const (
	jobLeads    signal = iota // write it
	jobDone                   // another job took it along
	jobReturned               // it was taken along in vain and waits again
)

// join waits until the job leads the queue or was written with another one. A job
// whose context ends leaves the queue, unless it is being written.
func (q *queue[J]) join(j J) (leads bool, err error) {
	t := j.place()
	if err := t.ctx.Err(); err != nil {
		return false, err
	}
	q.mu.Lock()
	if !q.led {
		q.led = true
		q.mu.Unlock()
		return true, nil
	}
	q.waiting, t.signals = append(q.waiting, j), make(chan signal, 2) // a job returns once at most
	q.mu.Unlock()
	ended := t.ctx.Done()
	for {
		select {
		case s := <-t.signals:
			if s != jobReturned {
				return s == jobLeads, nil
			}
			ended = t.ctx.Done()
		case <-ended:
			if q.remove(j) {
				return false, t.ctx.Err()
			}
			ended = nil // wait for the signal
		}
	}
}

// remove takes a job out of the queue. It reports whether the job was waiting.
func (q *queue[J]) remove(j J) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, j)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// take appends the first waiting jobs that join a group to it.
func (q *queue[J]) take(group []J) []J {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for n < len(q.waiting) && q.waiting[n].joins(group) {
		group = append(group, q.waiting[n])
		n++
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
	return group
}

// giveBack puts jobs that were taken back, each to be written alone.
func (q *queue[J]) giveBack(taken []J) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.Insert(q.waiting, 0, taken...)
	for _, j := range taken {
		j.place().alone = true
		j.place().signals <- jobReturned
	}
}

// leave ends the lead of a job and the wait of those that it took. The next one leads.
func (q *queue[J]) leave(taken []J) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range taken {
		j.place().signals <- jobDone
	}
	if q.led = len(q.waiting) > 0; q.led {
		next := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		next.place().signals <- jobLeads
	}
}
