package memory

import (
	"context"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A conversation is the view of a session for extraction.
type conversation interface {
	Ref() session.Ref
	owner(ctx context.Context) (string, error)
	chapters(ctx context.Context) ([]Chapter, error)
	read(ctx context.Context, chapter string) (rebuild.History, error)
	Append(ctx context.Context, items ...transcript.Item) ([]string, error)
}

// stored is a session as a conversation.
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
// continues where the last one ended. The Extractor is called again only if there is
// no diff yet. When the error is nil, the memories and the diff are on stable
// storage.
//
// An error never changes the chapter and never keeps the next one from being learned.
// The session then has an Extracted with the error, unless ctx is done, and the
// chapter stays [Store.Pending]. A refused candidate is not an error; the result has
// the reason.
//
// A memory that a person has edited is merged as it reads now, one that was renamed
// is found, and one that was deleted stays away unless the chapter teaches it anew. An
// edit that is saved in the very moment in which a memory is written, between the
// last look at the file and its replacement, is lost: no lock can keep a person's
// editor out. Extracts of one commit exclude each other, in other processes too.
func (m *Store) Extract(ctx context.Context, s *session.Session, chapter string) (Result, error) {
	return m.extract(ctx, stored{s}, chapter)
}

// Pending returns the names of the chapters of a session that are still to be learned,
// the oldest first: those that were never extracted, or not to the end, and those that
// an erase has opened again. The chapters of a session without an owner stay pending, and
// Extract refuses them with an error.
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
