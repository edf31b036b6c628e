package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
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
	err  error // that of the first write that failed
}

// newStream answers a request with a stream.
func newStream(w *writer) *stream {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // of nginx
	w.WriteHeader(http.StatusOK)
	st := &stream{w: w, rc: http.NewResponseController(w), last: time.Now()}
	_ = st.write(": \n\n") // so that the client knows that it is connected
	return st
}

// An event is what a surface makes of a frame.
type event struct {
	id   string
	name string // empty is none
	data any
}

// send writes an event. JSON has no line breaks, so nobody can forge an event by what
// is said.
func (st *stream) send(e event) error {
	data, err := json.Marshal(e.data)
	if err != nil {
		return err
	}
	text := ""
	if e.id != "" && !strings.ContainsAny(e.id, "\x00\r\n") { // an imported entry has the ID that somebody gave it
		text += "id: " + e.id + "\n"
	}
	if e.name != "" {
		text += "event: " + e.name + "\n"
	}
	return st.write(text + "data: " + string(data) + "\n\n")
}

// write gives the client some time to take a text.
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

// beat writes a comment whenever nothing was written for so long, until ctx is done.
// A write that fails ends the stream.
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

// A show is what a stream shows of a session, until the end of a turn.
type show struct {
	s    *session.Session
	turn string // if not empty: the queued text whose turn alone is shown
	from string // the entry to begin behind
	seen string // the event that the client has seen last, which [find] has found; empty if it has seen none
	// event returns the event for a frame; false if this surface has none.
	event func(frame) (event, bool)
}

// follow sends a session to a client until the turn is over, the client is gone, or
// the server is stopped. The error is nil if the turn is over.
func (sv *Server) follow(ctx context.Context, st *stream, sh show) error {
	return sv.during(ctx, st, func(ctx context.Context) error { return sv.show(ctx, st, sh) })
}

// during calls f while a stream is kept alive, with a context that ends with the server.
func (sv *Server) during(ctx context.Context, st *stream, f func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(sv.life, cancel)()
	var beating sync.WaitGroup
	beating.Go(func() { st.beat(ctx, sv.opts.Heartbeat, cancel) })
	defer beating.Wait()
	defer cancel()
	return f(ctx)
}

// show sends what is shown of a session.
func (sv *Server) show(ctx context.Context, st *stream, sh show) error {
	t := newTail(sh.turn)
	skip := sh.seen != ""
	for e, err := range sh.s.Follow(ctx, sh.from) {
		if err != nil {
			return err
		}
		for _, f := range t.add(e) {
			if !skip {
				if err := sv.sendFrame(st, sh, f); err != nil {
					return err
				}
			}
			seen := f.id() == sh.seen
			if f.kind == frameEnd && (seen || !skip) {
				return nil
			}
			skip = skip && !seen
		}
	}
	return nil
}

func (sv *Server) sendFrame(st *stream, sh show, f frame) error {
	e, ok := sh.event(f)
	if !ok {
		return nil
	}
	if e.id == "" {
		e.id = f.id()
	}
	return st.send(e)
}

// resume says where a stream begins that a client goes on with. An event that the
// session does not have gives [session.ErrNoEntry].
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

// find looks for an event behind an entry. One that is not there yet was sent to
// nobody, and to wait for it would be to wait for ever.
func find(ctx context.Context, s *session.Session, t *tail, from, seen string) error {
	for e, err := range s.Entries(ctx, from) {
		if err != nil {
			return err
		}
		if slices.ContainsFunc(t.add(e), func(f frame) bool { return f.id() == seen }) {
			return nil
		}
	}
	return session.ErrNoEntry
}

// isGone reports whether a stream has ended because its session was deleted.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// lastEventID is what the client has seen last.
func lastEventID(r *http.Request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get("lastEventId")
}

// textOf is the text of a block of a user.
func textOf(b transcript.Block) string {
	if t, ok := b.(transcript.TextBlock); ok {
		return t.Text
	}
	return ""
}
