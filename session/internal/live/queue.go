package live

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// A Job is one append on its way, and its place in a queue. The caller sets all exported
// fields but Done.
type Job struct {
	Ctx   context.Context //nolint:containedctx // of the call, which waits for the job
	Owner string          // of the scope that appends, or empty
	At    time.Time       // of the entries
	Idem  string          // idempotency key, or empty

	// Entries are the lines to write. Decide, if not nil, validates or makes them from
	// the session as it stands, holding its lock; its error is the result of the job.
	// Build, if not nil, is called next, without a lock. Both may be called several
	// times.
	Entries []transcript.Entry
	Decide  func(ctx context.Context) error
	Build   func() error
	Rev     int // of the session that Decide must find; [AnyRev] is the one it finds first

	// Foreign marks entries that were made elsewhere. They may be several batches or a
	// part of one, so the next read takes them from the transcript. They are written
	// if all lines after the cursor After only make the session current.
	Foreign bool
	After   driver.Cursor

	Done Result

	alone bool      // no other job is written with it: set by Alone
	leads chan bool // ends the wait: true if the job must be written, false if another one wrote it; made by join
	self  [1]*Job   // room for the group of a job that is written alone
}

// AnyRev accepts the rev that the first Decide finds.
const AnyRev = -1

// A Result is the outcome of a job.
type Result struct {
	driver.Result
	Err   error
	Hit   bool // the idempotency key is known: nothing was written
	Bytes int  // of the lines that were written
	Took  time.Duration
}

// The most jobs that are written together, and the most bytes of each: a larger job is
// written alone, so that others do not wait for it.
const (
	maxJobs     = 128
	maxJobBytes = 64 << 10
)

// joins reports whether a job can be written with those before it: none depends on more
// than its idempotency key, and no key occurs twice.
func (j *Job) joins(group []*Job) bool {
	sameKey := func(other *Job) bool { return j.Idem != "" && other.Idem == j.Idem }
	return len(group) < maxJobs && group[0].isSimple() && j.isSimple() && !slices.ContainsFunc(group, sameKey)
}

func (j *Job) isSimple() bool {
	return j.Decide == nil && !j.Foreign && !j.alone && j.size() <= maxJobBytes
}

// size returns the bytes of the lines, with their line breaks.
func (j *Job) size() (n int) {
	for _, e := range j.Entries {
		n += len(e.Line()) + 1
	}
	return n
}

// A queue orders the appends of one session in one process: one job at a time is written,
// together with those that arrived while the one before it was written, so that one write
// and one sync serve many. The zero value is ready to use.
type queue struct {
	mu      sync.Mutex
	led     bool   // a job is being written: set by join, cleared by leave
	waiting []*Job // added by join; removed by remove, take and leave
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

// take moves the first waiting jobs that can join a group to it.
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

// leave ends the lead of a job and the wait of the jobs that it took. The next one
// leads.
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
