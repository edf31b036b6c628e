//go:build linux && (amd64 || arm64)

package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A world is everything that a store returns about its sessions.
type world struct {
	sessions map[string]seen   // by ID
	current  map[string]string // ID by key
}

// A seen is what is known of one session.
type seen struct {
	info    string // without the size, which damage counts for
	size    int64
	entries []string // IDs
	types   []string
	cut     bool // the last batch is not whole
	repairs int  // that report a cut batch
	history string
}

// look reads everything. If listed is set, it compares the list of the index
// with the sessions themselves.
func look(ctx context.Context, st *session.Store, listed bool) (world, error) {
	w := world{sessions: map[string]seen{}, current: map[string]string{}}
	infos, err := st.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return w, err
	}
	for _, info := range infos { // ends what was left unfinished
		if _, err := st.Get(ctx, info.Ref); err != nil {
			return w, err
		}
	}
	for _, info := range infos {
		s, err := st.Get(ctx, info.Ref)
		if err != nil {
			return w, err
		}
		one, err := lookAt(ctx, s)
		if err != nil {
			return w, err
		}
		if now := s.Info(); listed {
			info.Tokens, now.Tokens = 0, 0
			info.State, now.State = "", "" // a TTL may have ended in between
			if encode(info) != encode(now) {
				return w, fmt.Errorf("the index says\n%s and the session\n%s", encode(info), encode(now))
			}
		}
		w.sessions[info.ID] = one
		if info = s.Info(); info.Current {
			if other, twice := w.current[info.Key]; twice {
				return w, fmt.Errorf("key %s has the current sessions %s and %s", info.Key, other, info.ID)
			}
			w.current[info.Key] = info.ID
		}
	}
	for _, info := range infos {
		if w.current[info.Key] == "" && info.State != session.Archived {
			return w, fmt.Errorf("key %s has sessions, and none is current", info.Key)
		}
	}
	return w, nil
}

func lookAt(ctx context.Context, s *session.Session) (seen, error) {
	var one seen
	var b transcript.Batcher
	count := func(batches []transcript.Batch) {
		for _, batch := range batches {
			one.cut = !batch.Complete
		}
	}
	known := map[string]bool{}
	for e, err := range s.Entries(ctx) {
		if err != nil {
			return one, err
		}
		if known[e.ID] {
			return one, fmt.Errorf("entry %s is there twice", e.ID)
		}
		known[e.ID] = true
		one.entries = append(one.entries, e.ID)
		one.types = append(one.types, e.Type())
		count(b.Add(e))
	}
	count(b.Break())
	h, err := s.History(ctx)
	if err != nil {
		return one, err
	}
	health, err := s.Health(ctx)
	if err != nil {
		return one, err
	}
	for _, r := range health.Repairs {
		if r.Rule == "incomplete-batch" || r.Rule == "cut-answer" || r.Rule == "superseded-batch" {
			one.repairs++
		}
	}
	one.history = encode(h)
	info := s.Info()
	one.size = info.Size
	// An estimate also depends on when the history was last counted as a whole.
	info.Size, info.Tokens = 0, 0
	if info.State == session.Expired {
		info.State = session.Live // the clock of a restart is another one
	}
	one.info = encode(info)
	return one, nil
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// matches returns an error unless w is the world before a call or after it, or
// the world before it plus, in one session, some lines of a cut batch that is
// reported as cut. If no call was under way, before and after are equal.
func (w world) matches(before, after world) error {
	errBefore, errAfter := w.equal(before), w.equal(after)
	if errBefore == nil || errAfter == nil {
		return nil
	}
	for id, one := range w.sessions {
		was, will := before.sessions[id], after.sessions[id]
		n := len(one.entries)
		if n <= len(was.entries) || n >= len(will.entries) {
			continue
		}
		if !within(one.entries, will.entries) || !slices.Equal(one.entries[:len(was.entries)], was.entries) {
			continue
		}
		if !one.cut || one.repairs == 0 && one.history != was.history {
			return fmt.Errorf("session %s has %d of %d entries of a call that was cut, and does not say so", id, n-len(was.entries), len(will.entries)-len(was.entries))
		}
		rest := world{sessions: map[string]seen{}, current: w.current}
		maps.Copy(rest.sessions, w.sessions)
		rest.sessions[id] = was
		return rest.equal(before)
	}
	return fmt.Errorf("it is not what it was before the last call (%w) nor after it (%w)", errBefore, errAfter)
}

// within reports whether all of some are in others, in the same order.
func within(some, others []string) bool {
	for _, id := range others {
		if len(some) > 0 && some[0] == id {
			some = some[1:]
		}
	}
	return len(some) == 0
}

// equal compares two worlds, but for sizes.
func (w world) equal(other world) error {
	for id, one := range other.sessions {
		got, ok := w.sessions[id]
		switch {
		case !ok:
			return fmt.Errorf("session %s is not there", id)
		case !slices.Equal(got.entries, one.entries):
			return fmt.Errorf("session %s has the entries %v, not %v", id, got.types, one.types)
		case got.history != one.history:
			return fmt.Errorf("the history of %s is\n%s, not\n%s", id, got.history, one.history)
		case got.info != one.info:
			return fmt.Errorf("session %s is\n%s, not\n%s", id, got.info, one.info)
		}
	}
	for id := range w.sessions {
		if _, ok := other.sessions[id]; !ok {
			return fmt.Errorf("session %s is there", id)
		}
	}
	for key, id := range other.current {
		if w.current[key] != id {
			return fmt.Errorf("the current session of %s is %s, not %s", key, w.current[key], id)
		}
	}
	return nil
}

// sameAgain compares two worlds, sizes included.
func (w world) sameAgain(other world) error {
	for id, one := range other.sessions {
		if got := w.sessions[id].size; got != one.size {
			return fmt.Errorf("session %s has %d bytes, not %d", id, got, one.size)
		}
	}
	return w.equal(other)
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
