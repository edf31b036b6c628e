package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/session/internal/replay"
	"github.com/convolog/convolog/transcript"
)

// Fork makes a new session that begins with the conversation as it was right
// after an entry. It becomes the current one of the same key;
// [Session.MakeCurrent] brings the old one back. The session's own ID means the
// beginning. Nil options and zero fields are the defaults of [Store.Create],
// but an empty Owner means the owner of this session. A fork for another owner
// is set Aside.
//
// When the error is nil, the history of the new session equals this one's after
// the entry. Its lines are copies, byte for byte, of the lines in force there:
// the part that the last compaction keeps, the compaction, and later lines. Only hidden
// lines are copied without their words.
// Rewound and summarised lines are not copied, so the cost of a fork depends on
// its history, and a rewind cannot reach them. Metadata is not copied either.
// Pins and values in force there are taken over, queued texts and drafts are
// not.
//
// A fork never begins inside an append or between calls and their results: it
// ends before an answer with a call that has no result up to the entry.
//
// [Info].Descent names the origins of the copies. Either session may be deleted, and a
// fork can be forked. Copied entries keep their IDs and idempotency keys, so both
// sessions recognise a retry of an append made before the fork, and of later appends
// only their own.
//
// An error means that no session was made; a kill leaves the whole fork or none. An ID
// that is not there gives an error that matches [ErrNoEntry], an ID in use one that
// matches fs.ErrExist. If something of this session is erased before the fork is made,
// the error matches [ErrReplaced]: fork again. Until it returns, the copied lines are
// in memory.
func (s *Session) Fork(ctx context.Context, entryID string, opts *CreateOptions) (*Session, error) {
	const op = "fork"
	o, err := opts.checked()
	if err = cmp.Or(err, outside(ctx)); err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	var base driver.Row
	err = s.view(ctx, op, func(v *View) (err error) {
		if base, err = v.row(); err == nil {
			err = v.t.Writable(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	lines, standing, err := replay.Copy(s.store.table.Scan(ctx, s.ref), base, entryID, &s.store.lines.Options)
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	o.Owner = cmp.Or(o.Owner, base.Owner)
	o.Aside = o.Aside || o.Owner != base.Owner
	header := s.store.header(s.ref.Agent, base.Key, o)
	h, _ := header.Body.(transcript.Header)
	h.Base, h.Standing = transcript.Link{Agent: s.ref.Agent, Session: s.ref.ID, Entry: entryID}, standing
	h.Descent = append(slices.Clone(base.Descent), h.Base)
	h.Base.Lines = len(lines)
	header.Body = h
	values, err := s.store.values(header, o.Values)
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	row, err := s.store.createWith(ctx, s.ref.Agent, header, append(lines, values...), driver.Row{BaseRev: &base.Rev, Aside: o.Aside})
	if errors.Is(err, ErrReplaced) {
		_, gone := s.store.open(ctx, op, base) // else the next call gets ErrReplaced again
		err = cmp.Or(gone, fmt.Errorf("%w, and no fork was made", err))
	}
	if err != nil {
		return nil, s.store.wrap(op, s.ref, err)
	}
	s.store.auditOwner(ctx, row)
	return &Session{s.store, row.Ref()}, nil
}
