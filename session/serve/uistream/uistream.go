// Package uistream serves the UI message stream of the AI SDK, version 7: the routes
// that useChat and DefaultChatTransport of the npm package ai call.
//
// A post contains a message of the user and gets the answer as a stream. A client that
// was cut asks for the stream again and gets the answer from its beginning; 204 means
// that no answer is unfinished. The store holds the history, and the surface ignores
// a posted history. The text of an answer is in the store before a client receives it. Tools run
// on the server, and a held call asks the client for its approval.
package uistream

import (
	"errors"
	"io/fs"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/serve"
	"github.com/convolog/convolog/transcript"
)

// New returns the surface for the sessions of one agent below a path such as /api/chat,
// which is the default of the client. The ID of a chat is the ID of its session:
//
//	POST   /api/chat              send a message, edit one, answer anew, approve calls
//	GET    /api/chat/{id}         the messages, for the option messages of useChat
//	GET    /api/chat/{id}/stream  the unfinished answer from its beginning, or 204
//	DELETE /api/chat/{id}/stream  stop the answer
//
// Without Options.Respond a post gets 501.
func New(path, agent string) serve.Surface {
	sf := surface{agent}
	return serve.Surface{Routes: []serve.Route{
		{Method: "POST", Path: path, Summary: "Send a message and stream the answer.", Answers: true, In: chatBody{}, Media: mediaEvents, Do: sf.chat},
		{Method: "GET", Path: path + "/{id}", Summary: "Read the messages of a chat.", Out: []message{}, Do: sf.read},
		{Method: "GET", Path: path + "/{id}/stream", Summary: "Stream the unfinished answer.", Media: mediaEvents, Do: sf.resume},
		{Method: "DELETE", Path: path + "/{id}/stream", Summary: "Stop the unfinished answer.", Out: map[string]string{}, Do: sf.stop},
	}}
}

const mediaEvents = "text/event-stream"

type surface struct{ agent string }

// chatBody is the body of a post. Only one message counts: the one with the MessageID, or
// else the last one.
type chatBody struct {
	ID        string    `json:"id"`
	Messages  []message `json:"messages"`
	Trigger   string    `json:"trigger,omitempty"`   // submit-message or regenerate-message
	MessageID string    `json:"messageId,omitempty"` // of the user: the message takes the place of the one with its ID
}

func (sf surface) chat(q *serve.Request) error {
	var body chatBody
	if err := q.Decode(&body); err != nil {
		return err
	}
	if body.ID == "" || len(body.Messages) == 0 {
		return serve.Invalid("the chat has no id, or no messages")
	}
	last := body.Messages[len(body.Messages)-1]
	anew := body.Trigger == "regenerate-message"
	for _, m := range body.Messages {
		if m.ID == body.MessageID && m.ID != "" && !anew {
			last = m
		}
	}
	if err := last.decode(); err != nil {
		return err
	}
	if last.Role != transcript.RoleUser {
		s, err := q.Session(sf.agent, body.ID)
		if err != nil {
			return err
		}
		return approve(q, s, last)
	}
	content, err := last.blocks()
	if err != nil {
		return err
	}
	q.Header.Del("Idempotency-Key") // the ID of the chat is the key
	s, err := q.FindOrCreate(sf.agent, body.ID)
	switch {
	case err != nil:
		return err
	case anew || body.MessageID != "":
		return again(q, s, last.ID, content, anew)
	}
	return say(q, s, last.ID, "", content)
}

// say queues a message of the user and streams its answer. A repeated post of a message
// queues it once at the same place.
func say(q *serve.Request, s *session.Session, id, place string, content []transcript.Block) error {
	if err := decided(q, s, id); err != nil {
		return err
	}
	setKey(q, id, place)
	text, err := q.Say(s, content, "")
	if err != nil {
		return err
	}
	return stream(q, s, text)
}

// decided refuses a new message while a call waits for a decision. Its stream would not
// end before the decision, and the client cannot decide while a stream is open.
func decided(q *serve.Request, s *session.Session, id string) error {
	waits, err := q.Waits(s)
	if err != nil || len(waits) == 0 {
		return err
	}
	all, _, err := messages(q.Context(), s)
	if err == nil && !slices.ContainsFunc(all, func(m message) bool { return m.ID == id && m.Role == transcript.RoleUser }) {
		err = errHeld
	}
	return err
}

var errHeld = &serve.Problem{Status: http.StatusConflict, Code: "HELD", Title: "a call waits for a decision", Detail: "approve or reject it, or stop the answer"}

// setKey makes a repeated post of a message queue it once at the same place.
func setKey(q *serve.Request, id, place string) {
	if id != "" {
		q.Header.Set("Idempotency-Key", strings.TrimSuffix(keyPrefix+id+"\n"+place, "\n"))
	}
}

// again rewinds to the state before a message of the user and answers it anew: with its
// own content, or with the given content. A message that is missing is sent, and a repeated
// edit streams its answer. If another request changes the chat at the same time, one of
// the two is refused.
func again(q *serve.Request, s *session.Session, id string, content []transcript.Block, own bool) error {
	all, at, err := messages(q.Context(), s)
	if err != nil {
		return err
	}
	running, err := q.Running(s) // a later turn changes the head
	if err != nil {
		return err
	}
	isUser := func(m message) bool { return m.Role == transcript.RoleUser }
	i := slices.IndexFunc(all, func(m message) bool { return m.ID == id && isUser(m) })
	if i >= 0 && !own && all[i].text != id && !slices.ContainsFunc(all[i+1:], isUser) && reflect.DeepEqual(all[i].Parts, partsOf(content)) {
		return stream(q, s, all[i].text) // a repeated post
	}
	if running != "" {
		return session.ErrBusy
	}
	if i < 0 {
		return say(q, s, id, at.rewind, content)
	}
	if own {
		content = all[i].content
	}
	setKey(q, id, all[i].text)
	text, err := q.Replace(s, at.head, all[i].before, content)
	if err != nil {
		return err
	}
	return stream(q, s, text)
}

// approve records the decisions of a posted answer, and streams the rest of the turn.
func approve(q *serve.Request, s *session.Session, m message) error {
	text, err := q.Running(s)
	if err == nil && text == "" {
		err = session.ErrConflict
	}
	if err != nil {
		return err
	}
	lost, err := q.Lost(s) // before a decision starts a server
	if err != nil {
		return err
	}
	decided := map[string]bool{}
	for _, p := range m.Parts {
		if p.State != "approval-responded" || p.Approval == nil || p.Approval.Approved == nil {
			continue
		}
		verdict := transcript.Reject
		if *p.Approval.Approved {
			verdict = transcript.Approve
		}
		if err := q.Decide(s, p.Approval.ID, verdict, p.Approval.Reason); err != nil {
			return err
		}
		decided[p.Approval.ID] = true
	}
	seen := ""
	for e, err := range s.Entries(q.Context(), text) {
		if err != nil {
			return err
		}
		if d, ok := e.Body.(transcript.Decision); ok && d.Verdict == transcript.Hold && decided[d.Call] {
			seen = e.ID + "/0"
		}
	}
	if seen == "" {
		return serve.Invalid("the last message is not of the user, and approves no call that waits")
	}
	return streamAfter(q, s, text, seen, lost)
}

func (sf surface) read(q *serve.Request) error {
	s, err := q.Session(sf.agent, q.PathValue("id"))
	if err != nil {
		return err
	}
	all, _, err := messages(q.Context(), s)
	if err != nil {
		return err
	}
	q.JSON(http.StatusOK, all)
	return nil
}

// resume streams the unfinished answer. A chat without messages has no session yet, so
// a missing session gets 204.
func (sf surface) resume(q *serve.Request) error {
	s, err := q.Session(sf.agent, q.PathValue("id"))
	text := ""
	if err == nil {
		text, err = q.Running(s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text == "" {
		q.Writer.WriteHeader(http.StatusNoContent)
		return nil
	}
	return stream(q, s, text)
}

func (sf surface) stop(q *serve.Request) error {
	s, err := q.Session(sf.agent, q.PathValue("id"))
	if err != nil {
		return err
	}
	if err := q.Stop(s); err != nil {
		return err
	}
	q.JSON(http.StatusOK, map[string]string{"status": "stopping"})
	return nil
}
