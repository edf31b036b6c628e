package filedriver

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/convolog/convolog/internal/blockgzip"
	"github.com/convolog/convolog/internal/filelog"
	"github.com/convolog/convolog/session/driver"
)

const (
	archiveFolder = "archive"
	gzipExtension = ".gz"
)

// archiveName returns the name of a session's archive in the folder of its agent.
func archiveName(id string) string { return archiveFolder + "/" + fileName(id) + gzipExtension }

// hasArchive reports whether there is an archive of a session. While there is a
// transcript too, it does not count.
func (a *agent) hasArchive(id string) (bool, error) {
	info, err := a.root.Lstat(archiveName(id))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, a.d.wrap("find session "+id, filepath.Join(a.dir, archiveName(id)), err, "check that this user may read it")
	}
	return info.Mode().IsRegular(), nil
}

func (a *agent) archivedError(id string) error {
	return a.d.wrap("write session "+id, filepath.Join(a.dir, archiveName(id)), driver.ErrArchived, "nothing was written; restore it first")
}

// sizeOf returns the size of a transcript; of an archived one the size in its archive,
// 0 if unknown.
func (a *agent) sizeOf(f found) int64 {
	if !f.archived {
		return f.size
	}
	o, err := a.open(f)
	if err != nil {
		return 0 // readers get the error
	}
	o.close()
	return o.row.Size
}

// A packed is the archive of a transcript, in the making until it is installed.
type packed struct {
	*filelog.Draft
	size int64 // of the transcript
	sum  []byte
}

// newPacked begins an archive. The caller holds the lock of the index, so that a
// deletion or an erase finds the file.
func (a *agent) newPacked(id string) (*packed, error) {
	if err := a.d.folder("agents/"+filepath.Base(a.dir)+"/"+archiveFolder, true); err != nil {
		return nil, err
	}
	if err := cmp.Or(a.syncFolders(), filelog.SyncDir(a.root, ".")); err != nil { // the latter for the archives
		return nil, err
	}
	name := archiveName(id)
	if err := filelog.RemoveTemps(a.root, name); err != nil {
		return nil, err
	}
	draft, err := filelog.NewDraft(a.root, name)
	if err != nil {
		return nil, err
	}
	return &packed{Draft: draft}, nil
}

// holds reports whether an archive can be installed that holds a transcript as it is.
// The caller holds the lock of the index and the append lock.
func (p *packed) holds(r io.ReaderAt, row driver.Row) bool {
	return p != nil && p.size == row.Size && p.Named() && same(r, row.Size, p.size, p.sum) == nil
}

// pack writes the archive of a transcript up to the size in its row. When the error
// is nil, the archive holds the same bytes and is on stable storage, except for its
// name.
func (a *agent) pack(p *packed, r io.ReaderAt, row driver.Row) error {
	row.Archived = true
	note, _ := json.Marshal(storable(row)) // never fails
	if len(note) > blockgzip.MaxNote {
		note = nil // the index is then made again from the content
	}
	a.d.at("archive: write")
	sum := sha256.New()
	out := bufio.NewWriterSize(p, 256<<10)
	err := blockgzip.Write(out, io.TeeReader(io.NewSectionReader(r, 0, row.Size), sum), note)
	a.d.at("archive: written")
	if err = cmp.Or(err, out.Flush()); err != nil {
		return err
	}
	p.size, p.sum = row.Size, sum.Sum(nil)
	size, err := p.Sync()
	if err != nil {
		return err
	}
	a.d.at("archive: verify")
	z, err := blockgzip.Open(p, size)
	if err != nil {
		return err
	}
	return same(z, z.Size(), p.size, p.sum)
}

// unpack writes the transcript of an archive. When the error is nil the transcript
// is on stable storage and has the same bytes.
func (a *agent) unpack(f found) error {
	z, err := a.open(f)
	if err != nil {
		return err
	}
	defer z.close()
	out, err := filelog.NewDraft(a.sess, fileName(f.id))
	if err != nil {
		return err
	}
	defer out.Discard()
	a.d.at("restore: write")
	sum := sha256.New()
	_, err = io.CopyBuffer(io.MultiWriter(out, sum), io.NewSectionReader(z, 0, z.size), make([]byte, blockgzip.BlockSize))
	a.d.at("restore: written")
	if err != nil {
		return err
	}
	size, err := out.Sync()
	if err != nil {
		return err
	}
	a.d.at("restore: verify")
	if err := same(out, size, z.size, sum.Sum(nil)); err != nil {
		return err
	}
	a.d.at("restore: rename")
	return out.Install()
}

// same returns an error unless what r has is as long and has the same hash.
func same(r io.ReaderAt, size, want int64, sum []byte) error {
	if size != want {
		return fmt.Errorf("%d bytes were written and %d are there", want, size)
	}
	again := sha256.New()
	if _, err := io.Copy(again, io.NewSectionReader(r, 0, size)); err != nil {
		return err
	}
	if !bytes.Equal(again.Sum(nil), sum) {
		return errors.New("other bytes were written than are there")
	}
	return nil
}

// removeBeside removes the archive of a session that has a transcript, unless it
// contains lines that the transcript lacks, as after a partial restore from a backup or
// a partial copy of the folder. The archive may be the only durable copy: the process
// that was to replace it was killed before it had synced the name of the transcript.
func (a *agent) removeBeside(id string) error {
	f, err := a.stat(id)
	if err != nil || f.archived {
		return nil // the transcript was not announced
	}
	has, err := a.hasArchive(id)
	if has {
		archive := found{file: archiveName(id), id: id, archived: true}
		err = a.d.wrap("remove archive", a.path(archive), a.supersedes(f, archive), "the transcript beside it counts; inspect both and move one of them away")
		if err == nil {
			err = filelog.SyncDir(a.sess, ".")
		}
	}
	if err != nil {
		return err
	}
	return a.removeArchive(id)
}

// supersedes returns an error unless a transcript begins with all that an archive of
// its session has, or has been erased since.
func (a *agent) supersedes(transcript, archive found) error {
	if _, older, err := a.header(archive); err == nil {
		if _, newer, err := a.header(transcript); err == nil && newer.Rev > older.Rev {
			return nil
		}
	}
	was, err := a.open(archive)
	if err != nil {
		return err
	}
	defer was.close()
	now, err := a.open(transcript)
	if err != nil {
		return err
	}
	defer now.close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(was, 0, was.size)); err != nil {
		return err
	}
	if now.size < was.size || same(now, was.size, was.size, sum.Sum(nil)) != nil {
		return errors.New("it has lines that the transcript lacks")
	}
	return nil
}

// removeArchive removes the archive of a session, if there is one, and any other one
// in the making. It syncs nothing: an archive that returns after a power cut does not
// count next to a transcript. The caller holds the lock of the index: a process that
// packs ahead finds out before it installs its archive.
func (a *agent) removeArchive(id string) error {
	name := archiveName(id)
	for _, err := range []error{a.root.Remove(name), filelog.RemoveDrafts(a.root, name)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return a.d.wrap("remove archive", filepath.Join(a.dir, name), err, "")
		}
	}
	return nil
}
