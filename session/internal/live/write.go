package live

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Submit writes a job in its turn and sets Done. It reports false if the job was not
// tried: its context ended while it waited.
func (s *State) Submit(j *Job) bool {
	leads, err := s.queue.join(j)
	if err != nil {
		j.Done = Result{Err: err}
		return false
	}
	if leads {
		s.lead(j)
	}
	return true
}

// lead writes a job, with the waiting jobs that can be written with it.
func (s *State) lead(j *Job) {
	group := s.queue.take(append(j.self[:0], j))
	defer s.queue.leave(group[1:])
	for _, other := range group[1:] {
		other.Done.Err = errors.New("an append that was written with this one panicked: this one may exist; read the session again")
	}
	ctx, cancel := togetherContext(group)
	defer cancel()
	began := time.Now()
	res, err := s.append(ctx, group)
	if err == nil || len(group) == 1 || mayBeWritten(err) {
		s.finish(group, res, err, time.Since(began))
		return
	}
	for i, j := range group { // the error may be about one of them
		began, alone := time.Now(), group[i:i+1]
		res, err := s.append(j.Ctx, alone)
		s.finish(alone, res, err, time.Since(began))
	}
}

// togetherContext returns the context of jobs that are written together: it ends when
// the context of any job ends.
func togetherContext(group []*Job) (context.Context, func()) {
	if len(group) == 1 {
		return group[0].Ctx, func() {}
	}
	ctx, cancel := context.WithCancel(group[0].Ctx)
	stops := make([]func() bool, 0, len(group))
	for _, other := range group[1:] {
		if other.Ctx.Done() != nil {
			stops = append(stops, context.AfterFunc(other.Ctx, cancel))
		}
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// mayBeWritten reports whether, after an error of an append, its lines or a part of them
// may be in the transcript.
func mayBeWritten(err error) bool {
	failed, ok := errors.AsType[*driver.NotDurableError](err)
	return ok && !failed.Refused || errors.Is(err, driver.ErrFragment)
}

// append stores the lines of jobs, the first of which leads.
func (s *State) append(ctx context.Context, group []*Job) (res driver.Result, err error) {
	pooled, _ := linePool.Get().(*[]driver.Line)
	lines := (*pooled)[:0]
	defer func() {
		*pooled = lines
		clear(lines)
		linePool.Put(pooled)
		if IsGone(err) { // before the next job is decided
			s.Forget()
		}
	}()
	at, err := s.prepare(ctx, group, false)
	if lines = linesOf(lines[:0], group); err != nil || len(lines) == 0 {
		return res, err
	}
	if at == driver.Anywhere {
		return s.o.Driver.Append(ctx, s.ref, lines, at, nil)
	}
	// If other processes have appended, they wait now, so that every writer succeeds.
	return s.o.Driver.Append(ctx, s.ref, lines, at, func(ctx context.Context, _ driver.Cursor) ([]driver.Line, error) {
		_, err := s.prepare(ctx, group, true)
		return linesOf(nil, group), err
	})
}

// prepare reads the session, makes the entries of the jobs, and returns the cursor at
// which their lines must begin. If held is set, the driver holds the log.
func (s *State) prepare(ctx context.Context, group []*Job, held bool) (at driver.Cursor, err error) {
	if at, err = s.decide(ctx, group, held); err != nil {
		return at, err
	}
	for _, j := range group {
		if j.Build == nil {
			continue
		}
		if err := j.Build(); err != nil {
			return at, err
		}
	}
	return at, nil
}

// decide is prepare without the building of entries. If held is set, the driver holds the
// log. It reads if a job decides, if held is set, or if the state is stale or new.
func (s *State) decide(ctx context.Context, group []*Job, held bool) (driver.Cursor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if group[0].Decide != nil || held || s.stale.Load() {
		if err := s.Sync(ctx); err != nil {
			return 0, err
		}
	}
	if err := s.Writable(ctx); err != nil {
		return 0, err
	}
	at := driver.Anywhere
	for _, j := range group {
		if err := Shown(j.Owner, s.Owner(), nil); err != nil {
			return 0, err
		}
		if j.Foreign {
			if held {
				return 0, s.Unchanged(ctx, j.After)
			}
			return j.After, nil
		}
		if j.Idem != "" || j.Decide != nil {
			at = s.end()
		}
		if j.Done.Hit = j.Idem != "" && s.HasKey(j.Idem); j.Done.Hit || j.Decide == nil {
			continue
		}
		switch {
		case j.Rev == AnyRev:
			j.Rev = s.Rev()
		case j.Rev != s.Rev():
			return 0, fmt.Errorf("%w: something was erased from it during the call, and nothing was written", driver.ErrReplaced)
		}
		if err := j.Decide(ctx); err != nil {
			return 0, err
		}
	}
	return at, nil
}

// Unchanged returns [driver.ErrConflict] unless all entries after a place only make the
// session current.
func (s *State) Unchanged(ctx context.Context, after driver.Cursor) error {
	for rec, err := range s.Scan(ctx)(after, driver.Forward) {
		if err != nil {
			return err
		}
		switch rec.Entry.Body.(type) {
		case nil, transcript.Header, transcript.Current:
		default:
			return driver.ErrConflict
		}
	}
	return nil
}

// finish records the outcome of jobs that were written together.
func (s *State) finish(group []*Job, res driver.Result, err error, took time.Duration) {
	meta := false
	for _, j := range group {
		j.Done.Result, j.Done.Err, j.Done.Took = res, err, took
		if err == nil && !j.Done.Hit {
			j.Done.Bytes = j.size()
			meta = meta || slices.ContainsFunc(j.Entries, func(e transcript.Entry) bool { return e.Type() == "meta" })
		}
	}
	if err != nil {
		if mayBeWritten(err) {
			s.RowDue()
		}
		return
	}
	if put := s.appended(res, group); put || meta || s.tentative() {
		s.PutRow(group[0].Ctx, meta || s.tentative()) // nothing puts the row of a tentative state later
	}
}

// linePool holds lists of lines; no driver retains them.
var linePool = sync.Pool{New: func() any { return new([]driver.Line) }}

// linesOf appends the lines that jobs are to write to a list.
func linesOf(list []driver.Line, group []*Job) []driver.Line {
	for _, j := range group {
		if j.Done.Hit {
			continue
		}
		for _, e := range j.Entries {
			list = append(list, LineOf(e))
		}
	}
	return list
}

// LineOf returns the line of an entry for the driver.
func LineOf(e transcript.Entry) driver.Line {
	return driver.Line{ID: e.ID, Data: e.Line()}
}

// appended records an append of this process that has succeeded. It reports
// whether the index should have a row now.
func (s *State) appended(res driver.Result, group []*Job) (put bool) {
	if res.Start == res.End { // all of them were repeats, or decided to write nothing
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	own := fresh{Result: res}
	for _, j := range group {
		if j.Foreign {
			clear(j.Entries) // a row may read them from the log, and they may be large
		}
		if j.Done.Hit || j.Foreign {
			continue
		}
		if j.Idem != "" {
			s.AddKey(j.Idem, res.Start)
		}
		for i, e := range j.Entries {
			j.Entries[i] = e.WithLine(nil) // the fold does not need it
		}
		if len(group) == 1 {
			own.entries = j.Entries
		} else {
			own.entries = append(own.entries, j.Entries...)
		}
	}
	if len(own.entries) > 0 && s.end() == res.Start { // else the next read finds them
		s.fresh = append(s.fresh, own)
	}
	s.wrote = max(s.wrote, res.End)
	s.wroteAt = group[0].At
	s.RowDue()
	return s.wroteAt.Sub(s.rowAt) >= rowAge
}
