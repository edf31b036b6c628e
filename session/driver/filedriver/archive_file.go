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
	"github.com/convolog/convolog/session/driver"
	"github.com/convolog/convolog/transcript/filelog"
)

const (
	archiveFolder = "archive"
	gzipExtension = ".gz"
)

// archiveName returns the name of a session's archive in the folder of its agent.
func archiveName(id string) string { return archiveFolder + "/" + fileName(id) + gzipExtension }

// hasArchive reports whether there is an archive of a session. While there is a
// transcript too, it does not count.
func (a *agent) hasArchive(id string) bool {
	info, err := a.root.Lstat(archiveName(id))
	return err == nil && info.Mode().IsRegular()
}

// archivedError says that a session is archived.
func (a *agent) archivedError(ref driver.Ref) error {
	return a.d.wrap("write session "+ref.ID, filepath.Join(a.dir, archiveName(ref.ID)), driver.ErrArchived, "nothing was written; restore it first")
}

// sizeOf returns the size of a transcript. That of an archived one is what its archive
// says, 0 if that is not known.
func (a *agent) sizeOf(f found) int64 {
	if !f.archived {
		return f.size
	}
	o, err := a.open(f)
	if err != nil {
		return 0 // whoever reads it learns what is wrong
	}
	o.close()
	return o.row.Size
}

// packed is a transcript as it was when it was packed.
type packed struct {
	size int64
	sum  []byte
}

// isPacked reports whether the archive holds a transcript as it is. The caller holds
// the append lock.
func (a *agent) isPacked(p packed, r io.ReaderAt, row driver.Row) bool {
	return p.size == row.Size && p.size > 0 && a.hasArchive(row.ID) && same(r, row.Size, p.size, p.sum) == nil
}

// pack writes the archive of a transcript as large as its row says. When the error
// is nil the archive is on stable storage and has the same bytes.
func (a *agent) pack(r io.ReaderAt, row driver.Row) (packed, error) {
	if err := a.d.folder("agents/"+filepath.Base(a.dir)+"/"+archiveFolder, true); err != nil {
		return packed{}, err
	}
	row.Archived = true
	note, _ := json.Marshal(storable(row)) // never fails
	if len(note) > blockgzip.MaxNote {
		note = nil // the index is then made again from the content
	}
	name := archiveName(row.ID)
	if err := filelog.RemoveTemps(a.root, name); err != nil {
		return packed{}, err
	}
	sum := sha256.New()
	write := func(w io.Writer) error {
		a.d.at("archive: write")
		out := bufio.NewWriterSize(w, 256<<10)
		in := io.TeeReader(io.NewSectionReader(r, 0, row.Size), sum)
		err := blockgzip.Write(out, in, note)
		a.d.at("archive: written")
		return cmp.Or(err, out.Flush())
	}
	verify := func(r io.ReaderAt, size int64) error {
		a.d.at("archive: verify")
		z, err := blockgzip.Open(r, size)
		if err == nil {
			err = same(z, z.Size(), row.Size, sum.Sum(nil))
		}
		a.d.at("archive: rename")
		return err
	}
	err := filelog.WriteAtomic(a.root, name, write, verify)
	return packed{row.Size, sum.Sum(nil)}, err
}

// unpack writes the transcript of an archive. When the error is nil the transcript
// is on stable storage and has the same bytes.
func (a *agent) unpack(f found) error {
	z, err := a.open(f)
	if err != nil {
		return err
	}
	defer z.close()
	sum := sha256.New()
	write := func(w io.Writer) error {
		a.d.at("restore: write")
		_, err := io.CopyBuffer(io.MultiWriter(w, sum), io.NewSectionReader(z, 0, z.size), make([]byte, blockgzip.BlockSize))
		a.d.at("restore: written")
		return err
	}
	verify := func(r io.ReaderAt, size int64) error {
		a.d.at("restore: verify")
		err := same(r, size, z.size, sum.Sum(nil))
		a.d.at("restore: rename")
		return err
	}
	return filelog.WriteAtomic(a.sess, fileName(f.id), write, verify)
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

// removeArchive removes the archive of a session, if there is one, and what a
// killed process has left of another one. It syncs nothing: beside a transcript an
// archive that is there again after a power cut does not count.
func (a *agent) removeArchive(id string) error {
	name := archiveName(id)
	for _, err := range []error{a.root.Remove(name), filelog.RemoveTemps(a.root, name)} {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return a.d.wrap("remove archive", filepath.Join(a.dir, name), err, "")
		}
	}
	return nil
}
