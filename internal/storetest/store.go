package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session"
)

// Unsynced are the options of a store that syncs nothing.
var Unsynced = &session.Options{Sync: session.SyncNever}

// Open opens a store in a folder.
func Open(t testing.TB, dir string, opts *session.Options) *session.Store {
	t.Helper()
	st, err := session.Open(dir, opts)
	require.NoError(t, err)
	return st
}

// Close closes a store, which must succeed.
func Close(t testing.TB, st *session.Store) {
	t.Helper()
	require.NoError(t, st.Close())
}

// List describes the sessions of a store.
func List(t testing.TB, st *session.Store, opts *session.ListOptions) []session.Info {
	t.Helper()
	infos, err := st.List(t.Context(), opts)
	require.NoError(t, err)
	return infos
}

// ListIDs returns the IDs of the sessions of a store, in the order of List.
func ListIDs(t testing.TB, st *session.Store, opts *session.ListOptions) (ids []string) {
	t.Helper()
	for _, i := range List(t, st, opts) {
		ids = append(ids, i.ID)
	}
	return ids
}
