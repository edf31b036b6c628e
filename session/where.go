package session

import (
	"context"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/internal/replay"
)

// Where returns the places of entries in the history. Entries that are not in
// the transcript are not in the map.
//
// If the session is in memory with all of the entries, that is enough. Otherwise Where
// reads the transcript, but decodes little more than IDs and types, and may keep them for
// the next call. So it is not a method of [View]: reading a long transcript takes longer
// than the lock of the session may be held.
func (s *Session) Where(ctx context.Context, entryIDs ...string) (where map[string]rebuild.Where, err error) {
	if s.store.table.Has(s.ref) {
		all := false
		err = s.View(ctx, func(v *View) error {
			where, all = replay.PlacesIn(v.t.Fold, entryIDs)
			all = all || v.t.Whole()
			return nil
		})
		if err == nil && all {
			return where, nil
		}
	}
	if err = s.store.check(ctx, s.ref); err == nil {
		where, err = s.store.table.Places(ctx, s.ref, entryIDs)
	}
	return where, s.store.wrap("read", s.ref, err)
}

// where is Session.Where for the owner of the lock.
func (v *View) where(entryIDs []string) (map[string]rebuild.Where, error) {
	if where, all := replay.PlacesIn(v.t.Fold, entryIDs); all || v.t.Whole() {
		return where, nil
	}
	return v.s.store.table.Places(v.ctx, v.s.ref, entryIDs)
}
