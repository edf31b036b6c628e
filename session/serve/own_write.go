package serve

import (
	"errors"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/memory"
	"github.com/convolog/convolog/session/serve/internal/said"
	"github.com/convolog/convolog/transcript"
)

type ownCreated struct {
	Key   string `json:"key,omitempty"`   // if empty, the session is found by its ID alone
	Agent string `json:"agent,omitempty"` // without a Key; if empty, it is main
	session.CreateOptions
}

func (q *Request) ownCreate(c ownCreated) (i session.Info, err error) {
	key := session.Key{Agent: or(c.Agent, "main")}
	if c.Key != "" {
		key, err = session.ParseKey(c.Key)
		if err == nil && c.Agent != "" && c.Agent != key.Agent {
			err = Invalid("the key names another agent")
		}
		if err != nil {
			return i, err
		}
	}
	if _, err := q.agent(key.Agent); err != nil {
		return i, err
	}
	return q.described(q.create(key, c.CreateOptions))
}

type ownMessage struct {
	Role    string      `json:"role"`              // user or assistant
	Content string      `json:"content,omitempty"` // its text
	Parts   []said.Part `json:"parts,omitempty"`   // instead of a text
}

func (q *Request) ownAppend(s *session.Session, m ownMessage) (session.Appended, error) {
	message, err := said.Message(m.Role, m.Content, m.Parts)
	if err != nil {
		return session.Appended{}, Invalid(err.Error())
	}
	return s.AppendIf(q.Context(), q.once(), message)
}

type ownText struct {
	Content string      `json:"content,omitempty"`
	Parts   []said.Part `json:"parts,omitempty"` // instead of a text
}

// ownQueue queues a message of the user for the responder. The answer is among the later
// entries of the session.
func (q *Request) ownQueue(s *session.Session, m ownText) (queued struct {
	Entry string `json:"entry"`
}, err error,
) {
	message, err := said.Message(string(transcript.RoleUser), m.Content, m.Parts)
	if err != nil {
		return queued, Invalid(err.Error())
	}
	queued.Entry, err = q.Say(s, message.Content, "")
	return queued, err
}

func (q *Request) ownCommit(s *session.Session, o struct {
	Unanswered bool `json:"unanswered,omitempty"` // also close a turn that waits for an answer
},
) (memory.Committed, error) {
	done, err := memory.Commit(q.Context(), s, &memory.CommitOptions{Unanswered: o.Unanswered})
	if err == nil {
		q.Learn(s)
	}
	return done, err
}

// Learn extracts memories from the chapters of a session that were not extracted, if
// Options.Memory is set. It returns the number of added and changed memories. The reason
// explains why there are none: "no_memory" without Options.Memory, "no_owner" for a
// session without an owner, "failed" if the log has the error, and "nothing_new". Failed
// chapters are tried again at the next commit.
func (q *Request) Learn(s *session.Session) (memories int, reason string) {
	if q.Memory == nil {
		return 0, "no_memory"
	}
	info, err := s.Info(q.Context())
	if err == nil && info.Owner == "" {
		return 0, "no_owner"
	}
	pending, err := q.Memory.Pending(q.Context(), s)
	for _, name := range pending {
		result, failed := q.Memory.Extract(q.Context(), s, name)
		err = errors.Join(err, failed)
		for _, n := range result.Counts {
			memories += n.Added + n.Merged
		}
	}
	switch {
	case err != nil:
		reason = "failed"
		q.sv.answers.log("learning from chapters failed", s, err)
	case memories == 0:
		reason = "nothing_new"
	}
	return memories, reason
}
