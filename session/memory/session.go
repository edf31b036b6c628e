package memory

import (
	"context"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A conversation is an extraction's view of a session.
type conversation interface {
	Ref() session.Ref
	owner(ctx context.Context) (string, error)
	chapters(ctx context.Context) ([]Chapter, error)
	read(ctx context.Context, chapter string) (rebuild.History, error)
	Append(ctx context.Context, items ...transcript.Item) ([]string, error)
}

// stored adapts a session to conversation.
type stored struct{ *session.Session }

func (s stored) owner(ctx context.Context) (owner string, err error) {
	err = s.View(ctx, func(v *session.View) error {
		info, err := v.Info()
		owner = info.Owner
		return err
	})
	return owner, err
}

func (s stored) chapters(ctx context.Context) ([]Chapter, error) { return Chapters(ctx, s.Session) }

func (s stored) read(ctx context.Context, chapter string) (rebuild.History, error) {
	return ReadChapter(ctx, s.Session, chapter)
}

// Extract learns from a chapter of a session, given by its name or the entry ID of
// its commit, and appends a [transcript.Extracted] to the session. It is idempotent:
// after a nil error a further call does nothing, and after an error or a kill it
// continues where the last one ended. It calls the Extractor again only if no diff
// exists. When the error is nil, the memories and the diff are on stable storage.
//
// An error changes no chapter and does not keep later ones from being learned. Unless
// ctx is done, an Extracted with the error is appended to the session, and the
// chapter stays [Store.Pending]. A refused candidate is not an error; the result
// gives the reason.
//
// A memory that a person edited is merged in its present text, a renamed one is found,
// and a deleted one stays away unless the chapter teaches it anew. An edit that is
// saved just between the last reading of a memory's file and its replacement is lost:
// no lock can keep a person's editor out. Extracts of one commit exclude each other,
// even between processes.
func (m *Store) Extract(ctx context.Context, s *session.Session, chapter string) (Result, error) {
	return m.extract(ctx, stored{s}, chapter)
}

// Pending returns the names of the chapters of a session that are still to be learned,
// the oldest first: never or not fully extracted, or opened again by an erase. The
// chapters of a session without an owner stay pending, and Extract refuses them.
func (m *Store) Pending(ctx context.Context, s *session.Session) ([]string, error) {
	return m.pending(ctx, stored{s})
}

func (m *Store) pending(ctx context.Context, c conversation) (names []string, err error) {
	owner, err := c.owner(ctx)
	if err != nil {
		return nil, err
	}
	chapters, err := c.chapters(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range chapters {
		done := a.Extracted
		if done {
			var d diff
			if done, err = m.readJSON(ctx, diffName(owner, a.Entry)+diffExt, &d); err != nil {
				return nil, err
			}
			done = done && d.Done
		}
		if !done {
			names = append(names, a.Name)
		}
	}
	return names, nil
}

// append appends the result of the extraction to the session.
func (x *extraction) append(ctx context.Context, e transcript.Extracted) error {
	_, err := x.c.Append(ctx, e)
	return err
}
