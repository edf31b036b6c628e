package peerbench

import (
	"context"
	"sync"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

type convolog struct {
	st *session.Store

	mu       sync.Mutex // guards sessions
	sessions map[string]*session.Session
}

// OpenConvolog opens a store of this library.
func OpenConvolog(dir string, level Level) (Peer, error) {
	opts := &session.Options{Sync: session.SyncAlways}
	if level == Kill {
		opts.Sync = session.SyncNever
	}
	st, err := session.Open(dir, opts)
	if err != nil {
		return nil, err
	}
	return &convolog{st: st, sessions: map[string]*session.Session{}}, nil
}

// session returns the handle of a conversation. It keeps the handle, like an application.
func (c *convolog) session(ctx context.Context, conversation string) (*session.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.sessions[conversation]; s != nil {
		return s, nil
	}
	s, err := c.st.Load(ctx, session.Key{Agent: "main", Channel: "bench", Peer: conversation})
	if err == nil {
		c.sessions[conversation] = s
	}
	return s, err
}

func (c *convolog) Append(ctx context.Context, conversation string, msgs []Message) error {
	s, err := c.session(ctx, conversation)
	if err != nil {
		return err
	}
	items := make([]transcript.Item, len(msgs))
	for i, m := range msgs {
		if m.Role == "user" {
			items[i] = transcript.UserText(m.Text)
		} else {
			items[i] = transcript.AssistantText(m.Text)
		}
	}
	_, err = s.Append(ctx, items...)
	return err
}

func (c *convolog) Load(ctx context.Context, conversation string) ([]Message, error) {
	s, err := c.session(ctx, conversation)
	if err != nil {
		return nil, err
	}
	h, err := s.History(ctx)
	if err != nil {
		return nil, err
	}
	msgs := make([]Message, len(h.Messages))
	for i, m := range h.Messages {
		msgs[i] = Message{Role: string(m.Role), Text: m.Text()}
	}
	return msgs, nil
}

func (c *convolog) Close() error { return c.st.Close() }
