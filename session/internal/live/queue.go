package live

import (
	"slices"
	"sync"
)

// A queue orders the appends of one session in one process: one job at a time is written,
// together with those that arrived while the one before it was written, so that one write
// and one sync serve many. The zero value is ready to use.
type queue struct {
	mu      sync.Mutex
	led     bool // a job is being written
	waiting []*Job
}

// join waits until the job leads the queue or was written with another one. A job
// whose context ends leaves the queue, unless it is being written.
func (q *queue) join(j *Job) (leads bool, err error) {
	if err := j.Ctx.Err(); err != nil {
		return false, err
	}
	q.mu.Lock()
	if !q.led {
		q.led = true
		q.mu.Unlock()
		return true, nil
	}
	q.waiting, j.leads = append(q.waiting, j), make(chan bool, 1)
	q.mu.Unlock()
	select {
	case leads := <-j.leads:
		return leads, nil
	case <-j.Ctx.Done():
		if q.remove(j) {
			return false, j.Ctx.Err()
		}
		return <-j.leads, nil
	}
}

// remove takes a job out of the queue. It reports whether the job was waiting.
func (q *queue) remove(j *Job) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, j)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i >= 0
}

// take appends the first waiting jobs that join a group to it.
func (q *queue) take(group []*Job) []*Job {
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

// leave ends the lead of a job and the wait of those that it took. The next one leads.
func (q *queue) leave(taken []*Job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, j := range taken {
		j.leads <- false
	}
	if q.led = len(q.waiting) > 0; q.led {
		next := q.waiting[0]
		q.waiting = slices.Delete(q.waiting, 0, 1)
		next.leads <- true
	}
}
