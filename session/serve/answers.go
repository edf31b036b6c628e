package serve

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/convolog/convolog/session"
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

var (
	errStopped = errors.New("asked to stop")
	errTimeout = errors.New("the answer took longer than Options.Timeout")
)

// answers are the goroutines that answer queued texts, one for each session. They are safe
// for several goroutines.
type answers struct {
	respond Responder // nil means that nothing is answered
	timeout time.Duration
	logger  *slog.Logger
	slots   *shares // of concurrent answers

	closing context.Context //nolint:containedctx // done after stop is called
	stop    context.CancelFunc
	life    context.Context //nolint:containedctx // ends streams and answers when the server is closed
	end     context.CancelCauseFunc
	mu      sync.Mutex              // guards running; also held while closing is cancelled
	running map[session.Ref]*worker // by session
	working sync.WaitGroup
}

// A worker is the goroutine that answers texts in a session.
type worker struct {
	more atomic.Bool // a text was queued since the goroutine last looked
}

func newAnswers(respond Responder, timeout time.Duration, slots int, logger *slog.Logger) *answers {
	a := &answers{respond: respond, timeout: timeout, logger: logger, slots: newShares(int64(slots)), running: map[session.Ref]*worker{}}
	a.closing, a.stop = context.WithCancel(context.Background())
	a.life, a.end = context.WithCancelCause(context.Background())
	return a
}

// close stops taking texts and waits for unfinished answers. When ctx is done, close
// cancels them. Then it ends streams.
func (a *answers) close(ctx context.Context) error {
	a.mu.Lock()
	a.stop()
	a.mu.Unlock()
	done := make(chan struct{})
	go func() {
		a.working.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	a.end(errClosed)
	<-done
	return err
}

// takes returns an error if the server takes no texts to answer. Call it before texts
// are queued: refused later, a client would retry and queue its text twice.
func (a *answers) takes() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.respond == nil:
		return errNoResponder
	case a.closing.Err() != nil:
		return errClosed
	}
	return nil
}

// answer starts answering the queued texts of a session in the background. If this
// server is stopping, the texts wait for the next server.
func (a *answers) answer(s *session.Session) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closing.Err() != nil || a.respond == nil {
		return
	}
	if w := a.running[s.Ref()]; w != nil {
		w.more.Store(true)
		return
	}
	w := &worker{}
	a.running[s.Ref()] = w
	a.working.Go(func() {
		for {
			w.more.Store(false)
			if err := a.answerAll(s); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errClosed) && a.life.Err() == nil {
				a.log("answering failed", s, err)
			}
			a.mu.Lock()
			if !w.more.Load() || a.life.Err() != nil {
				delete(a.running, s.Ref())
				a.mu.Unlock()
				return
			}
			a.mu.Unlock()
		}
	})
}

func (a *answers) isAnswering(s *session.Session) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.running[s.Ref()] != nil
}

// log writes the cause of a failure to the log of the application. Clients only get a
// code.
func (a *answers) log(what string, s *session.Session, err error) {
	a.logger.Warn("serve: "+what, "agent", s.Ref().Agent, "session", s.Ref().ID, "err", discreet(err))
}

// answerAll answers queued texts until the queue is empty.
func (a *answers) answerAll(s *session.Session) error {
	for {
		info, err := s.Info(a.life)
		if err != nil {
			return err
		}
		t, err := a.begin(s, info.Owner)
		if err != nil {
			return err
		}
		said, err := a.oneTurn(s, t)
		err = errors.Join(err, t.End())
		a.slots.give(info.Owner, 1)
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
func (a *answers) begin(s *session.Session, owner string) (*turn.Turn, error) {
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, maxPause) {
		if err := a.slots.take(a.life, owner, 1); err != nil {
			return nil, err
		}
		t, err := turn.TryBegin(a.life, s)
		if err == nil {
			return t, nil
		}
		a.slots.give(owner, 1)
		if !errors.Is(err, session.ErrBusy) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-a.closing.Done(): // the other server answers queued texts
			return nil, errClosed
		}
	}
}

// oneTurn ends the previous turn if it is still open, and answers the next queued text. If
// all held calls of the previous turn are decided, it continues that turn instead. It
// reports whether there was a turn to answer.
func (a *answers) oneTurn(s *session.Session, t *turn.Turn) (said bool, err error) {
	keep := context.WithoutCancel(a.life)
	held, err := suspended(keep, s)
	if err != nil || held.waits() {
		return false, err
	}
	if !held.continues() {
		if err := a.endOpen(keep, s, held.or(endLost)); err != nil {
			return false, err
		}
	}
	if a.life.Err() != nil {
		return false, nil // queued texts wait for the next server
	}
	if !held.continues() {
		if ids, err := turn.Drain(a.life, s, 1); err != nil || len(ids) == 0 {
			return false, err
		}
	}
	text, err := lastDrained(keep, s)
	if err != nil {
		return false, err
	}
	why := a.ask(s, t, text)
	if _, err := s.AfterTurn(keep); err != nil {
		a.log("after the turn", s, err)
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
	return true, errors.Join(a.endOpen(keep, s, why), next.End())
}

// ask calls the responder, and returns the reason if the answer is missing.
func (a *answers) ask(s *session.Session, t *turn.Turn, text transcript.Entry) (why string) {
	ctx, cancel := context.WithCancelCause(a.life)
	defer cancel(nil)
	ctx, stop := context.WithTimeoutCause(ctx, a.timeout, errTimeout)
	defer stop()
	watching, done := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if isStopped(watching, s, text) {
			cancel(errStopped)
		}
	}()
	err := a.call(ctx, s, t)
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
		a.log("the responder failed", s, err)
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
func (a *answers) call(ctx context.Context, s *session.Session, t *turn.Turn) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return a.respond(ctx, s, t)
}

// endOpen records that the last drained text gets no answer, if it is unanswered. The
// caller holds the turn lock.
func (a *answers) endOpen(ctx context.Context, s *session.Session, why string) error {
	open, err := isOpen(ctx, s)
	if err != nil || !open {
		return err
	}
	_, err = s.Append(ctx, transcript.Interrupt{Ended: why})
	return err
}

// wake ends a turn that a dead server left open, and starts answering queued texts. If
// another server runs the turn, answering waits in the background for its end.
func (a *answers) wake(ctx context.Context, s *session.Session) error {
	if a.respond == nil || a.isAnswering(s) {
		return nil
	}
	t, err := turn.TryBegin(ctx, s)
	switch {
	case errors.Is(err, session.ErrArchived):
		return nil
	case errors.Is(err, session.ErrBusy): // another server has the turn, and may be killed
		a.answer(s)
		return nil
	case err != nil:
		return err
	}
	held, err := suspended(ctx, s)
	if err == nil && !held.waits() && !held.continues() {
		err = a.endOpen(ctx, s, held.or(endLost))
	}
	if err = errors.Join(err, t.End()); err != nil || held.waits() {
		return err
	}
	pending, err := s.Pending(ctx)
	if err != nil || len(pending.Queued) == 0 && !held.continues() {
		return err
	}
	a.answer(s)
	return nil
}
