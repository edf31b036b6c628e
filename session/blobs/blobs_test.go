package blobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/storetest"
	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/blobs/blobstest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// with returns options with a filter that keeps blobs.
func with(b blobs.Store, opts *blobs.Options) *session.Options {
	return &session.Options{Filters: []session.Filter{blobs.Filter(b, opts)}}
}

func TestFolder(t *testing.T) {
	blobstest.TestStore(t, func(t *testing.T, refs ...session.Ref) func() blobs.Store {
		dir := t.TempDir()
		st := storetest.Open(t, dir, nil)
		defer storetest.Close(t, st)
		for _, ref := range refs {
			require.NoError(t, storetest.ErrOf(st.Create(t.Context(), session.Key{Agent: ref.Agent, Channel: "test", Peer: "p"}, &session.CreateOptions{ID: ref.ID})))
		}
		return func() blobs.Store { return blobs.Folder(dir) }
	})
}

func TestMemory(t *testing.T) {
	blobstest.TestStore(t, func(*testing.T, ...session.Ref) func() blobs.Store {
		m := blobs.Memory()
		return func() blobs.Store { return m }
	})
}
