package retain

import (
	"context"

	"github.com/convolog/convolog/session"
)

// Archive compresses a session to a fraction of its size. An archived session keeps
// its ID, [session.Store.List] lists it by its [session.State], and it can be read
// and searched as before, at the cost of unpacking it. Appends, turns and
// [session.Session.MakeCurrent] fail with [session.ErrArchived] until [Restore]. It
// is no longer the current session of its key: the newest of the others is, or the
// next [session.Store.Load] makes one. Archive leaves an archived session as it is.
//
// When the error is nil, the archive holds every appended line, is on stable storage
// and was read back. If a turn is running, the error matches [session.ErrBusy].
// After an error or a crash the session is either unchanged or archived. The archive
// needs room on the disk; if a sync of the transcript has failed, a copy of the
// transcript needs room first. To make room on a full disk, delete sessions. If the
// driver cannot archive, the error matches [errors.ErrUnsupported].
func Archive(ctx context.Context, st *session.Store, ref session.Ref) error {
	return st.SetState(ctx, ref, session.Archived, -1)
}

// Restore brings back an archived or trashed session, byte for byte as it was before
// [Archive]; [Trash] has added a line. It is the current session of its key again unless a newer one was
// made. Restore leaves other sessions as they are. When the error is nil, the
// session is on stable storage; after an error or a crash it is either still archived
// or restored. Another process that has the session open may get
// [session.ErrReplaced] once.
func Restore(ctx context.Context, st *session.Store, ref session.Ref) error {
	return st.SetState(ctx, ref, session.Live, -1)
}
