//go:build linux && (amd64 || arm64)

package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// A World holds all that a store returns about its sessions.
type World struct {
	Sessions map[string]Seen   // by ID
	current  map[string]string // ID by key
}

// Seen is the visible state of one session.
type Seen struct {
	info    string // JSON without the size, which includes damage
	size    int64
	Entries []string // the IDs of the entries
	Types   []string
	cut     bool // the last batch is incomplete
	repairs int  // the number of repairs that report a cut batch
	History string
}

// Look reads all sessions of a store. If listed is set, it compares the list with the
// sessions themselves.
func Look(ctx context.Context, st *session.Store, listed bool) (World, error) {
	w := World{Sessions: map[string]Seen{}, current: map[string]string{}}
	infos, err := st.List(ctx, &session.ListOptions{State: session.AnyState})
	if err != nil {
		return w, err
	}
	for _, info := range infos { // Get ends unfinished work
		if _, err := st.Get(ctx, info.Ref); err != nil {
			return w, err
		}
	}
	for _, info := range infos {
		s, err := st.Get(ctx, info.Ref)
		if err != nil {
			return w, err
		}
		one, err := LookAt(ctx, s)
		if err != nil {
			return w, err
		}
		now, err := s.Info(ctx)
		if err != nil {
			return w, err
		}
		w.Sessions[info.ID] = one
		if now.Current {
			if other, twice := w.current[now.Key]; twice {
				return w, fmt.Errorf("key %s has the current sessions %s and %s", now.Key, other, now.ID)
			}
			w.current[now.Key] = now.ID
		}
		if listed {
			info.Tokens, now.Tokens = 0, 0
			info.State, now.State = "", "" // a TTL may have ended since the list was read
			if grown(now.Size, info.Size) {
				info.Size, info.End = now.Size, now.End
			}
			if encode(info) != encode(now) {
				return w, fmt.Errorf("the index says\n%s and the session\n%s", encode(info), encode(now))
			}
		}
	}
	for _, info := range infos {
		if w.current[info.Key] == "" && info.State != session.Archived {
			return w, fmt.Errorf("key %s has sessions, but no current session", info.Key)
		}
	}
	return w, nil
}

// LookAt reads the visible state of one session.
func LookAt(ctx context.Context, s *session.Session) (Seen, error) {
	var one Seen
	var b transcript.Batcher
	count := func(batches []transcript.Batch) {
		for _, batch := range batches {
			one.cut = !batch.Complete
		}
	}
	known := map[string]bool{}
	for e, err := range s.Entries(ctx, "") {
		if err != nil {
			return one, err
		}
		if known[e.ID] {
			return one, fmt.Errorf("entry %s occurs twice", e.ID)
		}
		known[e.ID] = true
		one.Entries = append(one.Entries, e.ID)
		one.Types = append(one.Types, e.Type())
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
	one.History = encode(h)
	info, err := s.Info(ctx)
	if err != nil {
		return one, err
	}
	one.size = info.Size
	// The estimate of tokens also depends on the time of the last count of the whole history.
	info.Size, info.End, info.Tokens = 0, 0, 0
	if info.State == session.Expired {
		info.State = session.Live // the clock of a restart is different
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

// Matches returns nil if w equals the world before or after a call. It also returns nil if w
// equals the world before, plus some lines of a cut batch in one session, and the session
// reports the cut. Without a running call, before and after are equal.
func (w World) Matches(before, after World) error {
	errBefore, errAfter := w.Equal(before), w.Equal(after)
	if errBefore == nil || errAfter == nil {
		return nil
	}
	for id, one := range w.Sessions {
		was, will := before.Sessions[id], after.Sessions[id]
		n := len(one.Entries)
		if n <= len(was.Entries) || n >= len(will.Entries) {
			continue
		}
		if !within(one.Entries, will.Entries) || !slices.Equal(one.Entries[:len(was.Entries)], was.Entries) {
			continue
		}
		if !one.cut || one.repairs == 0 && one.History != was.History {
			return fmt.Errorf("session %s has %d of %d entries of a cut call, and does not report it", id, n-len(was.Entries), len(will.Entries)-len(was.Entries))
		}
		rest := World{Sessions: map[string]Seen{}, current: w.current}
		maps.Copy(rest.Sessions, w.Sessions)
		rest.Sessions[id] = was
		return rest.Equal(before)
	}
	return fmt.Errorf("the state equals neither the state before the last call (%w) nor the state after it (%w)", errBefore, errAfter)
}

// within reports whether others contains all of some, in the same order.
func within(some, others []string) bool {
	for _, id := range others {
		if len(some) > 0 && some[0] == id {
			some = some[1:]
		}
	}
	return len(some) == 0
}

// Equal compares two worlds, except for sizes.
func (w World) Equal(other World) error {
	for id, one := range other.Sessions {
		got, ok := w.Sessions[id]
		switch {
		case !ok:
			return fmt.Errorf("session %s is not there", id)
		case !slices.Equal(got.Entries, one.Entries):
			return fmt.Errorf("session %s has the entries %v, not %v", id, got.Types, one.Types)
		case got.History != one.History:
			return fmt.Errorf("the history of %s is\n%s, not\n%s", id, got.History, one.History)
		case got.info != one.info:
			return fmt.Errorf("session %s is\n%s, not\n%s", id, got.info, one.info)
		}
	}
	for id := range w.Sessions {
		if _, ok := other.Sessions[id]; !ok {
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

// grown reports whether a transcript is one byte longer than when it was read. A kill may
// cut the newline of the last line, and then the next writer adds it. A session that read
// the line before has the old size until it reads the next line.
func grown(read, now int64) bool { return now == read+1 }

// SameAgain compares two worlds, including sizes.
func (w World) SameAgain(other World) error {
	for id, one := range other.Sessions {
		if got := w.Sessions[id].size; got != one.size && !grown(one.size, got) {
			return fmt.Errorf("session %s has %d bytes, not %d", id, got, one.size)
		}
	}
	return w.Equal(other)
}
