package serve

import (
	"errors"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/memory"
)

type ownCreated struct {
	Key string `json:"key"`
	session.CreateOptions
}

func (q *request) ownCreate(c ownCreated) (i session.Info, err error) {
	key, err := session.ParseKey(c.Key)
	if err != nil {
		return i, err
	}
	if _, err := q.agent(key.Agent); err != nil {
		return i, err
	}
	s, err := q.store.Create(q.Context(), key, &c.CreateOptions)
	if _, ok := errors.AsType[*driver.NameError](err); ok {
		return i, invalid("the ID or the agent is not one that a session can have")
	}
	if err != nil {
		return i, err
	}
	return s.Info(q.Context())
}

type ownMessage struct {
	Role    string       `json:"role"`              // user or assistant
	Content string       `json:"content,omitempty"` // its text
	Parts   []vikingPart `json:"parts,omitempty"`   // instead of a text
}

func (q *request) ownAppend(s *session.Session, m ownMessage) (session.Appended, error) {
	message, err := vikingMessage(m.Role, m.Content, m.Parts)
	if err != nil {
		return session.Appended{}, err
	}
	idem := q.Header.Get("Idempotency-Key")
	if idem != "" {
		idem = "http:" + idem
	}
	return s.AppendIf(q.Context(), session.Cond{Idem: idem}, message)
}

func (q *request) ownCommit(s *session.Session, _ none) (memory.Committed, error) {
	done, err := memory.Commit(q.Context(), s, nil)
	if err == nil {
		q.learn(s)
	}
	return done, err
}
