package turn

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"time"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// An Approval is a call that waits for a decision of a person, see [Decide].
type Approval struct {
	Session session.Info        `json:"session"`
	Call    rebuild.PendingCall `json:"call"`
	Since   time.Time           `json:"since"` // when the call was held
}

// Approvals yields the held calls of all sessions that opts select; nil selects the live
// ones. It lists them by [session.ListOptions].Waits, and reads only transcripts with a
// held call. A [session.Store.Scope] yields those of its owner. Calls that are held or
// decided during the loop may be missing. The last pair has the errors of all sessions
// that cannot be read, if there are any, and a zero Approval.
func Approvals(ctx context.Context, st *session.Store, opts *session.ListOptions) iter.Seq2[Approval, error] {
	return func(yield func(Approval, error) bool) {
		var o session.ListOptions
		if opts != nil {
			o = *opts
		}
		o.Waits = rebuild.WaitApproval
		infos, err := st.List(ctx, &o)
		for _, info := range infos {
			held, failed := approvals(ctx, st, info)
			if errors.Is(failed, session.ErrReplaced) {
				held, failed = approvals(ctx, st, info)
			}
			if !errors.Is(failed, fs.ErrNotExist) { // else it was deleted
				err = errors.Join(err, failed)
			}
			for _, a := range held {
				if !yield(a, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(Approval{}, err)
		}
	}
}

// approvals returns the held calls of a session.
func approvals(ctx context.Context, st *session.Store, info session.Info) (held []Approval, err error) {
	s, err := st.Get(ctx, info.Ref)
	if err != nil {
		return nil, err
	}
	pending, err := s.Pending(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range pending.Calls {
		if c.State != rebuild.Held {
			continue
		}
		a := Approval{Session: info, Call: c}
		for e, err := range s.Entries(ctx, c.Entry) {
			if err != nil {
				return nil, err
			}
			d, ok := e.Body.(transcript.Decision)
			if ok && d.Call == c.Entry && d.CallID == c.Call.ID && d.Verdict == transcript.Hold {
				a.Since = e.Time
				break
			}
		}
		held = append(held, a)
	}
	return held, nil
}
