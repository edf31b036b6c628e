package storetest

import (
	"context"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/transcript"
)

// CLI is the key of the session that most tests use.
var CLI = session.Key{Agent: "main", Channel: "cli", Peer: "user"}

// Load loads the current session of a key.
func Load(t testing.TB, st *session.Store, key session.Key) *session.Session {
	t.Helper()
	s, err := st.Load(t.Context(), key)
	require.NoError(t, err)
	return s
}

// Create makes a session.
func Create(t testing.TB, st *session.Store, key session.Key, opts *session.CreateOptions) *session.Session {
	t.Helper()
	s, err := st.Create(t.Context(), key, opts)
	require.NoError(t, err)
	return s
}

// Fork makes a fork of a session at an entry.
func Fork(t testing.TB, s *session.Session, entryID string, opts *session.CreateOptions) *session.Session {
	t.Helper()
	f, err := s.Fork(t.Context(), entryID, opts)
	require.NoError(t, err)
	return f
}

// Current returns the current session of a key. Without one, the error matches
// [fs.ErrNotExist].
func Current(ctx context.Context, st *session.Store, key session.Key) (*session.Session, error) {
	infos, err := st.List(ctx, &session.ListOptions{Key: key, Current: true, State: session.AnyState})
	if err == nil && len(infos) == 0 {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return st.Get(ctx, infos[0].Ref)
}

// Add appends items in one batch and returns the IDs of their entries.
func Add(t testing.TB, s *session.Session, items ...transcript.Item) []string {
	t.Helper()
	ids, err := s.Append(t.Context(), items...)
	require.NoError(t, err)
	return ids
}

// Info describes a session.
func Info(t testing.TB, s *session.Session) session.Info {
	t.Helper()
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	return info
}

// Head returns the ID of the last message, compaction or rewind of a session, or "".
func Head(ctx context.Context, s *session.Session) (id string, err error) {
	err = s.View(ctx, func(v *session.View) error {
		id = v.Fold().Head()
		return nil
	})
	return id, err
}

// Turns returns the number of turns of a session. It reads only the lines of its history.
func Turns(t testing.TB, s *session.Session) (n int) {
	t.Helper()
	require.NoError(t, s.View(t.Context(), func(v *session.View) error {
		n = v.Fold().Turns()
		return nil
	}))
	return n
}

// Entries returns the entries of a session.
func Entries(t *testing.T, s *session.Session) (all []transcript.Entry) {
	t.Helper()
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		all = append(all, e)
	}
	return all
}

// EntryIDs returns the IDs of the entries of a session.
func EntryIDs(t *testing.T, s *session.Session) (ids []string) {
	t.Helper()
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		ids = append(ids, e.ID)
	}
	return ids
}

// Lines returns the entries of a session as the lines of its transcript.
func Lines(t *testing.T, s *session.Session) (lines []string) {
	t.Helper()
	for e, err := range s.Entries(t.Context(), "") {
		require.NoError(t, err)
		lines = append(lines, string(e.Line()))
	}
	return lines
}

// End returns the place after the last record of a session.
func End(t *testing.T, s *session.Session) (at int64) {
	t.Helper()
	for rec, err := range s.Scan(t.Context(), session.ScanOptions{}) {
		require.NoError(t, err)
		at = rec.End
	}
	return at
}

// PendingEntry returns the entry of a pending call, or "" if the call is not pending.
func PendingEntry(s *session.Session, callID string) string {
	p, err := s.Pending(Background)
	for _, c := range p.Calls {
		if err == nil && c.Call.ID == callID {
			return c.Entry
		}
	}
	return ""
}
