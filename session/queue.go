package session

import (
	"context"
	"slices"
	"sync"
)

// A queue orders the appends of one session in one process: one job at a time is written,
// together with those that arrived meanwhile, so that one write and one sync serve many.
// The zero value is ready to use.
type queue struct {
	mu      sync.Mutex
	led     bool // a job is being written
	waiting []*job
}

// What a waiting job is told.
type signal int

const (
	jobLeads    signal = iota // write it
	jobDone                   // another job took it along
	jobReturned               // it was taken along in vain and waits again
)

// join waits until the job leads the queue or was written with another one. A job
// whose context ends leaves the queue, unless it is being written.
func (q *queue) join(j *job) (leads bool, err error) {
	if err := j.ctx.Err(); err != nil {
		return false, err
	}
	q.mu.Lock()
	if !q.led {
		q.led = true
		q.mu.Unlock()
		return true, nil
	}
	j.signals = make(chan signal, 2) // a job returns once at most
	q.waiting = append(q.waiting, j)
	q.mu.Unlock()
	ended := j.ctx.Done()
	for {
		select {
		case s := <-j.signals:
			switch s {
			case jobLeads:
				return true, nil
			case jobDone:
				return false, nil
			default:
				ended = j.ctx.Done()
			}
		case <-ended:
			if q.remove(j) {
				return false, j.ctx.Err()
			}
			ended = nil // wait for the signal
		}
	}
}

// remove takes a job out of the queue. It reports whether the job was waiting.
func (q *queue) remove(j *job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, j)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// The most that a job takes along. The bound on bytes keeps the others from waiting for
// a long write.
const (
	maxJobs     = 128
	maxJobBytes = 1 << 20
)

// take returns a job that leads and those behind it that can be written with it.
func (q *queue) take(j *job) []*job {
	j.group = append(j.self[:0], j)
	if !j.joins() {
		return j.group
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, j.size()
	for ; n < len(q.waiting) && n+1 < maxJobs; n++ {
		next := q.waiting[n]
		if size += next.size(); size > maxJobBytes || !next.joins() || next.idem != "" && slices.ContainsFunc(j.group, next.sameKey) {
			break
		}
		j.group = append(j.group, next)
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
	return j.group
}

// giveBack puts the jobs that a leading job took along back, each to be written alone.
func (q *queue) giveBack(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = slices.Insert(q.waiting, 0, j.group[1:]...)
	for _, other := range j.group[1:] {
		other.alone = true
		other.signals <- jobReturned
	}
	j.group = j.group[:1]
}

// leave ends the lead of a job: those that it took along are done, and the next one leads.
func (q *queue) leave(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, other := range j.group[min(1, len(j.group)):] {
		other.signals <- jobDone
	}
	if q.led = len(q.waiting) > 0; q.led {
		next := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		next.signals <- jobLeads
	}
}

// A job is one append on its way. The call that makes it waits for it.
type job struct {
	ctx context.Context //nolint:containedctx // of the call
	write
	// decide, if not nil, validates or makes the write over the session as it stands.
	decide func(v *View) error
	rev    int // that decide began with

	done result

	alone   bool // another job's append with it has failed
	signals chan signal
	group   []*job // what it leads, itself first
	self    [1]*job
}

var jobPool = sync.Pool{New: func() any { return new(job) }}

// joins reports whether a job depends on nothing but its idempotency key.
func (j *job) joins() bool { return j.decide == nil && !j.foreign && !j.alone }

func (j *job) sameKey(other *job) bool { return j.idem == other.idem }
