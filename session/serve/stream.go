package serve

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A stream writes server-sent events. It is safe for several goroutines.
type stream struct {
	w  *writer
	rc *http.ResponseController

	mu   sync.Mutex
	last time.Time
	err  error // the error of the first failed write
}

func newStream(w *writer) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // for nginx
	w.WriteHeader(http.StatusOK)
	st := &stream{w: w, rc: http.NewResponseController(w), last: time.Now()}
	_ = st.write(": \n\n") // so that the client notices the connection
	return st
}

// send writes an event. JSON has no line breaks, so no text can forge an event.
func (st *stream) send(id, name string, data any) error {
	encoded, err := json.Marshal(data)
	if err != nil {
		return err
	}
	text := ""
	if id != "" && !strings.ContainsAny(id, "\x00\r\n") { // an imported entry may have any ID
		text += "id: " + id + "\n"
	}
	if name != "" {
		text += "event: " + name + "\n"
	}
	return st.write(text + "data: " + string(encoded) + "\n\n")
}

// write writes a text and flushes it. After a failed write it returns the same error.
func (st *stream) write(text string) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.err != nil {
		return st.err
	}
	if _, st.err = st.w.Write([]byte(text)); st.err == nil {
		st.err = st.rc.Flush()
	}
	st.last = time.Now()
	return st.err
}

// beat writes a comment after each silence of the duration every, until ctx is done. If a
// write fails, beat calls end.
func (st *stream) beat(ctx context.Context, every time.Duration, end context.CancelFunc) {
	tick := time.NewTicker(every / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		st.mu.Lock()
		due := time.Since(st.last) >= every
		st.mu.Unlock()
		if due && st.write(": \n\n") != nil {
			end()
			return
		}
	}
}

// Stream answers with server-sent events, which f sends; an ID or a name may be empty.
// Comments keep a silent connection alive. The context of f ends when the client leaves
// or the server closes. Otherwise an error of f is sent as a [Problem], in a last event
// named end.
func (q *Request) Stream(f func(ctx context.Context, send func(id, name string, data any) error) error) {
	q.drop() // a stream may be long
	st := newStream(q.w)
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	defer context.AfterFunc(q.sv.answers.life, cancel)()
	var beating sync.WaitGroup
	beating.Go(func() { st.beat(ctx, q.sv.opts.Heartbeat, cancel) })
	defer beating.Wait()
	defer cancel()
	err := f(ctx, st.send)
	if err == nil || ctx.Err() != nil {
		return
	}
	if p := problemOf(err); st.send("", "end", p) == nil && p == errInternal {
		q.sv.opts.Logger.Warn("serve: a stream failed", "err", discreet(err))
	}
}

// A Turn is one turn of a session as a stream, up to its end.
type Turn struct {
	answers *answers
	s       *session.Session
	text    string // if not empty, only the turn of this queued text is shown
	from    string // the entry to begin after
	seen    string // the last event that the client saw, or empty
	reset   bool   // the first frame is a reset
}

// Turn returns the turn that answers a queued text, after the last event that the client
// saw. With an empty text, Turn returns the turn of that event, or without an event the
// running or next turn, or nil. A client whose event does not exist gets a reset, and then
// the turn from its beginning.
func (q *Request) Turn(s *session.Session, text string) (t *Turn, err error) {
	t = &Turn{answers: q.sv.answers, s: s, text: text, from: text, seen: q.lastEventID()}
	if text == "" {
		if err := q.sv.answers.wake(q.Context(), s); err != nil {
			return nil, err
		}
	}
	switch {
	case t.seen == "":
	case text == "":
		t.from, err = resume(q.Context(), s, t.seen)
	default:
		err = find(q.Context(), s, newTail(text), text, t.seen)
	}
	if errors.Is(err, session.ErrNoEntry) {
		t.seen, t.reset, err = "", true, nil
	}
	if err == nil && text == "" && t.seen == "" {
		t.reset = true
		if t.from, err = runningTurn(q.Context(), s); t.from == "" {
			return nil, err
		}
	}
	return t, err
}

// Frames yields the frames of the turn as they come, until the turn is over or ctx is
// done. A failure gives a frame "failed" with the code of a [Problem], and a frame "end".
// These frames and a first frame "reset" have no ID, since they are not in the transcript.
func (t *Turn) Frames(ctx context.Context) iter.Seq[Frame] {
	return func(yield func(Frame) bool) {
		if t.reset && !yield(Frame{Kind: frameReset}) {
			return
		}
		tail, skip, last := newTail(t.text), t.seen != "", t.from
		show := func(e transcript.Entry) (more bool) {
			last = e.ID
			for _, f := range tail.add(e) {
				if !skip && !yield(f) {
					return false
				}
				seen := f.ID == t.seen
				if f.Kind == frameEnd && (seen || !skip) {
					return false
				}
				skip = skip && !seen
			}
			return true
		}
		for e, err := range t.s.Follow(ctx, t.from) {
			if err != nil && ctx.Err() == nil {
				p := problemOf(err)
				if p == errInternal {
					t.answers.log("a stream failed", t.s, err)
				}
				_ = yield(Frame{Kind: frameFailed, Text: p.Code}) && yield(Frame{Kind: frameEnd})
				return
			}
			if err == nil && !show(e) {
				return
			}
		}
		if t.answers.life.Err() == nil {
			return // the client left
		}
		t.answers.working.Wait() // afterwards the end of the answer is in the transcript
		for e, err := range t.s.Entries(context.WithoutCancel(ctx), last) {
			if err != nil || !show(e) {
				return
			}
		}
	}
}

// resume returns the place where a client continues a stream. An event unknown to
// the session gives [session.ErrNoEntry].
func resume(ctx context.Context, s *session.Session, seen string) (from string, err error) {
	entry, _, ok := place(seen)
	if !ok {
		return "", session.ErrNoEntry
	}
	if from, err = turnOf(ctx, s, entry); err != nil {
		return "", err
	}
	return from, find(ctx, s, newTail(""), from, seen)
}

// find looks for an event after an entry. If the event is missing, it was never sent, and
// a wait for it would never end.
func find(ctx context.Context, s *session.Session, t *tail, from, seen string) error {
	for e, err := range s.Entries(ctx, from) {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(t.add(e), func(f Frame) bool { return f.ID == seen }) {
			return nil
		}
	}
	return session.ErrNoEntry
}
