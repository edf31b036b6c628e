package session

import (
	"context"
	"slices"
	"time"

	"github.com/convolog/convolog/session/driver"
)

// Info describes a session.
type Info struct {
	Ref
	Key         string // printed form
	Current     bool   // whether it is the current session of its key
	Title       string
	TitleByHand bool
	Owner       string
	Labels      []string
	CreatedAt   time.Time
	UpdatedAt   time.Time // of the last message, compaction or rewind
	LastUserAt  time.Time // of the last user message; zero if there is none
	Messages    int       // user messages and answers, rewound ones included
	Turns       int       // of the conversation as it stands
	Tokens      int       // estimate of the history
	Size        int64     // of the transcript; bytes if it is a file
	TTL         time.Duration
	Pinned      bool
}

func infoOf(row driver.Row) Info {
	return Info{
		Ref: row.Ref(), Key: row.Key, Title: row.Title, TitleByHand: row.TitleByHand, Owner: row.Owner,
		Labels: slices.Clone(row.Labels), CreatedAt: row.CreatedAt, UpdatedAt: row.UpdatedAt, LastUserAt: row.LastUserAt,
		Messages: row.Messages, Turns: row.Turns, Tokens: row.TokenEstimate, Size: row.Size,
		TTL: time.Duration(row.TTL) * time.Second, Pinned: row.Pinned,
	}
}

// Info describes the session as this process saw it last; Current is looked
// up. After an index was lost it reads the whole transcript, once. What cannot
// be read is left zero: the next call that returns an error says why.
func (s *Session) Info() Info {
	ctx := context.Background()
	var info Info
	err := s.use(context.Background(), "read", func(t *state) error {
		err := t.catchUp(ctx)
		if t.bare && err == nil {
			err = t.readAll(ctx)
		}
		info = infoOf(t.row)
		return err
	})
	if err == nil {
		cur, err := s.store.drv.Current(ctx, s.ref.Agent, info.Key)
		info.Current = err == nil && cur.ID == s.ref.ID
	}
	return info
}
