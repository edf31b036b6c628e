package filedriver_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/convolog/convolog/internal/filedriver"
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript"
)

// Only the turn is locked while a transcript is packed. Entries appended then are in the
// archive, and any other change leaves one session.
func TestArchiveWhileItChanges(t *testing.T) {
	for name, during := range map[string]func(t *testing.T, other *filedriver.Driver, ref driver.Ref){
		"nothing": func(*testing.T, *filedriver.Driver, driver.Ref) {},
		"append":  func(t *testing.T, other *filedriver.Driver, ref driver.Ref) { add(t, other, ref, "late") },
		"turn": func(t *testing.T, other *filedriver.Driver, ref driver.Ref) {
			_, err := other.LockTurn(t.Context(), ref, false)
			require.ErrorIs(t, err, driver.ErrBusy)
			require.ErrorIs(t, other.Archive(t.Context(), ref, driver.Anywhere), driver.ErrBusy)
		},
		"a writer that cleans up": func(t *testing.T, other *filedriver.Driver, _ driver.Ref) { create(t, other, "other", "k") },
		"restore": func(t *testing.T, other *filedriver.Driver, ref driver.Ref) {
			require.NoError(t, other.Restore(t.Context(), ref))
		},
	} {
		for _, anywhere := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", anywhere ", anywhere), func(t *testing.T) {
				dir := t.TempDir()
				d, other := open(t, dir, nil), open(t, dir, nil)
				ref := create(t, d, "a", "k").Ref()
				at := addLong(t, d, ref)
				if anywhere {
					at = driver.Anywhere
				}
				packed := 0
				d.SetStep(func(step string) {
					if step != "archive: packed" {
						return
					}
					if packed++; packed == 1 {
						during(t, other, ref)
					}
				})
				err := d.Archive(t.Context(), ref, at)
				want, tries := []string{"a", "long"}, 1
				if name == "append" {
					want = append(want, "late")
				}
				if name == "restore" || name == "append" && anywhere { // restore removes the packed file
					tries = 2
				}
				require.Equal(t, tries, packed)
				require.Equal(t, want, scanned(t, d, ref))
				require.Equal(t, want, scanned(t, other, ref))
				if name == "append" && !anywhere {
					require.ErrorIs(t, err, driver.ErrConflict)
				} else {
					require.NoError(t, err)
				}
				require.Equal(t, err != nil, exists(d.Path(ref)))
				require.Equal(t, err == nil, exists(archivePath(dir, "a")))
			})
		}
	}
}

// If appends do not end, an archive gives up and leaves no file.
func TestArchiveUnderAppends(t *testing.T) {
	dir := t.TempDir()
	d, other := open(t, dir, nil), open(t, dir, nil)
	ref := create(t, d, "a", "k").Ref()
	n := 0
	d.SetStep(func(step string) {
		if step == "archive: packed" {
			n++
			add(t, other, ref, fmt.Sprint(n))
		}
	})
	require.ErrorIs(t, d.Archive(t.Context(), ref, driver.Anywhere), driver.ErrConflict)
	require.Len(t, scanned(t, d, ref), n+1)
	files, err := os.ReadDir(filepath.Dir(archivePath(dir, "a")))
	require.NoError(t, err)
	require.Empty(t, files)
	require.NoError(t, errors.Join(d.Close(), other.Close()))
}

// addLong adds a line of 1.5 MB.
func addLong(t *testing.T, d *filedriver.Driver, ref driver.Ref) driver.Cursor {
	t.Helper()
	text := fmt.Appendf(nil, "%q", strings.Repeat("word ", 60<<10))
	e := transcript.Entry{ID: "long", Body: transcript.Custom{Name: "note", Data: text}}
	res, err := d.Append(t.Context(), ref, []driver.Line{{ID: e.ID, Data: e.Line()}}, driver.Anywhere, nil)
	require.NoError(t, err)
	return res.End
}

// When a deletion or an erase returns, no word is in an archive that another process is
// making, even if that one is killed in the next moment, continues or gives up.
func TestWordsGoDuringAnArchive(t *testing.T) {
	t.Parallel()
	erase := func(other *filedriver.Driver, ref driver.Ref) error {
		err := other.Rewrite(t.Context(), ref, wordless)
		plan, planErr := other.Create(t.Context(), driver.KeyRef{Agent: "_erase", Key: "k"}, header("plan", "k"))
		return errors.Join(err, planErr, other.Delete(t.Context(), driver.Anywhere, plan.Ref()))
	}
	remove := func(other *filedriver.Driver, ref driver.Ref) error {
		return other.Delete(t.Context(), driver.Anywhere, ref)
	}
	for _, test := range []struct {
		name     string
		do       func(other *filedriver.Driver, ref driver.Ref) error
		giveUp   bool
		archived error
		left     []string
	}{
		{"delete", remove, false, fs.ErrNotExist, nil},
		{"delete and give up", remove, true, context.Canceled, nil},
		{"erase", erase, false, driver.ErrReplaced, []string{"a"}},
		{"erase and give up", erase, true, context.Canceled, []string{"a"}},
	} {
		for _, at := range []string{"archive: write", "archive: written", "archive: verify", "archive: packed"} {
			t.Run(test.name+" at "+at, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				d, other := open(t, dir, nil), open(t, dir, nil)
				ref := create(t, d, "a", words[3]).Ref()
				addLong(t, d, ref)
				archives := func() []fs.DirEntry {
					files, err := os.ReadDir(filepath.Dir(archivePath(dir, "a")))
					require.NoError(t, err)
					return files
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				did := false
				d.SetStep(func(step string) {
					if step == at && !did {
						did = true
						require.NoError(t, test.do(other, ref))
						require.Empty(t, archives())
					}
					if step == "archive: packed" && test.giveUp {
						cancel()
					}
				})
				require.ErrorIs(t, d.Archive(ctx, ref, driver.Anywhere), test.archived)
				require.True(t, did)
				require.Empty(t, archives())
				require.NoError(t, errors.Join(d.Close(), other.Close()))
				d = open(t, dir, nil)
				require.Equal(t, test.left, ids(list(t, d)))
				for _, id := range test.left {
					require.NoError(t, d.Archive(t.Context(), driver.Ref{Agent: "main", ID: id}, driver.Anywhere))
					require.NotContains(t, string(unzip(t, archivePath(dir, id))), "word")
				}
			})
		}
	}
}

// An append to a session that another process has archived is refused.
func TestAppendToAnArchived(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	row := create(t, d, "a", "k")
	row.Size = int64(add(t, d, row.Ref(), "1").End)
	require.NoError(t, d.Put(t.Context(), row))
	other := open(t, dir, nil)
	require.NoError(t, other.Archive(t.Context(), row.Ref(), driver.Anywhere))
	_, err := d.Append(t.Context(), row.Ref(), notes(1), driver.Anywhere, nil)
	require.ErrorIs(t, err, driver.ErrArchived)
	require.NoError(t, errors.Join(other.Close(), d.Close()))
}

// A session is listed and found while another process archives or restores it.
func TestListedWhileItMoves(t *testing.T) {
	for _, step := range []string{"compare: archives", "get: found"} {
		dir := t.TempDir()
		d, other := open(t, dir, nil), open(t, dir, nil)
		ref := create(t, d, "a", "k").Ref()
		moves := 0
		d.SetStep(func(name string) {
			if name == step && moves == 0 {
				moves++
				require.NoError(t, other.Archive(t.Context(), ref, driver.Anywhere))
			}
		})
		create(t, other, "b", "other key")
		loseIndex(t, dir)
		_, err := d.Get(t.Context(), ref)
		require.NoError(t, err)
		require.Len(t, list(t, d), 2)
		require.Equal(t, 1, moves)
		if step == "get: found" {
			d.SetStep(func(name string) {
				if name == step && moves == 1 {
					moves++
					require.NoError(t, other.Restore(t.Context(), ref))
				}
			})
			loseIndex(t, dir)
			_, err = d.Get(t.Context(), ref)
			require.NoError(t, err)
			require.Equal(t, 2, moves)
		}
		require.NoError(t, errors.Join(other.Close(), d.Close()))
	}
}
