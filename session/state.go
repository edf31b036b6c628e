package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/convolog/convolog/rebuild"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// KeyState is how the names of values begin that belong to the key of a session: a
// new session of the key begins with those that the current one has when it is
// created. The others belong to their session alone.
const KeyState = "key/"

// MaxState is the size that the values of a session may have together, names
// included, in bytes.
const MaxState = 64 << 10

// SetState sets a value of the application's own, any JSON; nil removes it. No
// model sees it. A rewind and a compaction leave it as it is.
//
// After, if it is not empty, is the entry ID that [Session.State] gives with the
// value that must be in force, [NoHead] if there must be none; otherwise the error
// matches [ErrConflict]. It returns the entry ID of the new value. Values that
// would have more than [MaxState] bytes together are refused. After an error
// nothing was written, as for [Session.Append].
func (s *Session) SetState(ctx context.Context, name string, value json.RawMessage, after string) (id string, err error) {
	if !utf8.ValidString(name) {
		return "", s.store.wrap("set state", s.ref, fmt.Errorf("the name %q is not valid UTF-8: nothing was written", name))
	}
	if value != nil && !json.Valid(value) {
		return "", s.store.wrap("set state", s.ref, errors.New("the value is not valid JSON: nothing was written"))
	}
	ids, err := s.Update(ctx, "set state", func(v *View) ([]transcript.Item, error) {
		all := v.Fold().Standing().State
		now, size := driver.NoHead, len(name)+len(value)
		for _, v := range all {
			if v.Name == name {
				now = v.Entry
			} else {
				size += len(v.Name) + len(v.Value)
			}
		}
		switch {
		case after != "" && after != now:
			return nil, fmt.Errorf("%w: the value %q was set by entry %s: nothing was written", ErrConflict, name, now)
		case size > MaxState && value != nil:
			return nil, fmt.Errorf("all values would have %d bytes, the limit is %d: nothing was written", size, MaxState)
		}
		return []transcript.Item{transcript.State{Name: name, Value: value}}, nil
	})
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

// State returns the values that [Session.SetState] has set, the one that was set
// last at the end.
func (s *Session) State(ctx context.Context) (values []rebuild.Value, err error) {
	err = s.View(ctx, func(v *View) error {
		values = slices.Clone(v.Fold().Standing().State)
		return nil
	})
	return values, err
}

// createNext makes a session of a key that begins with the values of its current one.
func (st *Store) createNext(ctx context.Context, key Key, header transcript.Entry) (driver.Row, error) {
	for n := 1; ; n++ {
		next, from := st.inherit(ctx, key, header)
		row, err := st.createWith(ctx, key.Agent, next, nil)
		if err != nil || from.ID == "" {
			return row, err
		}
		checked := context.WithoutCancel(ctx) // as for a fork
		erased := st.standsAs(checked, from)
		if erased == nil {
			return row, nil
		}
		stays, err := st.unmake(checked, row, []transcript.Entry{next})
		switch {
		case err != nil || !isGone(erased) || !stays && n == loadTries:
			return row, errors.Join(erased, err)
		case stays:
			st.opts.Logger.Warn("the values of the key were erased while its new session was made and used: it has none", "key", key.String())
			return row, nil
		}
	}
}

// inherit returns the header of a new session with the values that belong to its key,
// and the session that has them, if there are any. A current session that cannot be
// read has none: a new one may be the way out. Nor has one that an erase deletes.
func (st *Store) inherit(ctx context.Context, key Key, header transcript.Entry) (next transcript.Entry, from driver.Row) {
	var values []rebuild.Value
	row, err := st.drv.Current(ctx, key.Agent, key.String())
	if err == nil {
		var current *Session
		if current, err = st.open(ctx, "look up", row); err == nil {
			values, err = current.State(ctx)
		}
	}
	values = slices.DeleteFunc(values, func(v rebuild.Value) bool { return !strings.HasPrefix(v.Name, KeyState) })
	due := false
	if err == nil && len(values) > 0 {
		due, err = st.erasing(ctx, row.Ref())
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		st.opts.Logger.Warn("the values of the key were not read for its new session", "key", key.String(), "err", err)
	}
	if err != nil || due || len(values) == 0 {
		return header, from
	}
	h, _ := header.Body.(transcript.Header)
	for _, v := range values {
		h.State = append(h.State, transcript.State{Name: v.Name, Value: v.Value})
	}
	header.Body = h
	return header, row
}
