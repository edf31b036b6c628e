package memory

import (
	"context"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A conversation is a session, as far as it is learned from.
type conversation interface {
	Ref() session.Ref
	Archives(ctx context.Context) ([]session.ArchiveInfo, error)
	Archived(ctx context.Context, name string) (rebuild.History, error)
	Append(ctx context.Context, items ...transcript.Item) ([]string, error)
}

// Extract learns from an archive of a session, given by its name or the entry ID of
// its commit, and appends a [transcript.Extracted] to the session. It is idempotent:
// after a nil error a further call does nothing, and after an error or a kill it goes
// on where the last one ended. The Extractor is asked again only if there is no diff
// yet. When the error is nil, the memories and the diff are on stable storage.
//
// An error never changes the archive and never keeps the next one from being learned.
// The session then has an Extracted with the error, unless ctx is done, and the
// archive stays [Store.Pending]. A candidate that is refused is no error; the result
// says why.
//
// A memory that a person has edited is merged as it reads now, one that was renamed
// is found, and one that was deleted stays away unless the archive teaches it anew. An
// edit that is saved in the very moment in which a memory is written, between the
// last look at the file and its replacement, is lost: no lock can keep a person's
// editor out. Extracts of one commit exclude each other, in other processes too.
func (m *Store) Extract(ctx context.Context, s *session.Session, archive string) (Result, error) {
	return m.extract(ctx, s, archive)
}

// Pending returns the names of the archives of a session that are still to be learned,
// the oldest first: those that were never extracted, or not to the end, and those that
// an erase has opened again. An archive of a session that had no owner stays pending,
// and Extract refuses it with [ErrOwner].
func (m *Store) Pending(ctx context.Context, s *session.Session) ([]string, error) {
	return m.pending(ctx, s)
}

func (m *Store) pending(ctx context.Context, c conversation) (names []string, err error) {
	archives, err := c.Archives(ctx)
	if err != nil {
		return nil, err
	}
	for _, a := range archives {
		done := a.Extracted
		if done {
			var d diff
			if done, err = m.readJSON(ctx, diffName(a.Owner, a.Entry)+diffExt, &d); err != nil {
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

// append appends what became of the archive to the session.
func (x *extraction) append(ctx context.Context, e transcript.Extracted) error {
	_, err := x.c.Append(ctx, e)
	return err
}
