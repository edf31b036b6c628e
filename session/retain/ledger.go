package retain

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A Removal is the record of a deleted session. It holds no words of the session.
type Removal struct {
	session.Ref
	Owner     string        `json:"owner,omitempty"`
	CreatedAt time.Time     `json:"createdAt,omitzero"`
	At        time.Time     `json:"at"`             // of the deletion
	Rule      string        `json:"rule"`           // ttl, count or bytes of a plan, trash, or hand
	Size      int64         `json:"size,omitempty"` // of the transcript
	Usage     session.Usage `json:"usage,omitempty"`
}

// byHand is the rule of [Delete].
const byHand = "hand"

// ledger is the agent of the ledgers. The ledger of an owner is a session with a custom
// line for each deleted session. It goes when the owner is erased.
const ledger = "_removed"

// Delete deletes sessions like [session.Store.Delete], but first adds each to the
// ledger of its owner. See [Removals].
func Delete(ctx context.Context, st *session.Store, refs ...session.Ref) error {
	var errs []error
	for _, ref := range refs {
		info := session.Info{Ref: ref}
		s, err := st.Get(ctx, ref)
		if s != nil {
			if info, err = s.Info(ctx); err != nil { // it can still be deleted
				info, err = session.Info{Ref: s.Ref(), Owner: st.Owner()}, nil
			}
		}
		remove := func() error { return st.Delete(ctx, ref) }
		if errors.Is(err, fs.ErrNotExist) {
			err = remove() // this may finish a deletion
		} else if err == nil {
			err = account(ctx, st, info, byHand, time.Now(), remove)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// account deletes a session with remove. It writes a line about the session before
// that, so that a kill in between leaves no deletion without a line. If the disk is
// full, it writes the line afterwards.
func account(ctx context.Context, st *session.Store, info session.Info, rule string, at time.Time, remove func() error) error {
	r := Removal{Ref: info.Ref, CreatedAt: info.CreatedAt, At: at.UTC(), Rule: rule, Size: info.Size, Usage: info.Usage}
	written := write(ctx, st, info.Owner, r)
	if err := remove(); err != nil || written == nil {
		return err
	}
	if err := write(context.WithoutCancel(ctx), st, info.Owner, r); err != nil {
		return fmt.Errorf("session %s/%s is deleted, but could not be added to the ledger: %w", r.Agent, r.ID, err)
	}
	return nil
}

// write adds a removal to the ledger of an owner.
func write(ctx context.Context, st *session.Store, owner string, r Removal) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	ref := session.Ref{Agent: ledger, ID: "none"}
	if owner != "" {
		sum := sha256.Sum256([]byte(owner))
		ref.ID = hex.EncodeToString(sum[:16])
	}
	s, err := st.Get(ctx, ref)
	if errors.Is(err, fs.ErrNotExist) {
		s, err = st.Create(ctx, session.Key{Agent: ref.Agent}, &session.CreateOptions{ID: ref.ID, Owner: owner})
	}
	if errors.Is(err, fs.ErrExist) { // another process was faster
		s, err = st.Get(ctx, ref)
	}
	if err == nil {
		_, err = s.Append(ctx, transcript.Custom{Name: "removed", Data: data})
	}
	return err
}

// Removals returns the sessions that [Apply] and [Delete] have deleted, the latest
// last. For a [session.Store.Scope] it returns the sessions of its owner. It does not
// include sessions that an erase or [session.Store.Delete] removed. Until an owner is
// erased, the owner's usage is the sum over the sessions and the removals.
func Removals(ctx context.Context, st *session.Store) ([]Removal, error) {
	ledgers, err := st.List(ctx, &session.ListOptions{Key: session.Key{Agent: ledger}, State: session.AnyState})
	if err != nil {
		return nil, fmt.Errorf("retain: removals: %w", err)
	}
	type life struct { // an ID may be used again
		session.Ref
		created int64
	}
	last := map[life]Removal{}
	for _, info := range ledgers {
		s, err := st.Get(ctx, info.Ref)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the ledger was erased
		}
		if err != nil {
			return nil, fmt.Errorf("retain: removals: %w", err)
		}
		for e, err := range s.Entries(ctx, "") {
			if err != nil {
				return nil, fmt.Errorf("retain: removals: %w", err)
			}
			var r Removal
			if c, ok := e.Body.(transcript.Custom); ok && json.Unmarshal(c.Data, &r) == nil && r.ID != "" {
				r.Owner = info.Owner
				last[life{r.Ref, r.CreatedAt.UnixNano()}] = r
			}
		}
	}
	all := []Removal{}
	for _, r := range last {
		if s, _ := st.Get(ctx, r.Ref); s != nil { // the deletion failed, or another session now has the ID
			if info, err := s.Info(ctx); err != nil || info.CreatedAt.Equal(r.CreatedAt) {
				continue
			}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Removal) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}
