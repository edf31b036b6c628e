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
// the end of the history: it calls the model, appends the answer and runs tools,
// until an answer contains no calls. Each Flush sends the text of a draft of the turn
// to clients. The Responder must return when ctx is done: after a request to stop,
// after Options.Timeout, and when the server is closed. [TurnPrompt] returns a client's
// addition to the system prompt of the turn.
//
// The server ends the turn. If a Responder appends no answer, clients get an event
// that reports this. The error of the Responder is logged and never sent.
type Responder func(ctx context.Context, s *session.Session, t *turn.Turn) error

// Reasons why a turn ended without an answer, for the field Ended of an interrupt.
const (
	endStopped = "stopped" // on request
	endTimeout = "timeout"
	endClosed  = "closed" // the server was closed
	endFailed  = "failed" // the responder failed
	endLost    = "lost"   // the server of the turn was killed
)

var (
	errStopped = errors.New("asked to stop")
	errTimeout = errors.New("the answer took longer than Options.Timeout")
)

// answers is the goroutine that answers texts in a session.
type answers struct {
	more atomic.Bool // a text was queued since the goroutine last looked
}

// takes returns an error if the server takes no texts to answer. Call it before texts
// are queued: refused later, a client would retry and queue its text twice.
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

// answer starts answering the queued texts of a session in the background. If this
// server is stopping, the texts wait for the next server.
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

// answerAll answers queued texts until the queue is empty.
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

// maxPause is the longest pause between two attempts to begin a turn.
const maxPause = time.Second

// begin takes one of this server's slots for the owner and begins a turn, which closes
// the drafts of earlier turns. It waits for both, but holds no slot while another
// server has the turn.
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

// oneTurn ends the previous turn if it is still open, and answers the next queued text. If
// all held calls of the previous turn are decided, it continues that turn instead. It
// reports whether there was a turn to answer.
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
	// The next turn closes a draft that the responder left open.
	if err := t.End(); err != nil {
		return false, err
	}
	next, err := turn.TryBegin(keep, s)
	if errors.Is(err, session.ErrBusy) {
		return true, nil // another server has the turn, and ends this turn first
	}
	if err != nil {
		return false, err
	}
	return true, errors.Join(sv.endOpen(keep, s, why), next.End())
}

// respond calls the responder, and returns the reason if the answer is missing.
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
// done. A request may come while the text is still queued. A request during another
// turn stops that turn only.
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

// call calls the responder and turns a panic into an error.
func (sv *Server) call(ctx context.Context, s *session.Session, t *turn.Turn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return sv.opts.Respond(ctx, s, t)
}

// endOpen records that the last drained text gets no answer, if it is unanswered. The
// caller holds the turn lock.
func (sv *Server) endOpen(ctx context.Context, s *session.Session, why string) error {
	open, err := isOpen(ctx, s)
	if err != nil || !open {
		return err
	}
	_, err = s.Append(ctx, transcript.Interrupt{Ended: why})
	return err
}

// isOpen reports whether the last drained text waits for an answer.
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

// lastDrained returns the last message of a user, or the zero entry if it was not queued.
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

// Resume ends turns that a killed server left open, and answers queued texts, in the
// sessions that opts selects; nil selects the live ones. A program calls it when it starts,
// and again after another server of the store was killed. A session that another server
// answers is left to that server, and taken over when that server ends.
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

// wake ends a turn that a dead server left open, and starts answering queued texts. If
// another server runs the turn, answering waits in the background for its end.
func (sv *Server) wake(ctx context.Context, s *session.Session) error {
	if sv.opts.Respond == nil || sv.isAnswering(s) {
		return nil
	}
	t, err := turn.TryBegin(ctx, s)
	switch {
	case errors.Is(err, session.ErrArchived):
		return nil
	case errors.Is(err, session.ErrBusy): // another server has the turn, and may be killed
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
