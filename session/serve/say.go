package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// Say queues a text for the responder and returns its entry, for [Request.Turn]. When Say
// returns, the text is durable. A repeated request with the same idempotency key queues
// no second text. The prompt goes to the responder by [TurnPrompt]; it may be empty.
func (q *Request) Say(s *session.Session, content []transcript.Block, prompt string) (entry string, err error) {
	var item transcript.Item = transcript.Queued{Content: content}
	if prompt != "" {
		data, err := json.Marshal(turnApp{prompt})
		if err != nil {
			return "", err
		}
		item = transcript.WithApp(item, data)
	}
	return q.queue(s, q.once(), item)
}

// Replace is [Request.Say] after a rewind to an entry, in one step. If head is not
// the head of the session, the error matches [session.ErrConflict], and nothing is
// written.
func (q *Request) Replace(s *session.Session, head, to string, content []transcript.Block) (entry string, err error) {
	cond := q.once()
	cond.Head = head
	return q.queue(s, cond, transcript.Rewind{To: to}, transcript.Queued{Content: content})
}

// queue appends items, the last of which is a text, and returns its entry.
func (q *Request) queue(s *session.Session, cond session.Cond, items ...transcript.Item) (entry string, err error) {
	pending, err := s.Pending(q.Context())
	if err != nil {
		return "", err
	}
	if len(pending.Queued) >= q.sv.opts.Queue {
		return "", errFull
	}
	done, err := s.AppendIf(context.WithoutCancel(q.Context()), cond, items...)
	if err != nil {
		return "", err
	}
	q.sv.answers.answer(s)
	return done.IDs[len(done.IDs)-1], nil
}

// turnApp is the application's data of a queued text.
type turnApp struct {
	Prompt string `json:"prompt"`
}

// TurnPrompt returns the prompt that the client of the last drained text gave to
// [Request.Say], for example the name of the page that the user looks at. A Responder
// adds it to the system prompt of the turn. It is in no history and in no title, but a
// search of the transcript finds it. The result is empty if the text has no prompt.
func TurnPrompt(ctx context.Context, s *session.Session) (string, error) {
	text, err := lastDrained(ctx, s)
	line, _ := text.Body.(transcript.MessageLine)
	if err != nil || line.Queued == "" {
		return "", err
	}
	var app turnApp
	for rec, err := range s.Scan(ctx, session.ScanOptions{Backward: true, ID: line.Queued}) {
		if err != nil {
			return "", err
		}
		_ = json.Unmarshal(rec.Entry.App, &app) // other data has no prompt
		break
	}
	return app.Prompt, nil
}

// Running returns the queued text whose answer is unfinished or comes next, for
// [Request.Turn], or "" if no text waits. It first ends a turn that a dead server left
// open, so a turn that it returns is alive, or waits for a decision.
func (q *Request) Running(s *session.Session) (text string, err error) {
	if err := q.sv.answers.wake(q.Context(), s); err != nil {
		return "", err
	}
	drained, queued, err := running(q.Context(), s)
	f, _ := drained.Body.(transcript.MessageLine)
	return cmp.Or(f.Queued, queued), err
}

// Waits returns the held calls that the running turn waits for, by their entries. It is
// empty if the turn does not wait for a decision.
func (q *Request) Waits(s *session.Session) (calls []string, err error) {
	h, err := suspended(q.Context(), s)
	if h.waits() {
		for _, call := range h.held {
			entry, _, _ := strings.Cut(call, "\n")
			calls = append(calls, entry)
		}
	}
	return calls, err
}

// Lost returns the IDs of calls that get no result before the decision for which the turn
// waits, since their server died.
func (q *Request) Lost(s *session.Session) (calls []string, err error) {
	if waits, err := q.Waits(s); err != nil || len(waits) == 0 {
		return nil, err
	}
	t, err := turn.TryBegin(q.Context(), s)
	if errors.Is(err, session.ErrBusy) || errors.Is(err, session.ErrArchived) { // a server may run them
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pending, err := s.Pending(q.Context())
	for _, c := range pending.Calls {
		if c.State != rebuild.Held {
			calls = append(calls, c.Call.ID)
		}
	}
	return calls, errors.Join(err, t.End())
}

// Stop asks the server that answers in a session to stop, even if a rewind took back the
// answered text. While a call waits for a decision, no responder runs, and this server
// ends the turn.
func (q *Request) Stop(s *session.Session) error {
	begin, err := runningTurn(q.Context(), s)
	if err != nil {
		return err
	}
	if begin == "" {
		t, err := turn.TryBegin(q.Context(), s)
		if err == nil {
			return t.End()
		}
		if !errors.Is(err, session.ErrBusy) {
			return err
		}
	}
	if _, err = s.Append(q.Context(), transcript.Interrupt{By: q.Principal.Owner}); err == nil {
		q.sv.answers.answer(s)
	}
	return err
}

// Status reports whether an answer of a session is unfinished or a text waits for one, and
// whether this server works on it.
func (q *Request) Status(s *session.Session) (running, here bool, err error) {
	begin, err := runningTurn(q.Context(), s)
	return begin != "", q.sv.answers.isAnswering(s), err
}
