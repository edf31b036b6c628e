package blobs_test

import (
	"testing"

	"github.com/convolog/convolog/session"
	"github.com/convolog/convolog/session/blobs"
	"github.com/convolog/convolog/session/blobs/blobstest"
)

func TestFolder(t *testing.T) {
	blobstest.TestBlobs(t, func(t *testing.T, _ ...session.Ref) func() session.Blobs {
		dir := t.TempDir()
		return func() session.Blobs { return blobs.New(dir) }
	})
}

func TestMemory(t *testing.T) {
	blobstest.TestBlobs(t, func(*testing.T, ...session.Ref) func() session.Blobs {
		m := blobs.NewMemory()
		return func() session.Blobs { return m }
	})
}
