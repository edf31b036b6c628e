package retain

import (
	"context"
	"errors"

	"github.com/convolog/convolog/session"
)

// Trash puts sessions into the trash, where [session.Store.List] and
// [session.Store.Get] hide them. [Restore] brings one back, and [Apply] deletes those
// whose time in the trash is over, see [Policy].Trash. Otherwise, a session in the
// trash is like an archived one, see [session.Store.SetState]. If a turn is running,
// the error matches [session.ErrBusy]. An erase that finds something in a session in
// the trash deletes the session.
func Trash(ctx context.Context, st *session.Store, refs ...session.Ref) error {
	var errs []error
	for _, ref := range refs {
		errs = append(errs, st.SetState(ctx, ref, session.Trashed, -1))
	}
	return errors.Join(errs...)
}

// Restore brings back a trashed or archived session unchanged, except for a line of
// [Trash] and a line of its own. See [session.Store.SetState].
func Restore(ctx context.Context, st *session.Store, ref session.Ref) error {
	return st.SetState(ctx, ref, session.Live, -1)
}
