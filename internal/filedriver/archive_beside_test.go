package filedriver_test

import (
	"bytes"
	"fmt"
	"iter"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// While a transcript exists its archive does not count; the next archive replaces
// it, and no older one does.
func TestTranscriptBeatsArchive(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	old, err := os.ReadFile(archivePath(dir, "a"))
	require.NoError(t, err)
	require.NoError(t, d.Restore(t.Context(), ref))
	add(t, d, ref, "1")
	require.NoError(t, d.Close())
	require.NoError(t, os.WriteFile(archivePath(dir, "a"), old, 0o600))
	for _, lost := range []bool{false, true} {
		if lost {
			loseIndex(t, dir)
		}
		d = open(t, dir, nil)
		row, err := d.Get(t.Context(), ref)
		require.NoError(t, err)
		require.False(t, row.Archived)
		require.Equal(t, []string{"a", "1"}, scanned(t, d, ref))
		require.Equal(t, "a", load(t, d, "k", ""))
		create(t, d, fmt.Sprint("other", lost), "other")
		require.True(t, exists(archivePath(dir, "a")), "a writer leaves it")
		require.NoError(t, d.Close())
	}
	d = open(t, dir, nil)
	require.NoError(t, d.Restore(t.Context(), ref))
	require.False(t, exists(archivePath(dir, "a")), "restoring removes it")
	require.NoError(t, os.WriteFile(archivePath(dir, "a"), old, 0o600))
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	require.Equal(t, []string{"a", "1"}, scanned(t, d, ref))
	require.NoError(t, os.WriteFile(archivePath(dir, "a")+".tmp-0123456789abcdef", old, 0o600))
	require.NoError(t, d.Restore(t.Context(), ref))
	require.False(t, exists(archivePath(dir, "a")+".tmp-0123456789abcdef"))
}

// An archive with lines that its transcript lacks is not removed, by the next writer
// or a call about the session: it may be their only copy. A deletion removes both.
func TestArchiveWithLinesThatTheTranscriptLacks(t *testing.T) {
	for _, c := range []struct {
		name string
		left func(whole []byte) []byte
	}{
		{"nothing", func([]byte) []byte { return nil }},
		{"NULs", func(whole []byte) []byte { return make([]byte, 2*len(whole)) }},
		{"the first line", func(whole []byte) []byte { return whole[:bytes.IndexByte(whole, '\n')+1] }},
		{"a changed letter", func(whole []byte) []byte { return bytes.Replace(whole, []byte(`"id":"1"`), []byte(`"id":"2"`), 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			d := open(t, dir, nil)
			ref := create(t, d, "a", "k").Ref()
			add(t, d, ref, "1")
			require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
			require.NoError(t, d.Close())
			whole := unzip(t, archivePath(dir, "a"))
			require.NoError(t, os.WriteFile(d.Path(ref), c.left(whole), 0o600))
			for _, lost := range []bool{false, true} {
				if lost {
					loseIndex(t, dir)
				}
				d = open(t, dir, nil)
				create(t, d, fmt.Sprint("other", lost), "other")
				require.ErrorContains(t, d.Restore(t.Context(), ref), archivePath(dir, "a"))
				require.Error(t, d.Archive(t.Context(), ref, driver.Anywhere))
				require.Equal(t, whole, unzip(t, archivePath(dir, "a")))
				require.NoError(t, d.Close())
			}
			d = open(t, dir, nil)
			require.NoError(t, d.Delete(t.Context(), driver.Anywhere, ref))
			require.False(t, exists(archivePath(dir, "a")))
			require.False(t, exists(d.Path(ref)))
		})
	}
}

// An erase removes the archive next to a transcript, even one with lines that the
// transcript lacks: its words must go.
func TestEraseRemovesTheArchiveBeside(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	add(t, d, ref, "1")
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	require.NoError(t, d.Close())
	whole := unzip(t, archivePath(dir, "a"))
	require.NoError(t, os.WriteFile(d.Path(ref), whole[:bytes.IndexByte(whole, '\n')+1], 0o600))

	d = open(t, dir, nil)
	require.NoError(t, d.Rewrite(t.Context(), ref, func(_ iter.Seq2[transcript.Record, error], write func([]byte) error) error {
		return write(transcript.Entry{ID: "a", Body: transcript.Header{Version: transcript.Version, Key: "k", Gen: 1, Rev: 1}}.Line())
	}))
	require.False(t, exists(archivePath(dir, "a")))
}

// A transcript whose removal took effect despite its error is archived, not
// lost.
func TestArchiveWhoseTranscriptIsGone(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	d.SetStep(func(step string) {
		if step == "archive: remove transcript" {
			require.NoError(t, os.Remove(d.Path(ref)))
		}
	})
	require.NoError(t, d.Archive(t.Context(), ref, driver.Anywhere))
	require.Equal(t, []string{"a"}, scanned(t, d, ref))
	require.True(t, list(t, d)[0].Archived)
}
