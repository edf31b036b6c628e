package serve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/search"
	"github.com/convolog/convolog/session/turn"
	"github.com/convolog/convolog/transcript"
)

// agentsInput is an event that a client sends.
type agentsInput struct {
	Type        string          `json:"type"`
	Content     json.RawMessage `json:"content"`
	ToolUseID   string          `json:"tool_use_id"`
	Result      string          `json:"result"`
	DenyMessage string          `json:"deny_message"`
}

// content returns the blocks of a message.
func (in agentsInput) content() ([]transcript.Block, error) {
	var m transcript.Message
	data, err := json.Marshal(object{"role": transcript.RoleUser, "content": in.Content})
	if err == nil {
		err = json.Unmarshal(data, &m)
	}
	if err != nil || len(m.Content) == 0 {
		return nil, invalid("a message has no content, or not that of a message")
	}
	for i, b := range m.Content {
		switch b := b.(type) {
		case transcript.TextBlock:
			m.Content[i] = transcript.TextBlock{Text: b.Text} // without members of its own
			continue
		case transcript.ImageBlock:
			if slices.Contains([]string{"base64", "url", "file"}, b.Source.Type) {
				continue
			}
		case transcript.DocumentBlock:
			if slices.Contains([]string{"base64", "url", "file", "text"}, b.Source.Type) {
				continue
			}
		}
		return nil, invalid("the content of a message is text, images and documents")
	}
	return m.Content, nil
}

// A step is what sent events ask for: messages, which are queued together, or one of
// the others.
type step struct {
	says []transcript.Item
	in   agentsInput
}

// plan checks events that are sent before anything is done.
func (q *request) plan(events []agentsInput) (steps []step, err error) {
	if len(events) > 50 {
		return nil, invalid("up to 50 events can be sent at once")
	}
	for _, in := range events {
		switch in.Type {
		case userMessage:
			if err := q.sv.takes(); err != nil {
				return nil, err
			}
			content, err := in.content()
			if err != nil {
				return nil, err
			}
			if n := len(steps); n == 0 || steps[n-1].says == nil {
				steps = append(steps, step{})
			}
			last := &steps[len(steps)-1]
			last.says = append(last.says, transcript.Queued{Content: content})
		case userInterrupt:
			steps = append(steps, step{in: in})
		case userConfirmation:
			if _, _, ok := place(in.ToolUseID); !ok || in.Result != "allow" && in.Result != "deny" || in.Result == "allow" && in.DenyMessage != "" {
				return nil, invalid("a confirmation has the ID of an event of the type agent.tool_use, and allow, or deny with a message")
			}
			steps = append(steps, step{in: in})
		default:
			return nil, invalid("an event is not of a type that can be sent: user.message, user.interrupt, user.tool_confirmation")
		}
	}
	return steps, nil
}

// carryOut does what sent events ask for, and returns them as they are in lists but
// for the time: it is not known yet when they are processed.
func (q *request) carryOut(s *session.Session, steps []step) (sent []object, err error) {
	ctx := context.WithoutCancel(q.Context())
	for i, st := range steps {
		var more []object
		switch {
		case st.says != nil:
			more, err = q.sayAll(ctx, s, st.says, i)
		case st.in.Type == userInterrupt:
			more, err = q.interrupt(ctx, s)
		default:
			more, err = q.confirm(ctx, s, st.in)
		}
		if err != nil {
			return nil, err
		}
		sent = append(sent, more...)
	}
	return sent, nil
}

// sayAll queues messages, all or none, and lets them be answered.
func (q *request) sayAll(ctx context.Context, s *session.Session, says []transcript.Item, step int) (sent []object, err error) {
	pending, err := s.Pending(ctx)
	if err != nil {
		return nil, err
	}
	if len(pending.Queued)+len(says) > q.sv.opts.Queue {
		return nil, errFull
	}
	cond := session.Cond{}
	if key := q.Header.Get("Idempotency-Key"); key != "" {
		cond.Idem = "http:" + key
		if step > 0 {
			cond.Idem += ":" + strconv.Itoa(step)
		}
	}
	done, err := s.AppendIf(ctx, cond, says...)
	if err != nil {
		return nil, err
	}
	for i, id := range done.IDs {
		said, _ := says[i].(transcript.Queued)
		sent = append(sent, object{"type": userMessage, "id": id + "/0", "content": agentContent(said.Content), "processed_at": nil})
	}
	q.sv.answer(s)
	return sent, nil
}

// interrupt asks to stop the turn, on any server. One that waits for a person is
// stopped here, since nobody is at it.
func (q *request) interrupt(ctx context.Context, s *session.Session) ([]object, error) {
	ids, err := s.Append(ctx, transcript.Interrupt{By: q.who.Owner})
	if err != nil {
		return nil, err
	}
	q.sv.answer(s)
	return []object{{"type": userInterrupt, "id": ids[0] + "/0", "processed_at": nil}}, nil
}

// confirm decides on a call. Saying again what was decided is no error.
func (q *request) confirm(ctx context.Context, s *session.Session, in agentsInput) ([]object, error) {
	call, _, _ := place(in.ToolUseID)
	verdict := transcript.Approve
	if in.Result == "deny" {
		verdict = transcript.Reject
	}
	decideErr := turn.Decide(ctx, s, call, verdict, q.who.Owner, in.DenyMessage)
	if decideErr != nil && !errors.Is(decideErr, session.ErrConflict) {
		return nil, decideErr
	}
	var sent []object
	m := newAgentEvents()
	from, err := beginning(ctx, s, call)
	if err != nil {
		return nil, err
	}
	for e, err := range s.Entries(ctx, from) {
		if err != nil {
			return nil, err
		}
		for _, ev := range m.add(e) {
			if ev.typ == userConfirmation && ev.data["tool_use_id"] == in.ToolUseID && ev.data["result"] == in.Result {
				sent = []object{ev.data}
			}
		}
	}
	if sent == nil {
		return nil, cmp.Or(decideErr, error(errChanged))
	}
	q.sv.answer(s)
	return sent, nil
}

func (q *request) agentsSend() error {
	s, err := q.agentsSession()
	if err != nil {
		return err
	}
	var body struct {
		Events []agentsInput `json:"events"`
	}
	if err := q.body(&body); err != nil {
		return err
	}
	if len(body.Events) == 0 {
		return invalid("there are no events")
	}
	steps, err := q.plan(body.Events)
	if err != nil {
		return err
	}
	sent, err := q.carryOut(s, steps)
	if err != nil {
		return err
	}
	q.json(http.StatusOK, object{"data": sent})
	return nil
}

// agentsEvents answers with a page of events. Its cursor is the ID of the last one.
func (q *request) agentsEvents() error {
	s, err := q.agentsSession()
	if err != nil {
		return err
	}
	limit, desc, err := q.window(1000, "asc")
	if err != nil {
		return err
	}
	within, err := q.within()
	if err != nil {
		return err
	}
	types := q.values("types")
	fits := func(ev agentEvent) bool {
		return !ev.isPreview() && within(ev.time) && (len(types) == 0 || slices.Contains(types, ev.typ))
	}
	page := q.URL.Query().Get("page")
	if _, _, ok := place(page); page != "" && !ok {
		return session.ErrCursor
	}
	read := oldest
	if desc {
		read = newest
	}
	events, err := read(q.Context(), s, page, limit+1, fits)
	if errors.Is(err, session.ErrNoEntry) {
		err = session.ErrCursor
	}
	if err != nil {
		return err
	}
	out := object{"next_page": nil}
	if len(events) > limit {
		events = events[:limit]
		out["next_page"] = events[limit-1].id
	}
	data := []object{}
	for _, ev := range events {
		data = append(data, ev.data)
	}
	out["data"] = data
	q.json(http.StatusOK, out)
	return nil
}

// oldest returns up to n events behind one.
func oldest(ctx context.Context, s *session.Session, after string, n int, fits func(agentEvent) bool) (events []agentEvent, err error) {
	from, rest, err := goOn(ctx, s, after)
	if err != nil {
		return nil, err
	}
	m := newAgentEvents()
	for e, err := range inlined(ctx, s, s.Entries(ctx, from)) {
		if err != nil {
			return nil, err
		}
		for _, ev := range rest.drop(m, e, m.add(e)) {
			if fits(ev) {
				events = append(events, ev)
			}
			if len(events) == n {
				return events, nil
			}
		}
	}
	return events, nil
}

// goOn says where to begin to make the events that follow one, which the ID of the
// session stands in front of.
func goOn(ctx context.Context, s *session.Session, after string) (from string, rest *since, err error) {
	entry, _, ok := place(after)
	switch {
	case after == "" || after == s.Ref().ID || entry == s.Ref().ID:
		return s.Ref().ID, newSince(""), nil
	case !ok:
		return "", nil, session.ErrNoEntry
	}
	if err := isShown(ctx, s, entry); err != nil {
		return "", nil, err
	}
	from, err = beginning(ctx, s, entry)
	return from, newSince(after), err
}

// isShown gives [session.ErrNoEntry] for an entry that events are never made of: there
// is none, or it only repeats another one.
func isShown(ctx context.Context, s *session.Session, entry string) error {
	from := s.Ref().ID
	page, err := search.Page(ctx, s, entry, -1)
	if err != nil {
		return err
	}
	if len(page) > 0 {
		from = page[0].ID
	}
	for e, err := range s.Entries(ctx, from) {
		if err != nil || e.ID == entry {
			return err
		}
	}
	return session.ErrNoEntry
}

// newest returns up to n events in front of one, the last one first. It reads parts of
// the session, from behind, that most often have enough.
func newest(ctx context.Context, s *session.Session, before string, n int, fits func(agentEvent) bool) (events []agentEvent, err error) {
	until, _, _ := place(before) // the entry that ends the part to read; empty is the end
	if until != "" && until != s.Ref().ID {
		if err := isShown(ctx, s, until); err != nil {
			return nil, err
		}
	}
	for seen := before; ; seen = "" {
		page, err := search.Page(ctx, s, until, -max(64, n))
		if err != nil {
			return nil, err
		}
		from := s.Ref().ID
		if len(page) >= max(64, n) {
			if from, err = beginning(ctx, s, page[0].ID); err != nil {
				return nil, err
			}
		}
		part, err := between(ctx, s, from, until, seen)
		if err != nil {
			return nil, err
		}
		for _, ev := range slices.Backward(part) {
			if fits(ev) {
				events = append(events, ev)
			}
			if len(events) == n {
				return events, nil
			}
		}
		if from == s.Ref().ID {
			return events, nil
		}
		until = from
	}
}

// between returns the events behind an entry that are in front of an event, or if that
// is empty up to those of another entry, which ends an answer.
func between(ctx context.Context, s *session.Session, from, until, before string) (events []agentEvent, err error) {
	m := newAgentEvents()
	stop := newSince(before)
	for e, err := range inlined(ctx, s, s.Entries(ctx, from)) {
		if err != nil {
			return nil, err
		}
		more := m.add(e)
		if before == "" && e.ID == until {
			return append(events, more...), nil
		}
		if rest := stop.drop(m, e, more); before != "" && stop.id == "" {
			return append(events, more[:max(0, len(more)-len(rest)-1)]...), nil
		}
		events = append(events, more...)
	}
	return events, nil
}

// agentsStream streams the events of a session, until it is deleted or the client is
// gone. It begins behind the event that the client has seen, or with what comes next.
func (q *request) agentsStream() error {
	s, err := q.agentsSession()
	if err != nil {
		return err
	}
	if err := q.sv.wake(q.Context(), s); err != nil {
		return err
	}
	seen := or(lastEventID(q.Request), q.URL.Query().Get("after"))
	from, rest, err := goOn(q.Context(), s, seen)
	if seen == "" {
		from, err = beginning(q.Context(), s, "")
	}
	if err != nil {
		return err
	}
	m := newAgentEvents()
	if seen == "" { // nothing of what is there
		for e, err := range s.Entries(q.Context(), from) {
			if err != nil {
				return err
			}
			m.add(e)
			from = e.ID
		}
	}
	st := newStream(q.w)
	previews := slices.Contains(q.values("event_deltas"), agentMessage)
	if seen == "" && previews {
		for _, d := range m.drafts { // one that is being written
			start, delta := startOf(d.id), deltaOf(d.id, d.text)
			start["type"], delta["type"] = previewStart, previewDelta
			if st.send(event{name: previewStart, data: start}) != nil || st.send(event{name: previewDelta, data: delta}) != nil {
				return nil
			}
		}
	}
	q.finish(s, st, q.agentsFollow(st, s, from, m, rest, previews))
	return nil
}

// agentsFollow sends events as they come. The error is nil if the client is gone, or the
// server is stopped.
func (q *request) agentsFollow(st *stream, s *session.Session, from string, m *agentEvents, rest *since, previews bool) error {
	return q.sv.during(q.Context(), st, func(ctx context.Context) error {
		for e, err := range inlined(ctx, s, s.Follow(ctx, from)) {
			if ctx.Err() != nil {
				return nil
			}
			if err != nil {
				return err
			}
			for _, ev := range rest.drop(m, e, m.add(e)) {
				if ev.isPreview() && !previews {
					continue
				}
				if st.send(event{id: ev.id, name: ev.typ, data: ev.data}) != nil {
					return nil
				}
			}
		}
		return nil
	})
}

// finish ends a stream that an error has ended.
func (q *request) finish(s *session.Session, st *stream, err error) {
	switch {
	case err == nil:
	case isGone(err):
		_ = st.send(event{name: sessionDeleted, data: object{
			"type": sessionDeleted, "id": s.Ref().ID + "/deleted", "processed_at": time.Now().UTC(),
		}})
	default:
		p := problemOf(err)
		if p == errInternal {
			q.sv.log("a stream failed", s, err)
		}
		_ = st.send(event{name: "error", data: agentsProblem(p)})
	}
}
