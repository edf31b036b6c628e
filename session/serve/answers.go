package serve

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// A Responder is the agent loop of the application. It answers the messages of users at
// the end of the history: it calls the model, appends the answer, runs tools, and so on,
// until an answer has no calls. Text that it writes to a draft of the turn reaches
// clients with each Flush. It returns when ctx is done: after a request to stop, at the
// end of Options.Timeout, and when the server is closed.
//
// The turn is ended by the server. If a Responder appends no answer, the
// clients get an event about that; its error is logged and not sent.
type Responder func(ctx context.Context, s *session.Session, t *turn.Turn) error

// Why a turn has ended without an answer: the Ended of an interrupt.
const (
	endStopped = "stopped" // on request
	endTimeout = "timeout"
	endClosed  = "closed" // the server was
	endFailed  = "failed" // the responder did
	endLost    = "lost"   // its server was killed
)

var (
	errStopped = errors.New("asked to stop")
	errTimeout = errors.New("the answer has taken longer than Options.Timeout")
)

// answers is the goroutine that answers texts in a session.
type answers struct {
	more atomic.Bool // something was said since it looked
}

// takes returns the reason why the server takes no texts to answer. It runs before
// they are queued: a client that retries would send them twice.
func (sv *Server) takes() error {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	switch {
	case sv.opts.Respond == nil:
		return errNoResponder
	case sv.closing.Err() != nil:
		return errClosed
	}
	return nil
}

// answer has queued texts of a session answered, in the background. If the server is
// stopping they wait for the next one.
func (sv *Server) answer(s *session.Session) {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	if sv.closing.Err() != nil || sv.opts.Respond == nil {
		return
	}
	if a := sv.answers[s.Ref()]; a != nil {
		a.more.Store(true)
		return
	}
	a := &answers{}
	sv.answers[s.Ref()] = a
	sv.working.Go(func() {
		for {
			a.more.Store(false)
			if err := sv.answerAll(s); err != nil && !isGone(err) && !errors.Is(err, errClosed) && sv.life.Err() == nil {
				sv.log("answering failed", s, err)
			}
			sv.mu.Lock()
			if !a.more.Load() || sv.life.Err() != nil {
				delete(sv.answers, s.Ref())
				sv.mu.Unlock()
				return
			}
			sv.mu.Unlock()
		}
	})
}

func (sv *Server) isAnswering(s *session.Session) bool {
	sv.mu.Lock()
	defer sv.mu.Unlock()
	return sv.answers[s.Ref()] != nil
}

// log writes the cause of a failure to the log of the application. Clients only get a
// code.
func (sv *Server) log(what string, s *session.Session, err error) {
	sv.opts.Logger.Warn("serve: "+what, "agent", s.Ref().Agent, "session", s.Ref().ID, "err", discreet(err))
}

// answerAll answers until nothing is queued.
func (sv *Server) answerAll(s *session.Session) error {
	for {
		info, err := s.Info(sv.life)
		if err != nil {
			return err
		}
		t, err := sv.begin(s, info.Owner)
		if err != nil {
			return err
		}
		said, err := sv.oneTurn(s, t)
		err = errors.Join(err, t.End())
		sv.slots.give(info.Owner, 1)
		if err != nil || !said {
			return err
		}
	}
}

// maxPause is how long it may take to see that the turn of another server is over.
const maxPause = time.Second

// begin begins a turn, which closes the drafts of turns that are over, and takes one of
// the slots of this server for the owner. It waits for both, but holds no slot while another server
// has the turn.
func (sv *Server) begin(s *session.Session, owner string) (*turn.Turn, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		if err := sv.slots.take(sv.life, owner, 1); err != nil {
			return nil, err
		}
		t, err := turn.TryBegin(sv.life, s)
		if err == nil {
			return t, nil
		}
		sv.slots.give(owner, 1)
		if !errors.Is(err, session.ErrBusy) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-sv.closing.Done(): // the other server answers queued texts
			return nil, errClosed
		}
	}
}

// oneTurn ends the leftovers of the turn before, and answers queued texts. It
// reports whether there were any.
func (sv *Server) oneTurn(s *session.Session, t *turn.Turn) (said bool, err error) {
	keep := context.WithoutCancel(sv.life)
	held, err := suspended(keep, s)
	if err != nil || held.waits() {
		return false, err
	}
	if !held.continues() {
		if err := sv.endOpen(keep, s, held.or(endLost)); err != nil {
			return false, err
		}
	}
	if sv.life.Err() != nil {
		return false, nil // queued texts wait for the next server
	}
	if !held.continues() {
		if ids, err := turn.Drain(sv.life, s, 1); err != nil || len(ids) == 0 {
			return false, err
		}
	}
	text, err := lastDrained(keep, s)
	if err != nil {
		return false, err
	}
	why := sv.respond(s, t, text)
	if _, err := s.AfterTurn(keep); err != nil {
		sv.log("after the turn", s, err)
	}
	if open, err := isOpen(keep, s); err != nil || !open {
		return true, err
	}
	if why != endStopped {
		now, err := suspended(keep, s)
		if err != nil || now.waits() || now.continues() && now.decision != held.decision {
			return true, err
		}
		why = now.or(why)
	}
	// A draft that the responder has left is closed by the next turn.
	if err := t.End(); err != nil {
		return false, err
	}
	next, err := turn.TryBegin(keep, s)
	if errors.Is(err, session.ErrBusy) {
		return true, nil // another server has the turn, and ends this one first
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(sv.endOpen(keep, s, why), next.End())
}

// respond lets the application answer, and returns the reason if it stopped early.
func (sv *Server) respond(s *session.Session, t *turn.Turn, text transcript.Entry) (why string) {
	ctx, cancel := context.WithCancelCause(sv.life)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, sv.opts.Timeout, errTimeout)
	defer stop()
	watching, done := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if isStopped(watching, s, text) {
			cancel(errStopped)
		}
	}()
	err := sv.call(ctx, s, t)
	done()
	<-ended
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errStopped):
		return endStopped
	case errors.Is(cause, errTimeout):
		return endTimeout
	case cause != nil:
		return endClosed
	case err != nil:
		sv.log("the responder failed", s, err)
	}
	return endFailed
}

// isStopped waits for a request to stop the turn of a drained text, or until ctx is
// done. A waiting text can be stopped as well; a request during another turn is meant
// for that one.
func isStopped(ctx context.Context, s *session.Session, text transcript.Entry) bool {
	f, _ := text.Body.(transcript.MessageLine)
	t, asked, begun := newTail(""), false, false
	for e, err := range s.Follow(ctx, f.Queued) {
		if err != nil {
			return false
		}
		if i, ok := e.Body.(transcript.Interrupt); ok && i.Ended == "" {
			asked = true
		}
		for _, f := range t.add(e) {
			asked = asked && (begun || f.Kind != frameEnd)
		}
		begun = begun || e.ID == text.ID
		if asked && begun {
			return true
		}
	}
	return false
}

// call calls the responder; a panic is an error.
func (sv *Server) call(ctx context.Context, s *session.Session, t *turn.Turn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return sv.opts.Respond(ctx, s, t)
}

// endOpen records that the last drained text, if unanswered, gets no answer. The
// caller holds the turn lock.
func (sv *Server) endOpen(ctx context.Context, s *session.Session, why string) error {
	open, err := isOpen(ctx, s)
	if err != nil || !open {
		return err
	}
	_, err = s.Append(ctx, transcript.Interrupt{Ended: why})
	return err
}

// isOpen reports whether the last text that was drained waits for an answer.
func isOpen(ctx context.Context, s *session.Session) (bool, error) {
	text, err := lastDrained(ctx, s)
	if err != nil || text.ID == "" {
		return false, err
	}
	t := newTail("")
	for e, err := range s.Entries(ctx, text.ID) {
		if err != nil {
			return false, err
		}
		for _, f := range t.add(e) {
			if f.Kind == frameEnd {
				return false, nil
			}
		}
	}
	return true, nil
}

// lastDrained returns the last message of a user if it was queued before.
func lastDrained(ctx context.Context, s *session.Session) (none transcript.Entry, err error) {
	before := ""
	for range lookBack / 64 {
		page, err := search.Page(ctx, s, before, -64)
		if err != nil || len(page) == 0 {
			return none, err
		}
		for _, e := range slices.Backward(page) {
			if f, ok := e.Body.(transcript.MessageLine); ok && f.Kind == transcript.TypeUser {
				if f.Queued == "" {
					return none, nil
				}
				return e, nil
			}
		}
		before = page[0].ID
	}
	return none, nil
}

// Resume ends turns that a killed server left open, and answers queued texts, in all
// sessions that were changed since a time. A program calls it when it starts.
// Sessions that another server answers are left to it, and taken over when it ends.
func (sv *Server) Resume(ctx context.Context, opts *session.ListOptions) error {
	infos, err := sv.store.List(ctx, opts)
	for _, info := range infos {
		s, getErr := sv.store.Get(ctx, info.Ref)
		if getErr == nil {
			getErr = sv.wake(ctx, s)
		}
		if getErr != nil && !isGone(getErr) {
			err = errors.Join(err, getErr)
		}
	}
	return err
}

// wake checks whether a dead server left a session open, and has it ended and
// answered. If another server runs the turn, it waits for its end in the background.
func (sv *Server) wake(ctx context.Context, s *session.Session) error {
	if sv.opts.Respond == nil || sv.isAnswering(s) {
		return nil
	}
	t, err := turn.TryBegin(ctx, s)
	switch {
	case errors.Is(err, session.ErrArchived):
		return nil
	case errors.Is(err, session.ErrBusy): // with another server, which may be killed, or have been
		sv.answer(s)
		return nil
	case err != nil:
		return err
	}
	held, err := suspended(ctx, s)
	if err == nil && !held.waits() && !held.continues() {
		err = sv.endOpen(ctx, s, held.or(endLost))
	}
	if err = errors.Join(err, t.End()); err != nil || held.waits() {
		return err
	}
	pending, err := s.Pending(ctx)
	if err != nil || len(pending.Queued) == 0 && !held.continues() {
		return err
	}
	sv.answer(s)
	return nil
}
